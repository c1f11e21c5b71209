"""Protobuf's wire format, as much of it as we write and read: numbers, bytes, and messages inside messages."""

from __future__ import annotations

from collections.abc import Iterator


def varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, data: bytes) -> bytes:
    """Bytes, a text, or a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def parts(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field of a message; raises ValueError when it is cut off."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = read_varint(data, at)
            yield number, value
            continue
        length = {1: 8, 5: 4}.get(wire)
        if wire == 2:
            length, at = read_varint(data, at)
        if length is None or at + length > len(data):
            raise ValueError("a field is cut off")
        yield number, data[at : at + length]
        at += length
