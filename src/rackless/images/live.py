"""A disc that boots a node without a disk: the node image's own kernel, initrd and root, with an Ignition config beside them.

The initrd mounts the root from the disc and keeps in memory what is written to it; a machine that is started again begins anew.
The disc has all that is in its config, keys too.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from rackless.images import fat, gpt
from rackless.images.files import read
from rackless.images.node import INITRD, KERNEL
from rackless.images.rootcut import cut_root
from rackless.ports.process import Processes

_GRUB = """\
set timeout=0
menuentry "node" {{
\tlinux /{kernel} {options}
\tinitrd /{initrd}
}}
"""
LIVE = "node.live"
"""The kernel's option by which the initrd knows that its root is on the disc."""


async def build(processes: Processes, node: Path, esp: Path, config: str, target: Path) -> None:
    """`node` is the node image, `esp` the deploy ramdisk's, whose GRUB finds the disc that it came on."""
    scratch, tree = target.with_suffix(".parts"), target.with_suffix(".parts") / "tree"
    shutil.rmtree(scratch, ignore_errors=True)
    (tree / "boot/grub").mkdir(parents=True)
    scratch.chmod(0o700)
    try:
        disk = scratch / "disk.raw"
        await processes.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", node, disk])
        for name in (KERNEL, INITRD):
            own = f"{disk}@@{gpt.offset_of(disk, 'ESP')}"
            await processes.run(["mcopy", "-i", own, f"::{name}", tree / name], env=fat.ENVIRONMENT)
        await asyncio.to_thread(cut_root, disk, tree / "root.img")
        (tree / "config.ign").write_text(config)
        (tree / "boot/grub/efiboot.img").write_bytes(esp.read_bytes())
        (tree / "boot/grub/grub.cfg").write_text(grub_config(read("node/loader-entry.conf").decode()))
        made = scratch / "made.iso"
        await processes.run(
            ["xorriso", "-as", "mkisofs", "-quiet", "-R", "-V", "node-live", "-o", made, "-e", "boot/grub/efiboot.img",
             "-no-emul-boot", tree],
        )  # fmt: skip
        made.chmod(0o600)
        made.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def grub_config(entry: str) -> str:
    """The node's own loader entry in GRUB's words, with the root on the disc."""
    given = dict(line.split(maxsplit=1) for line in entry.splitlines() if line.strip())
    kept = [word for word in given["options"].split() if not word.startswith("root=") and word != "rw"]
    return _GRUB.format(kernel=KERNEL, initrd=INITRD, options=" ".join([*kept, LIVE]))
