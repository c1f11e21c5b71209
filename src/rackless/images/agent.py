"""ironic-python-agent as files: from PyPI by pinned content, then compiled for the deploy ramdisk."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rackless.images import elf, python
from rackless.images.files import install
from rackless.images.python import PYTHON, STDLIB
from rackless.images.selection import PackageSelection
from rackless.ports.process import Processes

REQUIREMENTS = "deploy/agent-requirements.txt"
_STDLIB_UNWANTED = re.compile(
    r"(^|/)(test|tests|idlelib|tkinter|lib2to3|ensurepip|distutils|pydoc_data|turtledemo|venv|curses|dbm|sqlite3"
    r"|__pycache__|config-3\.11[^/]*)/|\.(pyi|c|h|a)$"
)
_AGENT_UNWANTED = re.compile(
    r"(^|/)(tests?|testsuite|testing|__pycache__|bin|setuptools|pkg_resources|_distutils_hack|tzdata|licenses)(/|$)"
    r"|/(oui|iab)\.txt$|distutils-precedence|/(RECORD|LICENSE.*|AUTHORS.*|INSTALLER|WHEEL|top_level\.txt|REQUESTED)$"
    r"|\.(pyi|pxd|pyx|c|h|a)$"
)


def place(selection: PackageSelection, agent: Path) -> None:
    """Python's library and the agent into the ramdisk's tree, without what is never run there."""
    selection.take_tree(STDLIB, lambda path: not _STDLIB_UNWANTED.search(path))
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
    await python.compile(processes, tree, ("opt/ipa", STDLIB))
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


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def _ignore(top: Path) -> Callable[[Any, list[str]], set[str]]:
    def ignored(folder: Any, names: list[str]) -> set[str]:
        below = Path(folder).relative_to(top)
        return {name for name in names if _AGENT_UNWANTED.search(str(below / name))}

    return ignored
