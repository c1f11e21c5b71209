"""Debian packages as building material: resolve, fetch, unpack. Nothing is installed and no script of a package runs.

apt resolves against an empty status file, so the answer does not depend on what the hypervisor has installed; where it
looks is said by `sources`. Downloads are checked by apt against the signed lists and kept by file name, shared by all
images. This module does not know which packages an image wants.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import tempfile
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rackless.errors import CommandFailed, HypervisorError
from rackless.images import cache
from rackless.images.parallel import together
from rackless.images.sources import MIRROR, Sources, direct, load_system
from rackless.ports.process import Processes

_APT_HELPER = "/usr/lib/apt/apt-helper"
_PARALLEL_DOWNLOADS = 4
_URI_LINE = re.compile(r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})$")
_MERGED = ("bin", "sbin", "lib", "lib64")
_UNWANTED = (
    "./usr/share/doc", "./usr/share/man", "./usr/share/locale", "./usr/share/info", "./usr/share/lintian",
    "./usr/share/bash-completion", "./usr/share/zsh", "./usr/share/bug", "./usr/share/doc-base", "./usr/share/perl*",
    "./usr/lib/x86_64-linux-gnu/perl*", "./usr/lib/x86_64-linux-gnu/gconv", "./usr/lib/udev/hwdb.d",
    "./usr/share/initramfs-tools", "./usr/share/mime", "./usr/share/icons",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Package:
    file: str  # name_version_architecture.deb, as apt spells it
    uri: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        return self.file.split("_")[0]

    @property
    def version(self) -> str:
        return urllib.parse.unquote(self.file.split("_")[1])


def require_machine() -> None:
    """What no package can bring: apt, an x86_64 processor, root."""
    if platform.machine() != "x86_64" or shutil.which("apt-get") is None:
        system = load_system().get("PRETTY_NAME", "an unknown system")
        raise HypervisorError(
            "images cannot be built on this computer",
            why=f"they are made of Debian's packages for x86_64 by apt, and this is {system} on {platform.machine()}",
            hint=f"build them on a Debian or Ubuntu (x86_64) with `{MIRROR}=URL rackless images build`, "
            "and copy its image cache here",
        )
    if os.geteuid() != 0:
        raise HypervisorError(
            "building images needs root",
            why="files in an image belong to several users, and programs are run inside it (chroot)",
            hint="run the same command with sudo",
        )


async def resolve(processes: Processes, sources: Sources, wanted: Sequence[str], scratch: Path) -> tuple[Package, ...]:
    """The packages and everything they depend on, without recommendations."""
    status = scratch / "status"
    status.touch()
    options = {
        "Dir::State::status": str(status),
        "Dir::Cache::archives": f"{scratch}/",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Debug::NoLocking": "1",
        "Acquire::ForceHash": "SHA256",
        "APT::Architecture": "amd64",
        "APT::Architectures": "amd64",
        "APT::Install-Recommends": "false",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    try:
        done = await processes.run(["apt-get", *sources.options, "install", "--yes", "--print-uris", *words, *wanted])
    except CommandFailed as error:
        raise HypervisorError(
            "apt cannot find the packages the images are made of",
            why=error.why,
            hint=_look_at(sources),
        ) from error
    found = [match for line in done.stdout.splitlines() if (match := _URI_LINE.match(line))]
    return tuple(
        sorted((Package(m["file"], direct(m["uri"]), int(m["size"]), m["sha256"]) for m in found), key=lambda p: p.file)
    )


def _look_at(sources: Sources) -> str:
    if sources.own is None:
        return "run `apt-get update` and check that Debian 12's main and security sources are configured"
    return f"check that the mirror in {sources.own}/sources.list has all of Debian 12, or name another: {MIRROR}=URL"


async def fetch(processes: Processes, packages: Sequence[Package], debs: Path) -> int:
    """Have every package in `debs`; returns how many bytes had to be fetched. Safe when several do it at once."""
    async with cache.locked(debs.with_name(f"{debs.name}.lock")):
        debs.mkdir(parents=True, exist_ok=True)
        missing = await asyncio.to_thread(_missing, packages, debs)
        if not missing:
            return 0
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=debs) as folder:
            shards = [missing[index::_PARALLEL_DOWNLOADS] for index in range(_PARALLEL_DOWNLOADS)]
            await together(_download(processes, shard, Path(folder)) for shard in shards if shard)
            for package in missing:
                Path(folder, package.file).rename(debs / package.file)
        return sum(package.size for package in missing)


def _missing(packages: Sequence[Package], debs: Path) -> list[Package]:
    def is_here(package: Package) -> bool:
        path = debs / package.file
        return path.exists() and path.stat().st_size == package.size and cache.digest(path) == package.sha256

    return sorted((p for p in packages if not is_here(p)), key=lambda p: p.size)


async def _download(processes: Processes, packages: Sequence[Package], folder: Path) -> None:
    words = [word for p in packages for word in (p.uri, str(folder / p.file), f"SHA256:{p.sha256}")]
    await processes.run([_APT_HELPER, "-o", "APT::Sandbox::User=root", "download-file", *words])


async def unpack(processes: Processes, packages: Sequence[Package], debs: Path, root: Path, scratch: Path) -> None:
    """Put the files of the packages into `root`, with /bin, /sbin and /lib merged into /usr, without documentation."""
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    gate = asyncio.Semaphore(os.cpu_count() or 1)
    # The largest first, so that no core waits for one big package at the end.
    largest_first = sorted(packages, key=lambda p: -p.size)
    await together(_unpack_one(processes, debs / one.file, root, scratch, gate) for one in largest_first)


async def _unpack_one(processes: Processes, deb: Path, root: Path, scratch: Path, gate: asyncio.Semaphore) -> None:
    contents = scratch / f"{deb.name}.tar"
    excluded = [f"--exclude={pattern}" for pattern in _UNWANTED]
    async with gate:
        await processes.run(["dpkg-deb", "--fsys-tarfile", deb], stdout=contents)
        # dpkg-deb's own extraction would replace the symbolic links of the merged /usr by folders.
        await processes.run(
            ["tar", "-x", "-p", "--numeric-owner", "--keep-directory-symlink", "-C", root, "-f", contents, *excluded]
        )
        contents.unlink()
