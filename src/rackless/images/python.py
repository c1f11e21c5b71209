"""Python programs as files of an image: wheels from PyPI by pinned content, byte code instead of sources.

pip comes out of a Debian package and runs under the hypervisor's Python; compiling runs under the image's own Python
inside its tree, so that the byte code is exactly for the interpreter that will read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rackless.errors import RacklessError
from rackless.images.cache import Cache, Workspace, key_of
from rackless.images.files import install, read
from rackless.ports.process import Processes

PYTHON = "python3.11"
HOST_PYTHON = "/usr/bin/python3"
STDLIB = f"usr/lib/{PYTHON}"
PIP_PACKAGE = "python3-pip-whl"
WHEELS = "wheels"
"""The kind of a cache entry: what a file of ours pins, as it was fetched."""
_PIP = "usr/share/python-wheels"
_PINNED = ("--no-deps", "--require-hashes", "--only-binary=:all:", "--python-version", "3.11")


def wheels_key(requirements: str) -> str:
    return key_of([read(requirements), *_PINNED])


def wheels_name(requirements: str) -> str:
    """Of the cache's entry."""
    return f"{WHEELS}-{wheels_key(requirements)}"


async def ensure_wheels(processes: Processes, store: Cache, root: Path, requirements: str, scratch: Path) -> Path:
    """A stage of its own: an image that is built again fetches nothing from the package index."""

    async def fetch(work: Workspace) -> None:
        await run_pip(processes, root, requirements, scratch, "download", "--dest", work.out)

    return await store.ensure(WHEELS, wheels_key(requirements), fetch)


async def install_wheels(
    processes: Processes, root: Path, requirements: str, wheels: Path, target: Path, scratch: Path
) -> None:
    """What a file of ours pins, by hash, into `target`."""
    where = ("--no-index", "--find-links", wheels, "--no-compile", "--target", target)
    await run_pip(processes, root, requirements, scratch, "install", *where)


async def run_pip(
    processes: Processes, root: Path, requirements: str, scratch: Path, verb: str, *options: str | Path
) -> None:
    """`root` has the unpacked package with pip. Index, proxy and certificates are as pip is configured here."""
    found = sorted((root / _PIP).glob("pip-*.whl"))
    if not found:
        raise RacklessError("the unpacked packages have no pip", why=f"the package {PIP_PACKAGE} should bring it")
    pinned = scratch / Path(requirements).name
    install(requirements, pinned, 0o644)
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check")
    words = [HOST_PYTHON, found[0] / "pip", verb, *quiet, *_PINNED, *options, "--requirement", pinned]
    await processes.run(words, within=900)


async def compile(processes: Processes, tree: Path, folders: Sequence[str]) -> None:
    """Byte code instead of sources in these folders of an image's tree."""
    words: list[str | Path] = ["chroot", tree, f"/usr/bin/{PYTHON}", "-I", "-S", "-m", "compileall", "-q", "-b"]
    words += ["--invalidation-mode", "unchecked-hash"]
    # A package may carry a template or a file for another Python that does not compile; it stays as it is.
    await asyncio.gather(*(processes.run([*words, f"/{folder}"], check=False) for folder in folders))
    await asyncio.to_thread(_drop_sources, [tree / folder for folder in folders])


def _drop_sources(folders: Sequence[Path]) -> None:
    for folder in folders:
        for source in folder.rglob("*.py"):
            if source.with_suffix(".pyc").exists():
                source.unlink()
