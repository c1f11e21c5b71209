from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rackless.daemon import prepare
from rackless.events import Bus
from rackless.lab import libvirtd
from rackless.ports.process import Completed


class Debian:
    """A machine whose libvirt is in one package, or whose parts are packages of their own."""

    def __init__(self, plugin: Path, whole: Sequence[str]) -> None:
        self.plugin, self.whole = plugin, whole
        self.present, self.installs = set[str](), list[list[str]]()

    async def run(self, argv: Sequence[str | Path], **_: Any) -> Completed:
        words = [str(word) for word in argv]
        answer = ""
        if words[0] == "dpkg-query":
            answer = "".join(f"{name} installed\n" for name in words if name in self.present)
        elif words[1] == "install":
            new = [word for word in words[2:] if not word.startswith("-")]
            self.installs.append(new)
            self.present |= set(new)
            if self.present & set(self.whole):
                self.plugin.touch()
        return Completed(tuple(words), 0, answer, "")


@pytest.mark.parametrize(
    ("has_the_driver", "installed"),
    [("libvirt-daemon", [["libvirt-daemon", "lz4"]]), ("driver", [["libvirt-daemon", "lz4"], ["driver"]])],
)
async def test_what_a_newer_release_has_split_off_is_installed_there_and_only_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_the_driver: str, installed: list[list[str]]
) -> None:
    plugin = tmp_path / "driver.so"
    machine = Debian(plugin, [has_the_driver])
    monkeypatch.setattr(libvirtd, "SPLIT_OFF", {"driver": ("libvirt-daemon", plugin)})
    monkeypatch.setattr(prepare, "LocalProcesses", lambda: machine)
    for _ in range(2):
        await prepare.ensure_packages(["libvirt-daemon", "lz4"], Bus(), install=True)
    assert machine.installs == installed


async def test_a_package_that_does_not_bring_its_file_is_not_installed_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Debian(tmp_path / "driver.so", [])
    monkeypatch.setattr(libvirtd, "SPLIT_OFF", {"driver": ("libvirt-daemon", machine.plugin)})
    monkeypatch.setattr(prepare, "LocalProcesses", lambda: machine)
    await prepare.ensure_packages(["libvirt-daemon"], Bus(), install=True)
    assert machine.installs == [["libvirt-daemon"], ["driver"]]
