from collections.abc import Sequence
from pathlib import Path

import pytest

from rackless.drivers.fake.computer import FakeComputer
from rackless.drivers.fake.packages import FakePackages
from rackless.errors import HypervisorError
from rackless.events import Bus
from rackless.lab import libvirtd
from rackless.operations import prepare

PLUGIN = Path("/usr/lib/driver.so")


class Debian:
    """A machine whose libvirt is in one package, or whose parts are packages of their own."""

    def __init__(self, whole: Sequence[str]) -> None:
        self.whole, self.installs = whole, list[list[str]]()
        self.computer = FakeComputer(absent={PLUGIN})
        self.packages = FakePackages(
            missing={"libvirt-daemon", "lz4", "driver"}, fresh=False, at_install=self.installed
        )

    def installed(self, names: Sequence[str]) -> None:
        self.installs.append(list(names))
        if set(names) & set(self.whole):
            self.computer.absent.discard(PLUGIN)

    async def ensure(self, *wanted: str, install: bool = True) -> None:
        await prepare.ensure_packages(wanted, Bus(), self.packages, self.computer, install=install)


@pytest.mark.parametrize(
    ("has_the_driver", "installed"),
    [("libvirt-daemon", [["libvirt-daemon", "lz4"]]), ("driver", [["libvirt-daemon", "lz4"], ["driver"]])],
)
async def test_what_a_newer_release_has_split_off_is_installed_there_and_only_there(
    monkeypatch: pytest.MonkeyPatch, has_the_driver: str, installed: list[list[str]]
) -> None:
    machine = Debian([has_the_driver])
    monkeypatch.setattr(libvirtd, "SPLIT_OFF", {"driver": ("libvirt-daemon", PLUGIN)})
    for _ in range(2):
        await machine.ensure("libvirt-daemon", "lz4")
    assert machine.installs == installed


async def test_a_package_that_does_not_bring_its_file_is_not_installed_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Debian([])
    monkeypatch.setattr(libvirtd, "SPLIT_OFF", {"driver": ("libvirt-daemon", PLUGIN)})
    await machine.ensure("libvirt-daemon")
    assert machine.installs == [["libvirt-daemon"], ["driver"]]


async def test_where_nothing_may_be_installed_the_command_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Debian([])
    monkeypatch.setattr(libvirtd, "SPLIT_OFF", {})
    with pytest.raises(HypervisorError) as refused:
        await machine.ensure("lz4", install=False)
    assert refused.value.why == "lz4" and refused.value.hint == "install them: install lz4"
    assert machine.installs == []
