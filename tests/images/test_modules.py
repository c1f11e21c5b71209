from pathlib import Path

import pytest

from rackless.errors import RacklessError
from rackless.images.modules import Kernel

from . import elf_files


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "6.1.0-test"
    drivers = tree / "kernel/drivers"
    elf_files.write_module(drivers / "virtio-net.ko", depends="net-failover,virtio", softdep="pre: absent crc")
    elf_files.write_module(drivers / "net_failover.ko", depends="failover")
    elf_files.write_module(drivers / "failover.ko", depends="")
    elf_files.write_module(drivers / "crc.ko", depends="")
    elf_files.write_module(drivers / "needy.ko", depends="gone")
    (tree / "modules.builtin").write_text("kernel/drivers/virtio/virtio.ko\n")
    return tree


def test_every_module_comes_after_what_it_needs(tree: Path) -> None:
    assert [path.name for path in Kernel(tree).closure(["virtio_net"])] == [
        "failover.ko", "net_failover.ko", "crc.ko", "virtio-net.ko",
    ]  # fmt: skip


def test_a_module_is_listed_once(tree: Path) -> None:
    names = [path.name for path in Kernel(tree).closure(["failover", "net-failover", "virtio_net"])]
    assert len(names) == len(set(names))


def test_what_is_built_in_needs_no_file(tree: Path) -> None:
    assert Kernel(tree).closure(["virtio"]) == []


def test_a_missing_module_is_named_with_who_needs_it(tree: Path) -> None:
    with pytest.raises(RacklessError, match="no module gone: it is needed by needy"):
        Kernel(tree).closure(["needy"])
