"""The serial console of a real server, with everybody at it at once."""

from __future__ import annotations

import shutil
import sys

import pytest

from tests.real.conftest import PretendHost
from tests.real.test_ipmi_lab import Terminal, ipmitool

pytestmark = pytest.mark.real


def type_slowly(terminal: Terminal, line: bytes) -> None:
    """A BIOS takes few keys at a time: the next is typed when the last is shown."""
    start = len(terminal.shown)
    for end in range(1, len(line) + 1):
        terminal.type(line[end - 1 : end])
        terminal.until(line[:end], since=start)
    terminal.type(b"\r")


def test_all_who_are_at_a_console_see_everything_and_may_type(host: PretendHost) -> None:
    """A BIOS, too, speaks on the serial console; its network boot has a prompt to type at."""
    if shutil.which("ipmitool") is None:
        pytest.skip("ipmitool is not installed")
    (host.folder / "lab.yaml").write_text("servers: {box: {count: 1, role: spare, firmware: bios}}\n")
    host.rackless("up", "--until", "bmc")
    tool = ipmitool(host, host.status()["servers"][0]["bmc"].split("//")[1].split("/")[0].split(":")[0])
    own = host.enter(sys.executable, "-P", "-m", "rackless", "console", "box-0")
    terminals = [Terminal(host.enter(*tool, "sol", "activate"), host.environment)]
    try:
        terminals[0].until(b"operational")
        host.rackless("power", "box-0", "on")
        terminals[0].until(b"iPXE>", 120, typing=b"\x02")  # it waits two seconds for that
        terminals += [Terminal(own, host.environment), Terminal(own, host.environment)]
        for terminal in terminals:
            terminal.until(b"SeaBIOS (version")
        answer = b""
        for number, terminal in enumerate(terminals):
            terminal.until(b"iPXE>", since=terminal.shown.find(answer))  # the prompt after the last answer
            type_slowly(terminal, f"echo number-{number}".encode())
            answer = f"number-{number}\r\nnumber-{number}".encode()
            for other in terminals:
                other.until(answer)
        terminals[0].type(b"\r~.")
        terminals[0].until(b"terminated")
        for terminal in terminals[1:]:
            terminal.type(b"\x1d")
            terminal.until(b"end of the console")
    finally:
        for terminal in terminals:
            terminal.close()
    log = (host.folder / "state/lab/logs/console/box-0.log").read_bytes()
    assert all(f"\nnumber-{number}\r".encode() in log for number in range(3))
    host.rackless("screenshot", "box-0")
    assert (host.folder / "box-0.png").read_bytes().startswith(b"\x89PNG")
