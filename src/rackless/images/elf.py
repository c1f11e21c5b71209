"""What we need of ELF files: which libraries a program needs, the sections of a kernel module, and a smaller library.

Only 64-bit little-endian files, which is what x86_64 has. Nothing is executed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"\x7fELF\x02\x01"  # 64 bit, little endian
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<qQ")
_NEEDED = 1


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    link: int
    data: bytes


def is_elf(path: Path) -> bool:
    with path.open("rb") as source:
        return source.read(len(_MAGIC)) == _MAGIC


def sections(path: Path, names: frozenset[str]) -> dict[str, Section]:
    """The sections of those names, and the sections they link to (under `link:<name>`)."""
    with path.open("rb") as source:
        header = source.read(64)
        if header[: len(_MAGIC)] != _MAGIC:
            return {}
        (table,) = struct.unpack_from("<Q", header, 40)
        size, count, names_at = struct.unpack_from("<HHH", header, 58)
        if not table or size != _SECTION.size:
            return {}
        source.seek(table)
        raw = source.read(size * count)
        rows = [_SECTION.unpack_from(raw, index * size) for index in range(len(raw) // size)]

        def read(index: int) -> bytes:
            source.seek(rows[index][4])
            return source.read(rows[index][5])

        strings = read(names_at)
        found: dict[str, Section] = {}
        for index, row in enumerate(rows):
            name = _string(strings, row[0])
            if name in names:
                found[name] = Section(name, row[6], read(index))
                found[f"link:{name}"] = Section(name, 0, read(row[6]))
        return found


def strip(path: Path) -> None:
    """Cut off what is for debuggers only: all behind the last segment, which is all that the loader reads."""
    with path.open("r+b") as file:
        header = file.read(64)
        (table,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        if header[: len(_MAGIC)] != _MAGIC or not table or size != _SEGMENT.size:
            return
        file.seek(table)
        segments = [_SEGMENT.unpack(file.read(size)) for _ in range(count)]
        end = max((offset + length for _, _, offset, _, _, length, _, _ in segments), default=0)
        if not table + size * count <= end < path.stat().st_size:
            return
        file.truncate(end)
        file.seek(40)
        file.write(struct.pack("<Q", 0))  # where the sections were
        file.seek(58)
        file.write(struct.pack("<HHH", _SECTION.size, 0, 0))


def needed(path: Path) -> tuple[str, ...]:
    """The libraries a program or library asks for (DT_NEEDED), by name."""
    found = sections(path, frozenset({".dynamic"}))
    if ".dynamic" not in found:
        return ()
    strings = found["link:.dynamic"].data
    entries = _DYNAMIC.iter_unpack(found[".dynamic"].data[: len(found[".dynamic"].data) // 16 * 16])
    return tuple(_string(strings, value) for tag, value in entries if tag == _NEEDED)


def _string(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()
