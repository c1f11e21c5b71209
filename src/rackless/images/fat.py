"""FAT file systems made and filled without mounting them: dosfstools and mtools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rackless.ports.process import Processes

_MIB = 1 << 20
# mtools refuses sizes that no floppy had; these images are not floppies.
ENVIRONMENT = {"MTOOLS_SKIP_CHECK": "1"}


async def ensure(
    processes: Processes, image: Path, files: Mapping[str, Path], *, label: str, bits: int, room: int = 2
) -> None:
    """A FAT image with `files` (path inside → file here) and `room` MiB to spare."""
    content = sum(path.stat().st_size for path in files.values())
    least = 34 if bits == 32 else 1  # FAT32 has a smallest number of clusters
    size = max(content // _MIB + room, least)
    image.unlink(missing_ok=True)
    with image.open("wb") as out:
        out.truncate(size * _MIB)
    # The volume number is fixed, so that the same files give the same image.
    await processes.run(["mkfs.vfat", "-F", str(bits), "-n", label, "-i", "72616b6c", "--invariant", image])
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents if str(parent) != "."}
    if folders:
        names = [f"::{folder}" for folder in sorted(folders, key=lambda name: (name.count("/"), name))]
        await processes.run(["mmd", "-i", image, *names], env=ENVIRONMENT)
    for name, path in files.items():
        await processes.run(["mcopy", "-i", image, path, f"::{name}"], env=ENVIRONMENT)
