"""The payload of a bootstrap machine: Ironic for the node image's Python, what it makes boot ISOs with, what servers boot with over
the network, what it speaks IPMI with, and the deploy ramdisk.

One ext4 image that a bootstrap fetches by its checksum and mounts: the node image stays as small as a node needs it. Ironic's
packages are installed and compiled by the Python that will run them, not by the hypervisor's; its empty database is brought along,
because making one takes minutes on an emulated machine.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from rackless.events import Bus
from rackless.images import packages, python
from rackless.images.cache import ImageCache, Workspace, key_of, load_manifest
from rackless.images.payload_places import DEPLOY, DNSMASQ, IPMITOOL, IPXE, IRONIC, ISOLINUX, LDLINUX, LOADERS, MOUNT
from rackless.images.selection import PackageSelection
from rackless.images.sources import of_computer, refresh
from rackless.ports.process import Processes

KIND, TITLE = "payload", "bootstrap payload"
IMAGE = "payload.img"
PACKAGES = (
    "python3", python.PIP_PACKAGE, "xorriso", "isolinux", "syslinux-common", "dnsmasq-base", "ipxe", "ipmitool",
)  # fmt: skip
DATABASE = "empty.sqlite"
_SITE = f"lib/{python.PYTHON}/site-packages"
_UNWANTED = ("*/tests", "bin", "*/locale")
_MIB = 1 << 20
_SPARE_MIB = 8
_WITH_LIBRARIES = f"#!/bin/sh\nLD_LIBRARY_PATH={MOUNT}/lib exec"
"""Runs a program of the payload with the libraries that the node image lacks."""
_MKISOFS = f'{_WITH_LIBRARIES} {MOUNT}/bin/xorriso -as mkisofs "$@"\n'
"""Ironic calls `mkisofs`; xorriso answers as that."""
_DNSMASQ = f'{_WITH_LIBRARIES} {MOUNT}/{DNSMASQ}.bin "$@"\n'
_IPMITOOL = f'{_WITH_LIBRARIES} {MOUNT}/{IPMITOOL} "$@"\n'
"""Ironic calls it by its name, and looks for that in its own folder first."""
_PROGRAMS = {"ironic": "ironic.command.singleprocess", "ironic-dbsync": "ironic.command.dbsync"}
_PINNED = ("--no-deps", "--require-hashes", "--only-binary=:all:", "--python-version", "3.11")


@dataclass(frozen=True, slots=True)
class PayloadImage:
    path: Path
    sha256: str
    bytes: int


async def ensure_payload(
    cache: Path, processes: Processes, bus: Bus, requirements: bytes, deploy: Mapping[str, Path]
) -> PayloadImage:
    """`requirements` are Ironic's, pinned; `deploy` are the files of the deploy ramdisk by their names in the payload."""
    store = ImageCache(cache)
    with bus.step(TITLE, subject=f"image/{TITLE}") as step:
        sources = of_computer(cache)
        await refresh(processes, sources)
        with tempfile.TemporaryDirectory(prefix="rackless-apt-") as scratch:
            found = await packages.resolve(processes, sources, PACKAGES, Path(scratch))
        own = resources.files("rackless.images")
        recipe = b"".join(own.joinpath(name).read_bytes() for name in ("payload.py", "payload_places.py"))
        ramdisk = [str(path.parent.name) for path in deploy.values()]
        key = key_of([recipe, requirements, *ramdisk, *(f"{package.name}={package.version}" for package in found)])

        async def build(work: Workspace) -> None:
            root = work.scratch / "root"
            step.progress(f"unpacking {len(found)} packages")
            await packages.fetch(processes, found, cache / "debs")
            await packages.unpack(processes, found, cache / "debs", root, work.scratch)
            step.progress("installing Ironic")
            await _build(processes, root.resolve(), work, requirements, deploy)

        if await store.find(KIND, key):
            step.unchanged("in the cache")
        entry = await store.ensure(KIND, key, build)
    record = load_manifest(entry)[IMAGE]
    return PayloadImage(entry / IMAGE, record["sha256"], record["size"])


async def _build(
    processes: Processes, root: Path, work: Workspace, requirements: bytes, deploy: Mapping[str, Path]
) -> None:
    tree = work.scratch.resolve() / "tree"
    venv = tree / IRONIC
    site = venv / _SITE
    site.mkdir(parents=True)
    await _install(processes, root, work.scratch, requirements, site)
    await python.run(
        processes, root, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash",
        "-s", tree, "-p", MOUNT, site,
    )  # fmt: skip
    await _make_database(processes, root, site, venv, work.scratch)
    await asyncio.to_thread(_fill_root, root, tree, venv, deploy)
    await _write_image(processes, tree, work.out / IMAGE)


async def _install(processes: Processes, root: Path, scratch: Path, requirements: bytes, site: Path) -> None:
    (pip,) = sorted((root / "usr/share/python-wheels").glob("pip-*.whl"))[:1]
    pinned = scratch / "requirements.txt"
    pinned.write_bytes(requirements)
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check", "--no-compile")
    await python.run(
        processes, root, pip / "pip", "install", *quiet, *_PINNED, "--target", site, "--requirement", pinned, within=900
    )
    for pattern in _UNWANTED:
        for unused in list(site.glob(pattern)):
            await asyncio.to_thread(shutil.rmtree, unused)


async def _make_database(processes: Processes, root: Path, site: Path, venv: Path, scratch: Path) -> None:
    conf = scratch / "dbsync.conf"
    conf.write_text(f"[database]\nconnection = sqlite:///{venv / DATABASE}\n")
    words = ["ironic-dbsync", "--config-file", str(conf), "create_schema"]
    program = f"import sys; sys.path.insert(0, {str(site)!r}); sys.argv = {words!r}\nfrom ironic.command.dbsync import main; main()"
    await python.run(processes, root, "-W", "ignore", "-c", program, within=300)


def _fill_root(root: Path, tree: Path, venv: Path, deploy: Mapping[str, Path]) -> None:
    binaries = venv / "bin"
    binaries.mkdir()
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    for name in ("python3", "python"):
        (binaries / name).symlink_to("/usr/bin/python3")
    for name, module in _PROGRAMS.items():
        _program(
            binaries / name,
            f"#!{MOUNT}/{IRONIC}/bin/python3\nimport sys\nfrom {module} import main\nsys.exit(main())\n",
        )
    _program(binaries / "mkisofs", _MKISOFS)
    _program(binaries / "ipmitool", _IPMITOOL)
    selected = tree.parent / "selected"
    selection = PackageSelection(root, selected)
    (tree / "bin").mkdir()
    for program, target in (
        ("usr/bin/xorriso", "bin/xorriso"),
        ("usr/sbin/dnsmasq", f"{DNSMASQ}.bin"),
        ("usr/bin/ipmitool", IPMITOOL),
    ):
        selection.take(program)
        shutil.copyfile(selected / program, tree / target)
        (tree / target).chmod(0o755)
    _program(tree / DNSMASQ, _DNSMASQ)
    (tree / IPXE).mkdir()
    for name in LOADERS:
        shutil.copyfile(root / "usr/lib/ipxe" / name, tree / IPXE / name)
    for name, origin in ((ISOLINUX, "ISOLINUX/isolinux.bin"), (LDLINUX, "syslinux/modules/bios/ldlinux.c32")):
        (tree / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(root / "usr/lib" / origin, tree / name)
    (tree / "lib").mkdir()
    for path in sorted(selected.rglob("*.so*")):
        if path.is_symlink() or not path.name.startswith(("libc.so", "libpthread", "libdl", "ld-linux")):
            shutil.copyfile(path, tree / "lib" / path.name)
    (tree / DEPLOY).mkdir()
    for name, source in deploy.items():
        shutil.copyfile(source, tree / DEPLOY / name)


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


async def _write_image(processes: Processes, tree: Path, target: Path) -> None:
    used = sum(-(-path.lstat().st_size // 4096) * 4096 for path in tree.rglob("*")) // _MIB
    await processes.run(
        [
            "mke2fs", "-q", "-F", "-t", "ext4", "-L", KIND, "-m", "0", "-O", "^has_journal,^metadata_csum", "-i", "8192",
            "-d", tree, target, f"{used * 108 // 100 + _SPARE_MIB}M",
        ]
    )  # fmt: skip
