"""The deploy ramdisk: a kernel, an initramfs with ironic-python-agent, and the boot loader image for its ISOs.

A server boots it to be inspected, cleaned and written. It runs in memory on slow machines, so it holds only the
programs the agent calls, byte code instead of sources, and few modules; a script (`files/deploy/init`) starts it all.

The CA of an HTTPS Ironic reaches the agent as files: Ironic puts `etc/ironic-python-agent.d/*.conf` on its virtual
media and the agent reads them there; for network boot the same files go into a cpio archive that must stand *before*
this initramfs (the kernel cannot read on behind an lz4 stream).
"""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

from rackless.images import agent, cpio, esp, modules, python
from rackless.images.cache import Workspace
from rackless.images.files import install
from rackless.images.selection import PackageSelection
from rackless.ports.process import Processes

PACKAGES = (
    "linux-image-cloud-amd64", "grub-efi-amd64-bin", "python3-pip-whl",
    "busybox-static", "bash", "coreutils", "dash", "util-linux", "mount", "udev", "kmod", "python3", "iproute2",
    "parted", "gdisk", "mdadm", "hdparm", "dmidecode", "efibootmgr", "qemu-utils", "lshw", "pciutils", "usbutils",
    "dosfstools", "e2fsprogs", "file", "genisoimage", "smartmontools", "nvme-cli", "psmisc", "procps", "fdisk",
    "gzip", "tar", "zstd", "xz-utils", "mawk", "grep", "sed", "findutils", "hostname", "bsdextrautils",
)  # fmt: skip

KERNEL, INITRAMFS, ESP = "deploy.kernel", "deploy.initramfs", "esp.img"

_PROGRAMS = (
    "bash blkdiscard blkid blockdev cat chmod chown chroot cp dash dd df dmidecode du dumpe2fs e2fsck echo "
    "efibootmgr env false file find findfs findmnt fuser genisoimage grep gzip hdparm head hexdump hostname id ip kmod "
    "ln losetup ls lsblk lscpu lshw lspci lsusb mawk mdadm mkdir mke2fs mkfs.ext4 mkfs.fat mkfs.vfat mount mv nsenter "
    "nvme parted partprobe partx ps qemu-img readlink resize2fs rm sed sfdisk sgdisk sh sleep smartctl stat sync tail "
    "tar test true tune2fs udevadm umount uname wipefs xz zstd busybox hwclock "
    "depmod insmod lsmod modinfo modprobe rmmod"
).split()
_FILES = (
    "usr/lib64/ld-linux-x86-64.so.2", "usr/lib/systemd/systemd-udevd",
    "usr/lib/udev/ata_id", "usr/lib/udev/scsi_id", "usr/lib/udev/cdrom_id",
    "usr/lib/file/magic.mgc", "usr/lib/os-release", "etc/os-release", "etc/mke2fs.conf",
    # opened at run time, so that no program names them
    "usr/lib/x86_64-linux-gnu/libnss_files.so.2", "usr/lib/x86_64-linux-gnu/libnss_dns.so.2",
    "usr/lib/x86_64-linux-gnu/libresolv.so.2", "usr/lib/x86_64-linux-gnu/libudev.so.1",
    "usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
)  # fmt: skip
_UDEV_RULES = re.compile(
    r"(50-udev-default|60-block|60-persistent-storage\.|60-cdrom_id|80-drivers|75-net-description|6[34]-md)"
)
_MODULES = (
    "virtio_pci", "virtio_net", "virtio_blk", "virtio_scsi", "virtio_rng", "virtio_console", "sd_mod", "sr_mod", "sg",
    "isofs", "vfat", "nls_cp437", "nls_ascii", "nls_iso8859-1", "ext4", "efivarfs", "qemu_fw_cfg", "loop", "dm_mod",
    "nvme", "md_mod", "raid0", "raid1", "raid10", "raid456", "8021q", "af_packet",
)  # fmt: skip
_FOLDERS = (
    "dev", "proc", "sys", "run", "tmp", "mnt", "root", "home", "boot", "var/log", "var/lib", "var/lock",
    "etc/ironic-python-agent", "etc/ironic-python-agent.d",
)  # fmt: skip
_SCRIPTS = {
    "init": "init",
    "udhcpc.script": "etc/udhcpc.script",
    "partprobe": "usr/sbin/partprobe",
    "partx": "usr/bin/partx",
    "poweroff": "usr/sbin/poweroff",
    "reboot": "usr/sbin/reboot",
}
_STATIC_NETWORK = ("static_network.py", "opt/static_network.py")
_SETTINGS = {
    # Tools here say themselves when the partitions are to be read again; udev's own guess, at every close of a disk that was
    # open for writing, took an emulated server longer than writing the image.
    "usr/lib/udev/rules.d/61-no-watch.rules": 'SUBSYSTEM=="block", OPTIONS+="nowatch"\n',
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\ntty:x:5:\ndisk:x:6:\nkmem:x:15:\ndialout:x:20:\ncdrom:x:24:\nvideo:x:44:\ninput:x:101:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/hostname": "deploy\n",
}


async def build(processes: Processes, root: Path, work: Workspace, wheels: Path) -> None:
    """Out of `root`, the unpacked packages, and `wheels`, the agent's."""
    root, tree, fetched = root.resolve(), work.scratch.resolve() / "tree", work.scratch / "agent"
    tree.mkdir()
    kernel = modules.of_root(root)
    _, selection = await asyncio.gather(
        python.install_wheels(processes, root, agent.REQUIREMENTS, wheels, fetched, work.scratch),
        asyncio.to_thread(_select, root, tree),
    )
    await asyncio.to_thread(modules.place, kernel, kernel.closure(_MODULES), tree)
    await asyncio.to_thread(agent.place, selection, fetched)
    await processes.run(["chroot", tree, "/usr/sbin/depmod", kernel.release])
    await agent.compile(processes, tree)
    archive = work.scratch / "initramfs.cpio"
    await asyncio.to_thread(cpio.write, tree, archive)
    # -l: the old frame format, the only one the kernel reads.
    await processes.run(["lz4", "-q", "-f", "-l", "-9", archive, work.out / INITRAMFS])
    shutil.copyfile(root / f"boot/vmlinuz-{kernel.release}", work.out / KERNEL)
    await esp.ensure(processes, root, work.out / ESP, work.scratch)


def _select(root: Path, tree: Path) -> PackageSelection:
    """The tree of the ramdisk, but for Python and the kernel's modules."""
    for name in _FOLDERS:
        (tree / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    selection = PackageSelection(root, tree)
    for program in _PROGRAMS:
        selection.take_program(program)
    (tree / "usr/bin/awk").symlink_to("mawk")
    for file in _FILES:
        selection.take(file)
    selection.take_tree("usr/lib/udev/rules.d", lambda name: bool(_UDEV_RULES.match(name)))
    for name, content in _SETTINGS.items():
        (tree / name).write_text(content)
    for name in ("usr/bin/partx", "usr/sbin/partprobe"):
        (tree / name).rename(tree / f"{name}.real")
    for name, place in _SCRIPTS.items():
        install(f"deploy/{name}", tree / place, 0o755)
    install(_STATIC_NETWORK[0], tree / _STATIC_NETWORK[1], 0o644)
    return selection
