"""The resolvers of a computer themselves, told of exposed names by what `rackless expose --resolver` prints, and of none any more.

NetworkManager with its dnsmasq, and systemd-resolved, out of Debian's packages, in a pretend host. There is no systemd: what it is
asked for, the test does.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rackless.plan.addressing import plan_lab
from rackless.plan.exposure import Forward, forwards, places
from rackless.plan.resolvers import DropIn, Resolver, drop_in
from rackless.spec.load import parse
from tests.real import node_programs
from tests.real.conftest import PretendHost
from tests.real.test_network_manager import PACKAGES, Managed, managed  # noqa: F401 - a fixture

pytestmark = [pytest.mark.real, pytest.mark.long("reach")]

NAME = "box-0-bmc.lab.rackless.test"
ASK = """
import socket, struct, sys
name, server = sys.argv[1], sys.argv[2]
question = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\\0" + struct.pack("!HH", 1, 1)
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.settimeout(5)
line.connect((server, 53))
line.send(struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + question)
answer = line.recv(4096)
print(socket.inet_ntoa(answer[-4:]) if struct.unpack("!6H", answer[:12])[3] else "unknown")
"""
"""One question for an address; the last four bytes of an answer without more are the address."""
SITE = """
ip link add eth0 type veth peer name eth0-far
ip address add 192.0.2.2/24 dev eth0
ip link set eth0 up
ip link set eth0-far up
"""
"""A network that leads nowhere: without one, resolved asks nobody."""
RESOLVED = "/lib/systemd/systemd-resolved"


def told() -> list[Forward]:
    """The BMC of one server, as it is exposed on loopback."""
    plan = plan_lab(parse("servers: {box: {role: spare}}", "lab.yaml"))
    return forwards(places(plan, "bmc"), "127.0.0.1", None, ())


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    """What `managed` runs, and what it runs itself; systemd-resolved beside it."""
    with node_programs.unpacked((*PACKAGES, "dnsmasq-base", "systemd-resolved", "dash", "coreutils")) as root:
        yield root


def run_in(host: PretendHost, root: Path, script: str, **stand_ins: str) -> None:
    """A root shell's paste, in the folder where these programs are; `stand_ins` are those that speak to systemd."""
    for name, text in stand_ins.items():
        program = root / "usr/local/bin" / name.replace("_", "-")
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/dash\n{text}\n")
        program.chmod(0o755)
    shell = ("chroot", str(root), "/usr/bin/env", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "dash", "-eu")
    subprocess.run(host.enter(*shell), input=script, text=True, check=True)


def asked(host: PretendHost, name: str, server: str) -> str:
    done = host.run(sys.executable, "-c", ASK, name, server, check=False)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2]


def await_answer(host: PretendHost, name: str, server: str, *wanted: str) -> None:
    deadline = time.monotonic() + 60
    while (found := asked(host, name, server)) not in wanted:
        said = "".join(log.read_text(errors="replace")[-2000:] for log in host.folder.glob("*.log"))
        assert time.monotonic() < deadline, f"{name} is {found!r} to {server}\n{said}"
        time.sleep(0.5)


def test_networkmanagers_dnsmasq_answers_exposed_names_until_they_are_taken_away(managed: Managed) -> None:  # noqa: F811
    host, made = managed.host, drop_in(Resolver.NETWORK_MANAGER, "lab", told())
    reload = 'test "$*" = "reload NetworkManager" && exec nmcli general reload'  # as the unit's ExecReload
    run_in(host, managed.root, made.script, systemctl=reload)
    await_answer(host, NAME, "127.0.0.1", "127.0.0.1")
    run_in(host, managed.root, made.way_back)
    await_answer(host, NAME, "127.0.0.1", "ConnectionRefusedError: [Errno 111] Connection refused")
    assert not list((managed.root / "etc/NetworkManager").rglob("rackless-lab*"))


def test_resolved_answers_exposed_names_until_they_are_taken_away(host: PretendHost, programs: Path) -> None:
    made = drop_in(Resolver.RESOLVED, "lab", told())
    for line in SITE.strip().splitlines():
        host.run(*line.split())
    for kind in ("proc", "dev"):
        host.run("mount", "--rbind", f"/{kind}", str(programs / kind))
    for folder in ("run/systemd", "etc/systemd"):
        (programs / folder).mkdir(parents=True, exist_ok=True)
    with (programs / "etc/passwd").open("a") as passwd, (programs / "etc/group").open("a") as group:
        passwd.write("systemd-resolve:x:901:901::/:/bin/false\n")
        group.write("systemd-resolve:x:901:\n")
    running: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> None:
        with (host.folder / "resolvers.log").open("ab") as log:
            running.append(subprocess.Popen(host.enter("chroot", str(programs), *command), stdout=log, stderr=log))

    def paste(script: str) -> list[str]:
        """What systemd is asked for by it, which the test does afterwards."""
        (programs / "asked").write_text("")
        note = 'echo "${0##*/} $*" >> /asked'
        run_in(host, programs, script, systemctl=note, systemd_run=note)
        return (programs / "asked").read_text().splitlines()

    def end() -> None:
        for process in running:
            process.terminate()
            process.wait(timeout=60)
        running.clear()

    try:
        start(RESOLVED)
        await_answer(host, "localhost", "127.0.0.53", "127.0.0.1")
        assert asked(host, NAME, "127.0.0.53") != "127.0.0.1"
        wanted = paste(made.script)
        assert wanted == list(made.apply)
        end()
        start(*_words(made))
        start(RESOLVED)
        await_answer(host, NAME, "127.0.0.53", "127.0.0.1")
        assert paste(made.way_back) == list(made.undo)
        end()
        start(RESOLVED)
        await_answer(host, "localhost", "127.0.0.53", "127.0.0.1")
        assert asked(host, NAME, "127.0.0.53") != "127.0.0.1"
    finally:
        end()


def _words(made: DropIn) -> list[str]:
    """The program that systemd-run is to run."""
    return made.apply[0].split()[2:]
