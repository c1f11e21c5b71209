"""What is known of every computer, be it this one or a fake; it is only looked at. And what every clock does."""

from __future__ import annotations

import asyncio
import importlib.util
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from rackless.drivers.clock import SystemClock
from rackless.drivers.computer import LinuxComputer
from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.computer import FakeComputer
from rackless.drivers.fake.world import FakeWorld
from rackless.ports.clock import Clock
from rackless.ports.computer import Computer


@pytest.fixture(params=["linux", "fake"])
def computer(request: pytest.FixtureRequest) -> Computer:
    return LinuxComputer() if request.param == "linux" else FakeComputer()


def test_its_size_makes_sense(computer: Computer, tmp_path: Path) -> None:
    memory = computer.memory()
    assert 0 < memory.available <= memory.total
    assert computer.cpus() >= 1
    assert computer.free_bytes(tmp_path / "not" / "there" / "yet") > 0
    assert (computer.fsync_seconds(tmp_path) or 1.0) > 0
    assert list(tmp_path.iterdir()) == [], "the measurement leaves nothing"


def test_one_start_has_one_name(computer: Computer) -> None:
    assert computer.boot_id() == computer.boot_id() != ""
    assert computer.kernel_log().is_absolute()


def test_what_is_there_is_told_from_what_is_not(computer: Computer) -> None:
    assert computer.has_program("sh") and computer.has_file(Path("/proc/self")) and computer.has_module("asyncio")
    if isinstance(computer, FakeComputer):
        computer.lacking |= {"no-such-program", "no_such_module"}
        computer.absent.add(Path("/no/such/file"))
    assert not computer.has_program("no-such-program") and not computer.has_module("no_such_module")
    assert not computer.has_file(Path("/no/such/file")) and not computer.may_use(Path("/no/such/file"))
    assert computer.system().name and computer.system().architecture
    assert not computer.kvm_open() or computer.has_file(Path("/dev/kvm"))


def test_libvirts_binding_for_another_python_is_none_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rackless.drivers.computer._SYSTEM_MODULES", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # not in this environment
    (tmp_path / "libvirt.py").touch()
    (tmp_path / "libvirtmod.cpython-36m-x86_64-linux-gnu.so").touch()
    assert not LinuxComputer().has_module("libvirt")
    (tmp_path / f"libvirtmod{EXTENSION_SUFFIXES[0]}").touch()
    assert LinuxComputer().has_module("libvirt")


def _sleeps(clock: Clock) -> list[str]:
    woken: list[str] = []

    async def sleep(seconds: float, name: str) -> None:
        before = clock.now()
        await clock.sleep(seconds)
        assert clock.now() - before >= seconds * 0.99
        woken.append(name)

    async def story() -> list[str]:
        await asyncio.gather(sleep(0.06, "late"), sleep(0.02, "early"), sleep(0, "now"))
        return woken

    if isinstance(clock, SystemClock):
        return asyncio.run(story())
    if isinstance(clock, VirtualClock):
        return asyncio.run(clock.run(story()))
    world = FakeWorld({})
    return world.run(world.processes.as_process("test", story()))


@pytest.mark.parametrize(
    "clock", [SystemClock(), VirtualClock(), FakeWorld({}).drivers().clock], ids=["system", "virtual", "fake"]
)
def test_who_sleeps_shorter_wakes_earlier_and_nobody_too_early(clock: Clock) -> None:
    assert _sleeps(clock) == ["now", "early", "late"]
