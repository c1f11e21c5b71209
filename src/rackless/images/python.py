"""Python programs as files of an image: wheels from PyPI by pinned content, byte code instead of sources.

pip comes out of a Debian package and runs under the hypervisor's Python; compiling runs under the image's own Python
inside its tree, so that the byte code is exactly for the interpreter that will read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rackless.errors import RacklessError
from rackless.images.files import install
from rackless.ports.process import Processes

PYTHON = "python3.11"
HOST_PYTHON = "/usr/bin/python3"
STDLIB = f"usr/lib/{PYTHON}"
PIP_PACKAGE = "python3-pip-whl"
_WHEELS = "usr/share/python-wheels"


async def fetch(processes: Processes, root: Path, requirements: str, target: Path, scratch: Path) -> None:
    """What a file of ours pins, by hash, into `target`; `root` has the unpacked package with pip."""
    wheels = sorted((root / _WHEELS).glob("pip-*.whl"))
    if not wheels:
        raise RacklessError("the unpacked packages have no pip", why=f"the package {PIP_PACKAGE} should bring it")
    pinned = scratch / Path(requirements).name
    install(requirements, pinned, 0o644)
    await processes.run(
        [
            HOST_PYTHON, wheels[0] / "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check",
            "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-compile",
            "--python-version", "3.11", "--target", target, "--requirement", pinned,
        ],
        within=900,
    )  # fmt: skip


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
