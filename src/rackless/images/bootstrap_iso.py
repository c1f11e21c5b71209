"""The live ISO that the OpenShift installer is given for its bootstrap machine: with room for the Ignition config it embeds.

The installer writes its config into `images/ignition.img`, a file of zeros, and wants to find the places of kernel arguments in
grub.cfg. The kernel reads three archives: that one, our wheel, and the initramfs, which is lz4 and so comes last.

Installers before 4.22 boot a disk image instead, by a BIOS, and give their config to the machine's firmware: the same kernel and
archives lie on a disk beside the ISO.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from rackless.errors import RacklessError
from rackless.images import bootstrap_root, cpio, fat, gpt, wheel
from rackless.images.cache import Workspace
from rackless.images.files import install, read
from rackless.ports.process import Processes

ISO, DISK, LAYOUT = "bootstrap.iso", "bootstrap.qcow2", "layout.json"
IGNITION_AREA_BYTES = 4 << 20
"""A config of five hosts is 140 kB, packed; the installer refuses an ISO whose area is too small."""
_KARGS_AREA = "#" * 1024 + "# COREOS_KARG_EMBED_AREA\n"
NO_FAULT = "none--------------------"
"""On the kernel's command line; whoever serves the ISO may write another word of this length there."""
RELEASE_ROOM = 96
NO_RELEASE = "none".ljust(RELEASE_ROOM, "-")
"""The same, for the URL of a release server's list; with a URL there the machine becomes a bootstrap that installs."""
_NODE_INIT = "node/init"
"""The init of a node: a bootstrap that installs continues with it."""
_GRUB_PLACE = "EFI/redhat/grub.cfg"
_WHEEL = "/opt/rackless/rackless.whl"


async def build(processes: Processes, base: Path, sources: dict[str, bytes], work: Workspace) -> None:
    """`base` is the entry made by `bootstrap_root`."""
    tree, small, python = work.scratch / "iso", work.scratch / "small", work.scratch / "python"
    python.mkdir()
    await processes.run(["tar", "-C", python, "-xf", base / bootstrap_root.PYTHON_TREE])
    for name in ("images/pxeboot", "EFI/redhat", "coreos", ".disk", "boot/grub"):
        (tree / name).mkdir(parents=True)
    (tree / "images/pxeboot/vmlinuz").hardlink_to(base / bootstrap_root.KERNEL)
    (tree / "images/pxeboot/initrd.img").hardlink_to(base / bootstrap_root.INITRAMFS)
    (tree / "images/efiboot.img").hardlink_to(base / bootstrap_root.ESP)
    (tree / "images/ignition.img").write_bytes(bytes(IGNITION_AREA_BYTES))
    place = small / _WHEEL.lstrip("/")
    place.parent.mkdir(parents=True)
    await wheel.build(processes, python, sources, _WHEEL, work.scratch, place)
    install(_NODE_INIT, small / _NODE_INIT, 0o755)
    install("node/udhcpc.script", small / "udhcpc.script", 0o755)  # the node's init looks for it there
    cpio.write(small, tree / "images/rackless.img")
    grub = read("bootstrap/grub.cfg").decode().replace("@AREA@", _KARGS_AREA).replace("@FAULT@", NO_FAULT)
    grub = grub.replace("@RELEASE@", NO_RELEASE)
    (tree / _GRUB_PLACE).write_text(grub)
    (tree / "coreos/igninfo.json").write_text(json.dumps({"file": "images/ignition.img"}))
    (tree / "coreos/kargs.json").write_text(json.dumps(_kargs(grub)))
    # the signed GRUB looks for these on whatever it was started from
    (tree / ".disk/info").write_text("rehearsal\n")
    (tree / "boot/grub/grub.cfg").write_bytes(read("bootstrap/start.cfg"))
    await processes.run(
        ["xorriso", "-as", "mkisofs", "-quiet", "-R", "-J", "-V", "rehearsal", "-o", work.out / ISO,
         "-e", "images/efiboot.img", "-no-emul-boot", tree],
    )  # fmt: skip
    layout = {"ignition_offset": await _offset(processes, work.out / ISO), "ignition_bytes": IGNITION_AREA_BYTES}
    (work.out / LAYOUT).write_text(json.dumps(layout) + "\n")
    await _build_disk(processes, base, tree / "images/rackless.img", work)


def disk_beside(iso: Path) -> Path:
    """The disk image that was made with this ISO."""
    return iso.with_name(DISK)


async def _build_disk(processes: Processes, base: Path, small: Path, work: Workspace) -> None:
    """`small` is the archive with our wheel."""
    start, partition, disk = (work.scratch / name for name in ("syslinux.cfg", "disk.vfat", "disk.raw"))
    text = read("bootstrap/syslinux.cfg").decode().replace("@FAULT@", NO_FAULT).replace("@RELEASE@", NO_RELEASE)
    if len(text) > gpt.SECTOR:  # in one piece on the disk: the words on the kernel's command line are changed in place
        raise RacklessError(f"syslinux.cfg has {len(text)} bytes, and {gpt.SECTOR} is the most")
    start.write_text(text)
    files = {
        "syslinux.cfg": start, "vmlinuz": base / bootstrap_root.KERNEL, "rackless.img": small,
        "initrd.img": base / bootstrap_root.INITRAMFS,
    }  # fmt: skip
    await fat.ensure(processes, partition, files, label="REHEARSAL", bits=16)
    await processes.run([base / bootstrap_root.SYSLINUX, "--install", partition], env=fat.ENVIRONMENT)
    boot_code = (base / bootstrap_root.BOOT_CODE).read_bytes()
    parts = [gpt.Partition(gpt.EFI_SYSTEM, "rehearsal", partition, bios=True)]
    await asyncio.to_thread(gpt.write, disk, parts, "rehearsal", boot_code)
    await processes.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", disk, work.out / DISK])


def _kargs(grub: str) -> dict[str, object]:
    (arguments,) = re.findall(r"vmlinuz (.*)$", grub, re.MULTILINE)
    where = {"path": _GRUB_PLACE, "offset": grub.index("\n#"), "end": "\n", "pad": "#"}
    return {"default": arguments, "files": [where], "size": 1025}


async def _offset(processes: Processes, iso: Path) -> int:
    """Where the area begins in the ISO: the installer's copy has it at the same place."""
    done = await processes.run(["xorriso", "-indev", iso, "-find", "/images/ignition.img", "-exec", "report_lba", "--"])
    found = re.findall(r"File data lba:\s*\d+\s*,\s*(\d+)\s*,", done.stdout)
    if len(found) != 1:
        raise RacklessError("xorriso does not say where the ISO's Ignition area is", why=done.stdout.strip()[-300:])
    return int(found[0]) * 2048
