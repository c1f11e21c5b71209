"""NetworkManager itself, in a pretend host whose NICs it manages: it leaves alone what a lab takes, and has it back afterwards.

It comes with D-Bus out of Debian's packages; nothing is installed, and it sees the pretend host's network namespace only.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real import node_programs
from tests.real.conftest import PretendHost, kill
from tests.real.test_attach import LAB

pytestmark = pytest.mark.real

PACKAGES = ("network-manager", "dbus-daemon", "base-passwd", "busybox-static", "iproute2")
SITE = """
ip link add br0 type bridge
ip link set br0 up
ip link add nic0 type veth peer name nic0-far
ip link set nic0-far up
ip link set nic0 up
"""
CONFIG = "[main]\nauth-polkit=false\nplugins=keyfile\nno-auto-default=*\n"
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "">
<busconfig>
  <type>session</type>
  <listen>unix:path=/run/dbus/system_bus_socket</listen>
  <auth>EXTERNAL</auth>
  <policy context="default"><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy>
</busconfig>
"""


@dataclass(frozen=True, slots=True)
class Managed:
    host: PretendHost
    root: Path

    def state(self, device: str) -> str:
        """`unmanaged`, `disconnected`; empty for a device that it does not know."""
        command = ("/usr/local/bin/nmcli", "-g", "GENERAL.STATE", "device", "show", device)
        return self.host.run(*command, check=False).stdout.strip().partition(" ")[2].strip("()")

    def await_state(self, device: str, *wanted: str, within: float = 60) -> None:
        deadline = time.monotonic() + within
        while (found := self.state(device)) not in wanted:
            log = (self.host.folder / "NetworkManager.log").read_text()[-3000:]
            assert time.monotonic() < deadline, f"{device} is {found!r} to NetworkManager\n{log}"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    with node_programs.unpacked(PACKAGES) as root:
        yield root


@pytest.fixture
def managed(host: PretendHost, programs: Path) -> Iterator[Managed]:
    for line in SITE.strip().splitlines():
        host.run(*line.split())
    for kind in ("proc", "dev"):
        host.run("mount", "--rbind", f"/{kind}", str(programs / kind))  # in the pretend host's own mount namespace
    (programs / "sys").mkdir(exist_ok=True)
    host.run(
        "mount", "-t", "sysfs", "-o", "ro", "sysfs", str(programs / "sys")
    )  # where nobody writes, it needs no udev
    for folder in ("run/dbus", "var/lib/NetworkManager", "etc/NetworkManager", "etc/dbus-1"):
        (programs / folder).mkdir(parents=True, exist_ok=True)
    (programs / "etc/NetworkManager/NetworkManager.conf").write_text(CONFIG)
    (programs / "etc/dbus-1/rackless.conf").write_text(BUS)
    (programs / "etc/machine-id").write_text("0" * 31 + "1\n")
    bus = programs / "run/dbus/system_bus_socket"
    bus.unlink(missing_ok=True)
    if not (programs / "var/run").is_symlink():
        (programs / "var/run").symlink_to("/run")
    command = host.folder / "nmcli"
    command.write_text(f'#!/bin/sh\nexec chroot {programs} nmcli "$@"\n')
    command.chmod(0o755)
    host.run("mount", "-t", "tmpfs", "tmpfs", "/usr/local/bin")
    host.run("cp", str(command), "/usr/local/bin/nmcli")
    with ExitStack() as stack:
        _start(
            stack, host, programs, "dbus-daemon", "--config-file=/etc/dbus-1/rackless.conf", "--nofork", "--nopidfile"
        )
        deadline = time.monotonic() + 60
        while not bus.exists():
            assert time.monotonic() < deadline, (host.folder / "dbus-daemon.log").read_text()
            time.sleep(0.05)
        _start(stack, host, programs, "NetworkManager", "--debug")
        found = Managed(host, programs)
        found.await_state("nic0", "disconnected")
        yield found


def _start(stack: ExitStack, host: PretendHost, root: Path, name: str, *words: str) -> None:
    with (host.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(host.enter("chroot", str(root), name, *words), stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.kill)


def test_it_leaves_a_nic_alone_that_a_lab_has_and_the_labs_cable_and_has_the_nic_back(managed: Managed) -> None:
    described = managed.host.folder / "lab.yaml"
    described.write_text(LAB.replace("DEVICE", "br0"))
    managed.host.rackless("up", "--until", "lab")
    (cable,) = (
        line.split(":")[1].partition("@")[0].strip()
        for line in managed.host.run("ip", "-oneline", "link", "show", "master", "br0").stdout.splitlines()
    )
    assert managed.state(cable) == "unmanaged"
    described.write_text(LAB.replace("DEVICE", "nic0"))
    managed.host.rackless("up", "--until", "lab")
    assert managed.state("nic0") == "", "it is in the lab"
    kill(*(pid for pid, _ in managed.host.inhabitants()))
    managed.host.rackless("destroy", "--yes")
    managed.await_state("nic0", "disconnected")
    assert managed.state(cable) == ""
