"""The last stage of the node image: our own wheel, put into the root of a disk that is otherwise done.

A stage of its own, because our code changes more often than Debian's packages: it copies the disk and adds one file,
which takes seconds. The file system is written to without being mounted.
"""

from __future__ import annotations

from pathlib import Path

from rackless.images import elf, gpt, python, wheel
from rackless.images.cache import Workspace
from rackless.ports.process import Processes

WHEEL = "/opt/rackless/rackless.whl"


async def build(processes: Processes, base: Path, sources: dict[str, bytes], work: Workspace, name: str) -> None:
    """`base` is the qcow2 without the wheel; the one with it is written to the entry under `name`."""
    made, disk = work.scratch / "rackless.whl", work.scratch / "disk.raw"
    await processes.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", base, disk])
    root = f"{disk}?offset={gpt.offset_of(disk, 'root')}"
    inside = work.scratch / "root"
    await _take_python(processes, root, inside)
    await wheel.build(processes, inside, sources, WHEEL, work.scratch, made)
    # debugfs tells of its failures in words only
    await processes.run(["debugfs", "-w", "-R", f"write {made} {WHEEL}", root])
    written = await processes.run(["debugfs", "-R", f"stat {WHEEL}", root])
    if f"Size: {made.stat().st_size}" not in written.stdout:
        raise OSError(f"debugfs did not write {WHEEL}: {written.stdout}{written.stderr}")
    await processes.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", disk, work.out / name])


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
