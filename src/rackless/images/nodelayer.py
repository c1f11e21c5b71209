"""The last stage of the node image: our own wheel, put into the root of a disk that is otherwise done.

A stage of its own, because our code changes more often than Debian's packages: it copies the disk and adds a few files,
which takes seconds. The file system is written to without being mounted. The node agent's modules are there a second time, in a
folder: to read the wheel's list of files costs an emulated server a quarter of a second at each start.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from rackless.images import elf, gpt, python, wheel
from rackless.images.cache import Workspace
from rackless.ports.process import Processes

WHEEL = "/opt/rackless/rackless.whl"
AGENT = "/opt/rackless/agent"
"""Where the node agent's own modules are, as byte code."""


async def build(processes: Processes, base: Path, sources: dict[str, bytes], work: Workspace, name: str) -> None:
    """`base` is the qcow2 without the wheel; the one with it is written to the entry under `name`."""
    made, disk = work.scratch / "rackless.whl", work.scratch / "disk.raw"
    await processes.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", base, disk])
    root = f"{disk}?offset={gpt.offset_of(disk, 'root')}"
    inside = work.scratch / "root"
    await _take_python(processes, root, inside)
    await wheel.build(processes, inside, sources, WHEEL, work.scratch, made)
    agent = take_agent(made, work.scratch / "agent")
    await write_files(processes, root, {made: WHEEL, **{path: f"{AGENT}/{name}" for name, path in agent.items()}})
    await processes.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", disk, work.out / name])


def take_agent(made: Path, target: Path) -> dict[str, Path]:
    """The node agent's modules out of the wheel, by their place below a folder of Python's path."""
    with zipfile.ZipFile(made) as archive:
        names = [name for name in archive.namelist() if name.endswith(".pyc")]
        wanted = [name for name in names if name == "rackless/__init__.pyc" or name.startswith("rackless/node/")]
        return {name: Path(archive.extract(name, target)) for name in wanted}


async def write_files(processes: Processes, root: str, files: dict[Path, str]) -> None:
    """Into a file system that is not mounted, with the folders that are missing."""
    parents = {str(parent) for place in files.values() for parent in Path(place).parents if str(parent) != "/"}
    # a folder that is there already is an error that debugfs tells, and nothing more
    for words in (*(f"mkdir {folder}" for folder in sorted(parents)), *(f"write {f} {to}" for f, to in files.items())):
        await processes.run(["debugfs", "-w", "-R", words, root])
    for file, place in files.items():  # debugfs tells of its failures in words only
        read = file.with_name(f"{file.name}.read")
        said = await processes.run(["debugfs", "-R", f"dump {place} {read}", root])
        if not read.exists() or read.read_bytes() != file.read_bytes():
            raise OSError(f"debugfs did not write {place}: {said.stdout}{said.stderr}")
        read.unlink()


async def _take_python(processes: Processes, root: str, target: Path) -> None:
    """Copies the node's Python out of its file system: it compiles our wheel, because byte code fits one Python only."""

    async def take(file: str) -> Path:
        place = target / file
        place.parent.mkdir(parents=True, exist_ok=True)
        await processes.run(["debugfs", "-R", f"rdump /{file} {place.parent}", root])
        return await take(f"{Path(file).parent}/{place.readlink()}") if place.is_symlink() else place

    await take(python.STDLIB)
    await take(python.LOADER)
    wanted = [await take(f"usr/bin/{python.PYTHON}")]
    while wanted:
        for library in elf.needed(wanted.pop()):
            if not (target / python.SHARED / library).exists():
                wanted.append(await take(f"{python.SHARED}/{library}"))
