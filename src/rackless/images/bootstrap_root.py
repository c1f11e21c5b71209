"""What the rehearsal's bootstrap boots: a signed kernel, and an initramfs with Python and what our wheel needs.

It runs in the machine that the OpenShift installer makes, in memory, on slow processors: so it has byte code instead of sources,
few modules, and no udev. The wheel and the installer's Ignition config come in archives of their own (`bootstrap_iso`).
"""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

from rackless.images import cpio, elf, fat, modules, node, nodepython, python
from rackless.images.cache import Workspace
from rackless.images.files import install
from rackless.images.selection import PackageSelection
from rackless.ports.process import Processes

PACKAGES = (
    "linux-image-cloud-amd64", "shim-signed", "grub-efi-amd64-signed", "busybox-static", "python3", "python3-pip-whl",
    "ipmitool", "libstdc++6", "syslinux",
)  # fmt: skip
KERNEL, INITRAMFS, ESP = "vmlinuz", "initrd.img", "efiboot.img"
SYSLINUX, BOOT_CODE = "syslinux", "gptmbr.bin"
"""What makes a disk one that a BIOS boots from."""
PYTHON_TREE = "python.tar"
"""The Python of the initramfs as an archive: it compiles our wheel, because byte code fits one Python only."""
SHIM = "usr/lib/shim/shimx64.efi.signed"
GRUB = "usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed"
"""Debian's signed GRUB for CDs. Installers let libvirt choose the firmware, and one with Secure Boot starts only what is signed."""

_MODULES = ("virtio_pci", "virtio_net", "virtio_blk", "virtio_rng", "af_packet", "ext4", "qemu_fw_cfg")
_FILES = (
    "usr/lib64/ld-linux-x86-64.so.2",
    # opened with dlopen at run time, so no ELF header names them
    "usr/lib/x86_64-linux-gnu/libnss_files.so.2", "usr/lib/x86_64-linux-gnu/libnss_dns.so.2",
    "usr/lib/x86_64-linux-gnu/libresolv.so.2", "usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
)  # fmt: skip
_TRIAL = (
    f"import sys; sys.path.insert(0, '/{nodepython.LIBRARIES}')\n"
    "import aiohttp, click, cryptography.x509, orjson, re2, sqlite3, ssl, uuid, yaml"
)
_FOLDERS = ("dev", "proc", "sys", "run", "tmp", "root", "etc", "opt/rackless")
_SETTINGS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}
_STDLIB_UNWANTED = re.compile(
    r"(^|/)(test|tests|idlelib|tkinter|lib2to3|ensurepip|distutils|pydoc_data|turtledemo|venv|curses|dbm"
    r"|__pycache__|config-3\.11[^/]*)/|\.(pyi|c|h|a)$"
)


async def build(processes: Processes, root: Path, work: Workspace, wheels: Path) -> None:
    root, tree, fetched = root.resolve(), work.scratch.resolve() / "tree", work.scratch / "api"
    tree.mkdir()
    kernel = modules.of_root(root)
    await python.install_wheels(processes, root, nodepython.REQUIREMENTS, wheels, fetched, work.scratch)
    await asyncio.to_thread(_select, root, tree, fetched, kernel)
    await python.compile(processes, tree, (nodepython.LIBRARIES, python.STDLIB))
    await processes.run(["tar", "-C", tree, "-cf", work.out / PYTHON_TREE, f"usr/bin/{python.PYTHON}", "usr/lib"])
    # a missing library fails the build here, and not a bootstrap machine at its start
    await processes.run(["chroot", tree, f"/usr/bin/{python.PYTHON}", "-IS", "-B", "-c", _TRIAL])
    archive = work.scratch / "initramfs.cpio"
    await asyncio.to_thread(cpio.write, tree, archive)
    # Of the archives GRUB loads this is the last, so it may be lz4: behind that the kernel would read no other.
    await processes.run(["lz4", "-q", "-f", "-l", "-9", archive, work.out / INITRAMFS])
    shutil.copyfile(root / f"boot/vmlinuz-{kernel.release}", work.out / KERNEL)
    for name, place in ((SYSLINUX, node.SYSLINUX), (BOOT_CODE, node.SYSLINUX_BOOT_CODE)):
        shutil.copy(root / place, work.out / name)
    await _esp(processes, root, work)


def _select(root: Path, tree: Path, libraries: Path, kernel: modules.Kernel) -> None:
    for name in _FOLDERS:
        (tree / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    selection = PackageSelection(root, tree)
    for program in ("busybox", "ipmitool", python.PYTHON):
        selection.take_program(program)
    (tree / "usr/bin/sh").symlink_to("busybox")
    for file in _FILES:
        selection.take(file)
    selection.take_tree(python.STDLIB, lambda path: not _STDLIB_UNWANTED.search(path))
    for name, content in _SETTINGS.items():
        (tree / name).write_text(content)
    # before they are copied: what is stripped no longer tells which libraries it needs
    selection.take_libraries_of(path for path in libraries.rglob("*.so*") if elf.is_elf(path))
    nodepython.copy_libraries(libraries, tree)
    chosen = kernel.closure(_MODULES)
    for number, path in enumerate(chosen):
        (tree / f"{number}.ko").hardlink_to(kernel.tree / path)
    (tree / "modules").write_text("".join(f"/{number}.ko\n" for number, _ in enumerate(chosen)))
    install("bootstrap/init", tree / "init", 0o755)
    install("bootstrap/bootstrap", tree / "opt/rackless/bootstrap", 0o644)
    install("deploy/udhcpc.script", tree / "etc/udhcpc.script", 0o755)


async def _esp(processes: Processes, root: Path, work: Workspace) -> None:
    start, info = work.scratch / "start.cfg", work.scratch / "info"
    install("bootstrap/start.cfg", start, 0o644)
    info.write_text("rehearsal\n")
    files = {
        "EFI/BOOT/BOOTX64.EFI": root / SHIM,
        "EFI/BOOT/grubx64.efi": root / GRUB,
        "EFI/debian/grub.cfg": start,
        "boot/grub/grub.cfg": start,
        ".disk/info": info,
    }
    await fat.ensure(processes, work.out / ESP, files, label="ESP", bits=12)
