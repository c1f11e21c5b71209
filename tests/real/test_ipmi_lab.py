"""IPMI of a real lab's server: the standard port, real power, and the real console over the network."""

from __future__ import annotations

import math
import os
import pty
import select
import shutil
import signal
import time

import pytest

from tests.real.conftest import PretendHost
from tests.real.test_lab_life import wait_for

pytestmark = pytest.mark.real


def ipmitool(host: PretendHost, address: str) -> list[str]:
    password = (host.folder / "state/lab/secrets/bmc.password").read_text().strip()
    inside = ["nsenter", f"--net={host.folder}/run/lab/net", "--"]
    return [*inside, "ipmitool", "-I", "lanplus", "-C", "17", "-H", address, "-U", "admin", "-P", password]


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self._pid, self._line = pty.fork()
        if self._pid == 0:
            os.execvpe(argv[0], argv, environment)
        self.shown = b""

    def type(self, text: bytes) -> None:
        os.write(self._line, text)

    def until(self, wanted: bytes, seconds: float = 60, typing: bytes = b"", since: int = 0) -> None:
        """Wait until it shows something, that is not further back than `since`.

        Meanwhile strike a key again and again, if one is to be struck in time.
        """
        end, struck = time.monotonic() + seconds, -math.inf
        while wanted not in self.shown[since:]:
            assert time.monotonic() < end, f"{wanted!r} was not shown: {self.shown[-2000:]!r}"
            if typing and time.monotonic() > struck + 0.5:
                self.type(typing)
                struck = time.monotonic()
            if select.select([self._line], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self._line, 4096)
                except OSError:
                    pytest.fail(f"it ended: {self.shown[-2000:]!r}")

    def close(self) -> None:
        """Not every program ends because its terminal does."""
        os.close(self._line)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def test_a_server_is_switched_watched_and_typed_into_by_ipmi(host: PretendHost) -> None:
    if shutil.which("ipmitool") is None:
        pytest.skip("ipmitool is not installed")
    (host.folder / "lab.yaml").write_text("servers: {box: {count: 1, role: spare}}\n")
    host.rackless("up", "--until", "bmc")
    tool = ipmitool(host, host.status()["servers"][0]["bmc"].split("//")[1].split("/")[0].split(":")[0])
    assert "off" in host.run(*tool, "power", "status").stdout
    lan = host.run(*tool, "lan", "print", "1").stdout
    assert "255.255.255.0" in lan.split("Subnet Mask", 1)[1].splitlines()[0]
    gateway = lan.split("Default Gateway IP", 1)[1].splitlines()[0].split(":")[1].strip()
    assert gateway in host.rackless("exec", "--", "ip", "-brief", "address").stdout.replace("/", " ").split()
    host.run(*tool, "chassis", "bootdev", "pxe", "options=efiboot")
    console = Terminal(host.enter(*tool, "sol", "activate"), host.environment)
    try:
        console.until(b"operational")
        host.run(*tool, "power", "on")
        assert "on" in host.run(*tool, "power", "status").stdout
        console.until(b"Start PXE over IPv4", 180)
        console.until(b"PXE-E21", 120, typing=b"\x1b")
        log = (host.folder / "state/lab/logs/console/box-0.log").read_bytes()
        assert b"Start PXE over IPv4" in log
        console.type(b"\r~.")
        console.until(b"terminated")
    finally:
        console.close()
    host.run(*tool, "power", "off")
    # a BMC answers after a moment, also when the server takes longer
    wait_for(lambda: "running" not in host.rackless("exec", "--", "virsh", "list").stdout)
    assert "S0/G0: working" in host.run(*tool, "sel", "list").stdout
