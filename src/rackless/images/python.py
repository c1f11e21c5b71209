"""Python programs as files of an image: wheels from PyPI by pinned content, byte code instead of sources.

Everything runs under the image's own Python: pip because it fits that one and perhaps no other, compiling because byte code
is for exactly the interpreter that will read it. The hypervisor's Python plays no part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rackless.errors import RacklessError
from rackless.images.cache import ImageCache, Workspace, key_of
from rackless.images.files import install, read
from rackless.ports.process import Completed, Processes

PYTHON = "python3.11"
STDLIB = f"usr/lib/{PYTHON}"
PIP_PACKAGE = "python3-pip-whl"
WHEELS = "wheels"
"""The kind of cache entry that has the wheels of one of our requirements files."""
SHARED = "usr/lib/x86_64-linux-gnu"
LOADER = f"{SHARED}/ld-linux-x86-64.so.2"
"""The dynamic loader's real path: the usual one is an absolute link, which would lead out of the root."""
_PIP = "usr/share/python-wheels"
_PINNED = ("--no-deps", "--require-hashes", "--only-binary=:all:", "--python-version", "3.11")


async def run(processes: Processes, root: Path, *words: str | Path, within: float | None = None) -> Completed:
    """Runs the root's Python with the root's libraries, but with this computer's files."""
    interpreter = (root / LOADER, "--library-path", root / SHARED, root / "usr/bin" / PYTHON)
    # not -I, which ignores PYTHONHOME; -B, because byte code written here would get into the image
    alone: tuple[str | Path, ...] = (*interpreter, "-P", "-s", "-S", "-B")
    return await processes.run([*alone, *words], env={"PYTHONHOME": str(root / "usr")}, within=within)


def wheels_key(requirements: str) -> str:
    return key_of([read(requirements), *_PINNED])


def wheels_name(requirements: str) -> str:
    """The name of the wheels' entry in the cache."""
    return f"{WHEELS}-{wheels_key(requirements)}"


async def ensure_wheels(processes: Processes, store: ImageCache, root: Path, requirements: str, scratch: Path) -> Path:
    """The wheels have a cache entry of their own: an image that is built again downloads nothing from the package index."""

    async def fetch(work: Workspace) -> None:
        await run_pip(processes, root, requirements, scratch, "download", "--dest", work.out)

    return await store.ensure(WHEELS, wheels_key(requirements), fetch)


async def install_wheels(
    processes: Processes, root: Path, requirements: str, wheels: Path, target: Path, scratch: Path
) -> None:
    """Installs the wheels that one of our requirements files pins, by hash, into `target`."""
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
    words = (found[0] / "pip", verb, *quiet, *_PINNED, *options, "--requirement", pinned)
    await run(processes, root, *words, within=900)


async def compile(processes: Processes, tree: Path, folders: Sequence[str]) -> None:
    """Byte code instead of sources in these folders of an image's tree."""
    words: list[str | Path] = ["chroot", tree, f"/usr/bin/{PYTHON}", "-I", "-S", "-B", "-m", "compileall", "-q", "-b"]
    words += ["--invalidation-mode", "unchecked-hash"]
    # A package may carry a template or a file for another Python that does not compile; it stays as it is.
    await asyncio.gather(*(processes.run([*words, f"/{folder}"], check=False) for folder in folders))
    await asyncio.to_thread(_drop_sources, [tree / folder for folder in folders])


def _drop_sources(folders: Sequence[Path]) -> None:
    for folder in folders:
        for source in folder.rglob("*.py"):
            if source.with_suffix(".pyc").exists():
                source.unlink()
