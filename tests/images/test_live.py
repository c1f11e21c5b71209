"""A disc that boots a node without a disk: what GRUB is told."""

from __future__ import annotations

from rackless.images.files import read
from rackless.images.live import LIVE, grub_config


def test_it_starts_the_nodes_kernel_as_its_disk_does_but_for_the_root() -> None:
    entry = read("node/loader-entry.conf").decode()
    linux, initrd = [line.split() for line in grub_config(entry).splitlines() if line.startswith("\t")]
    assert linux[:2] == ["linux", "/vmlinuz"] and initrd == ["initrd", "/initrd.img"]
    (options,) = [line.split()[1:] for line in entry.splitlines() if line.startswith("options")]
    assert set(options) - set(linux) == {"root=LABEL=node-root", "rw"}
    assert LIVE in linux and LIVE.encode() in read("node/init")
