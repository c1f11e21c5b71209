"""Python on a node: the interpreter's library as byte code, and beside it what our own wheel needs.

On an emulated server a start that compiles sources takes half a minute; one that reads byte code, seconds.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

from rackless.images import elf, python
from rackless.images.files import install
from rackless.ports.process import Processes

REQUIREMENTS = "node/api-requirements.txt"
LIBRARIES = "opt/rackless/lib"
_UNWANTED = re.compile(
    r"(^|/)(tests?|__pycache__|bin|pycparser|cffi|_cffi_include|\.hash|_testcapi[^/]*)(/|$)"
    r"|\.dist-info(/|$)|\.(pyi|pxd|pyx|pxi|c|h|a|pth)$"
)
_STDLIB_UNWANTED = (
    "test", "lib2to3", "pydoc_data", "idlelib", "turtledemo", "tkinter", "ensurepip", "distutils", "venv",
)  # fmt: skip


async def install_python(processes: Processes, root: Path, wheels: Path, scratch: Path) -> None:
    target = scratch / "api"
    await python.install_wheels(processes, root, REQUIREMENTS, wheels, target, scratch)
    await asyncio.to_thread(_place, target, root)
    await python.compile(processes, root, (LIBRARIES, python.STDLIB))
    for name in ("rackless", "rackless-node"):
        install(f"node/{name}", root / "usr/bin" / name, 0o755)


def _place(source: Path, root: Path) -> None:
    for name in _STDLIB_UNWANTED:
        shutil.rmtree(root / python.STDLIB / name, ignore_errors=True)
    shutil.rmtree(root / "usr/share/python-wheels")
    copy_libraries(source, root)


def copy_libraries(source: Path, root: Path) -> None:
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if path.is_dir() or _UNWANTED.search(str(relative)):
            continue
        place = root / LIBRARIES / relative
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
        if ".so" in path.name and elf.is_elf(place):
            elf.strip(place)
