"""Small ELF files for tests: the header, the sections that are asked for, and nothing that could run."""

import struct
from pathlib import Path


def write(path: Path, sections: dict[str, bytes], links: dict[str, str] | None = None) -> None:
    names = ["", *sections, ".shstrtab"]
    strings = b"".join(name.encode() + b"\0" for name in names)
    contents = [b"", *sections.values(), strings]
    offsets, body = [], b""
    for content in contents:
        offsets.append(64 + len(body))
        body += content
    rows, at = b"", 0
    for index, name in enumerate(names):
        link = names.index((links or {}).get(name, ""))
        rows += struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, offsets[index], len(contents[index]), link, 0, 1, 0)
        at += len(name) + 1
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, len(names), len(names) - 1
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + body + rows)


def write_library(path: Path, needed: list[str]) -> None:
    strings, entries = b"\0", b""
    for name in needed:
        entries += struct.pack("<qQ", 1, len(strings))
        strings += name.encode() + b"\0"
    entries += struct.pack("<qQ", 0, 0)
    write(path, {".dynamic": entries, ".dynstr": strings}, {".dynamic": ".dynstr"})


def write_module(path: Path, **modinfo: str) -> None:
    write(path, {".modinfo": b"".join(f"{key}={value}".encode() + b"\0" for key, value in modinfo.items())})
