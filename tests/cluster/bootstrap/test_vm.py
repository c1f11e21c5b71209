"""The VM of a bootstrap machine: made once, refused when it is another's, and nothing of it left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rackless.cluster.bootstrap import vm
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.errors import InputError
from rackless.ports.hypervisor import Power
from rackless.ports.process import Completed


class Images:
    """qemu-img, as far as it is asked."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    async def run(self, argv: Sequence[str | Path], **_: Any) -> Completed:
        words = [str(word) for word in argv]
        self.calls.append(words)
        Path(words[-2]).touch()
        return Completed(tuple(words), 0, "", "")

    async def start(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nothing keeps running")


@pytest.fixture
def wanted(tmp_path: Path) -> vm.BootstrapVm:
    nics = vm.bridges_to_nics([("baremetal", "52:54:00:AA:BB:CC"), ("provisioning", "52:54:00:aa:bb:cd")])
    return vm.BootstrapVm(
        "lab-x7k2p", nics, tmp_path, tmp_path / "console.log", Path("/cache/node.qcow2"), 2_000_300_001
    )


def test_it_is_an_overlay_of_the_node_image_with_its_config_in_the_firmware(wanted: vm.BootstrapVm) -> None:
    server = wanted.server
    assert server.name == "lab-x7k2p-bootstrap" and server.user == 2_000_300_001
    assert [(nic.bridge, nic.mac) for nic in server.nics] == [
        ("baremetal", "52:54:00:aa:bb:cc"),
        ("provisioning", "52:54:00:aa:bb:cd"),
    ]
    assert server.disks[0].backing == Path("/cache/node.qcow2")
    assert server.ignition == wanted.folder / "lab-x7k2p-bootstrap.ign"


async def test_it_is_made_once_and_goes_on_when_asked_again(wanted: vm.BootstrapVm) -> None:
    hypervisor, images = FakeHypervisor(), Images()
    assert await vm.ensure(wanted, "{}", hypervisor, images)
    assert not await vm.ensure(wanted, "{}", hypervisor, images)
    assert len(images.calls) == 1 and len(hypervisor.boots) == 1
    assert ["-b", "/cache/node.qcow2"] == images.calls[0][7:9]
    config = wanted.folder / "lab-x7k2p-bootstrap.ign"
    assert config.read_text() == "{}" and config.stat().st_mode & 0o777 == 0o600


async def test_one_that_was_switched_off_is_switched_on_again(wanted: vm.BootstrapVm) -> None:
    hypervisor, images = FakeHypervisor(), Images()
    await vm.ensure(wanted, "{}", hypervisor, images)
    await hypervisor.power_off(wanted.name)
    assert await vm.ensure(wanted, "{}", hypervisor, images)
    state = await hypervisor.observe(wanted.name)
    assert state is not None and state.power is Power.ON and len(images.calls) == 1


async def test_one_with_another_config_is_not_given_this_one(wanted: vm.BootstrapVm) -> None:
    hypervisor, images = FakeHypervisor(), Images()
    await vm.ensure(wanted, "{}", hypervisor, images)
    with pytest.raises(InputError, match="another config"):
        await vm.ensure(wanted, '{"ignition": {}}', hypervisor, images)


async def test_a_new_one_does_not_begin_with_the_words_of_an_old_one(wanted: vm.BootstrapVm) -> None:
    wanted.console_log.write_text("BOOTSTRAP {}\n")
    await vm.ensure(wanted, "{}", FakeHypervisor(), Images())
    assert not wanted.console_log.exists()


async def test_nothing_of_it_is_left_and_the_disks_of_others_are(wanted: vm.BootstrapVm) -> None:
    hypervisor, images = FakeHypervisor(), Images()
    other = wanted.folder / "lab-x7k2p-bootstrap-2.qcow2"
    other.touch()
    await vm.ensure(wanted, "{}", hypervisor, images)
    (wanted.folder / "lab-x7k2p-bootstrap.nvram").touch()
    assert await vm.retire("lab-x7k2p", wanted.folder, hypervisor)
    assert await hypervisor.servers() == [] and list(wanted.folder.iterdir()) == [other]
    assert not await vm.retire("lab-x7k2p", wanted.folder, hypervisor)
