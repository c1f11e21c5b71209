"""ironic-python-agent as files: from PyPI by pinned content, then compiled for the deploy ramdisk.

pip comes out of a Debian package and runs under the hypervisor's Python; compiling runs under the ramdisk's own Python
inside its tree, so that the byte code is exactly for the interpreter that will read it.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rackless.errors import RacklessError
from rackless.images import elf
from rackless.images.cache import Cache, Workspace, key_of
from rackless.images.files import install, read
from rackless.images.selection import Selection
from rackless.ports.process import Processes

REQUIREMENTS = "deploy/agent-requirements.txt"
PYTHON = "python3.11"
_HOST_PYTHON = "/usr/bin/python3"
_STDLIB = f"usr/lib/{PYTHON}"
_STDLIB_UNWANTED = re.compile(
    r"(^|/)(test|tests|idlelib|tkinter|lib2to3|ensurepip|distutils|pydoc_data|turtledemo|venv|curses|dbm|sqlite3"
    r"|__pycache__|config-3\.11[^/]*)/|\.(pyi|c|h|a)$"
)
_AGENT_UNWANTED = re.compile(
    r"(^|/)(tests?|testsuite|testing|__pycache__|bin|setuptools|pkg_resources|_distutils_hack|tzdata|licenses)(/|$)"
    r"|/(oui|iab)\.txt$|distutils-precedence|/(RECORD|LICENSE.*|AUTHORS.*|INSTALLER|WHEEL|top_level\.txt|REQUESTED)$"
    r"|\.(pyi|pxd|pyx|c|h|a)$"
)


WHEELS = "wheels"
"""The kind of a cache entry: the agent and its dependencies, as they were fetched."""
_PINNED = ("--no-deps", "--require-hashes", "--only-binary=:all:", "--python-version", "3.11")


def entry_key() -> str:
    return key_of([read(REQUIREMENTS), *_PINNED])


def entry_name() -> str:
    return f"{WHEELS}-{entry_key()}"


async def ensure_wheels(processes: Processes, store: Cache, root: Path, scratch: Path) -> Path:
    """A stage of its own: a ramdisk that is built again fetches nothing from the package index."""

    async def fetch(work: Workspace) -> None:
        await _pip(processes, root, scratch, "download", "--dest", work.out)

    return await store.ensure(WHEELS, entry_key(), fetch)


async def install_wheels(processes: Processes, root: Path, wheels: Path, target: Path, scratch: Path) -> None:
    """The agent and its dependencies into `target`."""
    where = ("--no-index", "--find-links", wheels, "--no-compile", "--target", target)
    await _pip(processes, root, scratch, "install", *where)


async def _pip(processes: Processes, root: Path, scratch: Path, verb: str, *options: str | Path) -> None:
    """`root` has the unpacked package python3-pip-whl. Index, proxy and certificates are as pip is configured here."""
    found = sorted((root / "usr/share/python-wheels").glob("pip-*.whl"))
    if not found:
        raise RacklessError("the unpacked packages have no pip", why="the package python3-pip-whl should bring it")
    requirements = scratch / "agent-requirements.txt"
    install(REQUIREMENTS, requirements, 0o644)
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check")
    words = [_HOST_PYTHON, found[0] / "pip", verb, *quiet, *_PINNED, *options, "--requirement", requirements]
    await processes.run(words, within=900)


def place(selection: Selection, agent: Path) -> None:
    """Python's library and the agent into the ramdisk's tree, without what is never run there."""
    selection.take_tree(_STDLIB, lambda path: not _STDLIB_UNWANTED.search(path))
    selection.take_program(PYTHON)
    inside = selection.target / "opt/ipa"
    shutil.copytree(agent, inside, symlinks=True, copy_function=_link, ignore=_ignore(agent))
    selection.take_libraries_of(path for path in inside.rglob("*.so*") if elf.is_elf(path))
    (selection.target / "usr/bin/python3").symlink_to(PYTHON)
    # The agent starts `python3 -m oslo_concurrency.prlimit` without our path: it must be on the default one.
    packages = selection.target / "usr/lib/python3/dist-packages"
    packages.parent.mkdir(parents=True, exist_ok=True)
    packages.symlink_to("/opt/ipa")
    install("deploy/launch_agent.py", selection.target / "opt/launch_agent.py", 0o644)


async def compile(processes: Processes, tree: Path) -> None:
    """Byte code instead of sources, and regular expressions compiled ahead."""
    words: list[str | Path] = ["chroot", tree, f"/usr/bin/{PYTHON}", "-I", "-S", "-m", "compileall", "-q", "-b"]
    words += ["--invalidation-mode", "unchecked-hash"]
    folders = ("/opt/ipa", f"/{_STDLIB}")
    # A package may carry a template or a file for another Python that does not compile; it stays as it is.
    await asyncio.gather(*(processes.run([*words, folder], check=False) for folder in folders))
    await asyncio.to_thread(_drop_sources, [tree / folder.lstrip("/") for folder in folders])
    await _record_patterns(processes, tree)


async def _record_patterns(processes: Processes, tree: Path) -> None:
    launcher = ["/opt/launch_agent.py", "--record", "/opt/patterns.marshal"]
    # The agent reads the kernel's command line while it is imported; there is no /proc in the tree.
    command_line = tree / "proc/cmdline"
    command_line.touch()
    try:
        await processes.run(["chroot", tree, f"/usr/bin/{PYTHON}", "-I", "-S", "-B", *launcher])
    finally:
        command_line.unlink()


def _drop_sources(folders: list[Path]) -> None:
    for folder in folders:
        for source in folder.rglob("*.py"):
            if source.with_suffix(".pyc").exists():
                source.unlink()


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def _ignore(top: Path) -> Callable[[Any, list[str]], set[str]]:
    def ignored(folder: Any, names: list[str]) -> set[str]:
        below = Path(folder).relative_to(top)
        return {name for name in names if _AGENT_UNWANTED.search(str(below / name))}

    return ignored
