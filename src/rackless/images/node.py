"""The node image: Debian 12 with systemd, sshd, etcd, haproxy, Python; configured at first boot by Ignition.

A whole disk: kernel and initrd on the EFI system partition, with systemd-boot for UEFI and syslinux for a BIOS; a place for
the config drive, which saves the deploy agent half a dozen slow changes of the partition table; and a root that is grown
to its disk at first boot. The qcow2 is not compressed, because unpacking it costs a slow server more than the larger
download.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass
from pathlib import Path

from rackless.images import cpio, fat, gpt, modules, nodepython, noderoot
from rackless.images.cache import Workspace
from rackless.images.files import install
from rackless.images.python import PIP_PACKAGE
from rackless.ports.process import Processes

PACKAGES = (
    "linux-image-cloud-amd64", "systemd-boot-efi", "syslinux",
    "base-files", "base-passwd", "bash", "coreutils", "dash", "debianutils", "diffutils", "findutils", "grep",
    "libc-bin", "mawk", "sed", "tar", "gzip", "hostname", "util-linux", "mount", "login", "passwd", "libpam-modules",
    "libpam-runtime", "ncurses-bin", "systemd", "systemd-sysv", "libpam-systemd", "libnss-systemd",
    "systemd-resolved", "dbus", "udev", "kmod", "iproute2", "iputils-ping", "procps", "e2fsprogs", "dosfstools",
    "gdisk", "ca-certificates", "openssl", "openssh-server", "busybox-static", "ignition", "etcd-server",
    "etcd-client", "haproxy", "curl", "jq", "sudo", "python3", "less", PIP_PACKAGE,
)  # fmt: skip

QCOW2 = "node.qcow2"
KERNEL, INITRD = "vmlinuz", "initrd.img"
LABEL = "node-root"
CONFIG_DRIVE = "config-2"
SYSTEMD_BOOT = "usr/lib/systemd/boot/efi/systemd-bootx64.efi"
SYSLINUX = "usr/bin/syslinux"
SYSLINUX_BOOT_CODE = "usr/lib/SYSLINUX/gptmbr.bin"

_MIB = 1 << 20
_SPARE = 24 * _MIB  # the journal, and what is written before the root is grown
_CONFIG_DRIVE_ROOM = 16
_INITRD_MODULES = (
    "virtio_pci", "virtio_blk", "virtio_scsi", "virtio_net", "sd_mod", "sr_mod", "nvme", "ext4", "isofs", "vfat",
    "nls_cp437", "nls_ascii", "nls_iso8859-1", "qemu_fw_cfg", "af_packet", "loop", "overlay",
)  # fmt: skip
_ROOT_MODULES = re.compile(
    r"kernel/(net/(netfilter|ipv4|ipv6|bridge|8021q|llc|802|packet|sched/(sch_ingress|cls_|act_))"
    r"|fs/(overlayfs|isofs|fat|nls|xfs|fuse|autofs|efivarfs|squashfs)"
    r"|drivers/(virtio|block/(virtio|loop)|net/(virtio|veth|dummy|tun|tap|macvlan|vxlan|bonding|net_failover)"
    r"|scsi/(virtio|scsi_mod|sd_mod|sr_mod|scsi_common)|nvme/host|cdrom|firmware/qemu|char/(hw_random|virtio)"
    r"|md/dm-mod|acpi/button|input/evdev))"  # the last two: the power button is heard
)


async def build(processes: Processes, root: Path, work: Workspace, wheels: Path, seed: str) -> None:
    """Out of `root`, the unpacked packages, which becomes the node's own root, and `wheels`, the API's libraries."""
    kernel, boot = await asyncio.to_thread(_take_boot_files, root, work.scratch)
    initrd = work.scratch / "initrd.img"
    await _build_initrd(processes, root, kernel, work.scratch, initrd)
    await asyncio.to_thread(modules.place, kernel, _root_modules(kernel), root)
    await noderoot.configure(processes, root, kernel)
    await nodepython.install_python(processes, root, wheels, work.scratch)

    names = ("root.ext4", "esp.vfat", "config-drive.vfat", "disk.raw")
    file_system, esp, drive, disk = (work.scratch / name for name in names)
    await _build_file_system(processes, root, file_system)
    await _build_esp(processes, esp, {KERNEL: boot.kernel, INITRD: initrd, "EFI/BOOT/BOOTX64.EFI": boot.systemd_boot})
    await processes.run([boot.syslinux, "--install", esp], env=fat.ENVIRONMENT)
    await fat.ensure(processes, drive, {}, label=CONFIG_DRIVE, bits=16, room=_CONFIG_DRIVE_ROOM)
    parts = [
        gpt.Partition(gpt.EFI_SYSTEM, "ESP", esp, bios=True),
        gpt.Partition(gpt.LINUX_DATA, CONFIG_DRIVE, drive),
        gpt.Partition(gpt.LINUX_ROOT_X86_64, "root", file_system),
    ]
    await asyncio.to_thread(gpt.write, disk, parts, seed, boot.boot_code.read_bytes())
    await processes.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", disk, work.out / QCOW2])


@dataclass(frozen=True, slots=True)
class _BootFiles:
    kernel: Path
    systemd_boot: Path
    syslinux: Path
    """The program that makes a FAT file system one a BIOS boots from."""
    boot_code: Path


def _take_boot_files(root: Path, scratch: Path) -> tuple[modules.Kernel, _BootFiles]:
    """Move kernel, modules and boot loaders out of the root: they go to the ESP, or come back as a selection."""
    release = modules.of_root(root).release
    tree = scratch / "modules" / release
    tree.parent.mkdir()
    (root / "usr/lib/modules" / release).rename(tree)
    taken = []
    for name in (f"boot/vmlinuz-{release}", SYSTEMD_BOOT, SYSLINUX, SYSLINUX_BOOT_CODE):
        taken.append((root / name).rename(scratch / Path(name).name))
    return modules.Kernel(tree), _BootFiles(*taken)


def _root_modules(kernel: modules.Kernel) -> list[Path]:
    names = (path.name for path in kernel.tree.rglob("*.ko") if _ROOT_MODULES.match(str(path.relative_to(kernel.tree))))
    return kernel.closure(names)


async def _build_initrd(processes: Processes, root: Path, kernel: modules.Kernel, scratch: Path, initrd: Path) -> None:
    tree, archive = scratch / "initrd", scratch / "initrd.cpio"
    for name in ("bin", "dev", "proc", "sys", "run", "sysroot"):
        (tree / name).mkdir(parents=True)
    (tree / "bin/busybox").hardlink_to(root / "usr/bin/busybox")
    (tree / "bin/sh").symlink_to("busybox")
    install("node/init", tree / "init", 0o755)
    install("node/udhcpc.script", tree / "udhcpc.script", 0o755)
    order = kernel.closure(_INITRD_MODULES)
    for relative in order:
        place = tree / "lib/modules" / kernel.release / relative
        place.parent.mkdir(parents=True, exist_ok=True)
        place.hardlink_to(kernel.tree / relative)
    listed = "".join(f"{relative}\n" for relative in order)
    (tree / "lib/modules" / kernel.release / "load.order").write_text(listed)
    cpio.write(tree, archive)
    await processes.run(["lz4", "-q", "-f", "-l", "-9", archive, initrd])


async def _build_file_system(processes: Processes, root: Path, target: Path) -> None:
    used = await asyncio.to_thread(_space_used, root)
    size = (used * 108 // 100 + _SPARE) // _MIB
    await processes.run(
        [
            "mke2fs", "-q", "-F", "-t", "ext4", "-L", LABEL, "-m", "0", "-O", "^metadata_csum", "-J", "size=4",
            "-E", "lazy_itable_init=1,lazy_journal_init=1", "-i", "8192", "-d", root, target, f"{size}M",
        ],
        # a newer mke2fs would by itself use features that the node's kernel and e2fsck do not know
        env={"MKE2FS_CONFIG": str(root / "etc/mke2fs.conf")},
    )  # fmt: skip


def _space_used(root: Path) -> int:
    total = 0
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            total += Path(folder, name).lstat().st_blocks * 512
    return total


async def _build_esp(processes: Processes, image: Path, files: dict[str, Path]) -> None:
    for name, place in (("loader-entry.conf", "loader/entries/node.conf"), ("loader.conf", "loader/loader.conf")):
        install(f"node/{name}", image.parent / name, 0o644)
        files[place] = image.parent / name
    syslinux = files["syslinux.cfg"] = image.parent / "syslinux.cfg"
    syslinux.write_text(syslinux_config((image.parent / "loader-entry.conf").read_text()))
    await fat.ensure(processes, image, files, label="ESP", bits=16)


def syslinux_config(entry: str) -> str:
    """A loader entry for UEFI in the words of syslinux, which says on the serial console what it does."""
    words = {"linux": "LINUX", "initrd": "INITRD", "options": "APPEND"}
    given = dict(line.split(maxsplit=1) for line in entry.splitlines() if line.strip())
    lines = [f"  {word} {given[name]}" for name, word in words.items()]
    return "\n".join(["SERIAL 0", "DEFAULT node", "LABEL node", *lines, ""])
