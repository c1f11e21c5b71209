"""A screen as QEMU dumps it (PPM) made into a PNG. Pure."""

from __future__ import annotations

import struct
import zlib


def ppm_to_png(data: bytes) -> bytes:
    fields: list[bytes] = []
    position = 0
    while len(fields) < 4:  # P6, width, height, depth: by white space, then the pixels
        end = position
        while not data[end : end + 1].isspace():
            end += 1
        fields.append(data[position:end])
        position = end + 1
    if fields[0] != b"P6" or fields[3] != b"255":
        raise ValueError("not a picture that QEMU makes")
    width, height = int(fields[1]), int(fields[2])
    row = width * 3
    rows = b"".join(b"\0" + data[position + y * row : position + (y + 1) * row] for y in range(height))
    header = struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 6)) + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack("!I", len(body)) + kind + body + struct.pack("!I", zlib.crc32(kind + body))
