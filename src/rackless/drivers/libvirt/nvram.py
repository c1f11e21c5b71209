"""One variable in the file that a UEFI firmware keeps its variables in (EDK2's layout). Pure: bytes in, bytes out.

Used while the server is off, to ask its firmware for the set-up screen in the way an operating system would.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from uuid import UUID

GLOBAL = UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c")
OS_INDICATIONS = "OsIndications"
BOOT_TO_SETUP = 0x1

_STORE = UUID("aaf32c78-947b-439a-a180-2e144ec37792").bytes_le
"""Variables with a place for a signature each, as all builds of OVMF have them."""
_STORE_HEAD = 28
_HEAD = struct.Struct("<HBBIQ16sIII16s")
_START, _ADDED = 0x55AA, 0x3F
_LASTING_READABLE = 0x7
"""Kept when the power is off, seen by firmware and system."""


class NotUnderstood(ValueError):
    """It is not such a file, or it is full."""


@dataclass(frozen=True, slots=True)
class _Variable:
    at: int
    data_at: int
    data_size: int
    end: int
    there: bool
    name: str
    vendor: bytes


def ask_for_setup(store: bytes) -> bytes:
    """At its next start the firmware shows its set-up screen, and forgets that it was asked."""
    old = get(store, OS_INDICATIONS) or bytes(8)
    wish = int.from_bytes(old, "little") | BOOT_TO_SETUP
    return put(store, OS_INDICATIONS, wish.to_bytes(8, "little"))


def get(store: bytes, name: str, vendor: UUID = GLOBAL) -> bytes | None:
    first, end = _bounds(store)
    found = _find(store, first, end, name, vendor)
    return store[found.data_at : found.data_at + found.data_size] if found is not None else None


def put(store: bytes, name: str, data: bytes, vendor: UUID = GLOBAL) -> bytes:
    first, end = _bounds(store)
    found = _find(store, first, end, name, vendor)
    if found is not None and found.data_size == len(data):
        return store[: found.data_at] + data + store[found.data_at + len(data) :]
    if found is not None:
        raise NotUnderstood(f"{name} has an unexpected size")
    at = max((one.end for one in _variables(store, first, end)), default=first)
    text = name.encode("utf-16-le") + b"\0\0"
    head = _HEAD.pack(
        _START, _ADDED, 0, _LASTING_READABLE, 0, bytes(16), 0, len(text), len(data), vendor.bytes_le
    )  # fmt: skip
    entry = head + text + data
    if at + len(entry) > end:
        raise NotUnderstood("there is no room for another variable")
    return store[:at] + entry + store[at + len(entry) :]


def _bounds(store: bytes) -> tuple[int, int]:
    """Where variables begin, and where they must end."""
    if store[40:44] != b"_FVH":
        raise NotUnderstood("it does not begin with a firmware volume")
    at = int.from_bytes(store[48:50], "little")
    if store[at : at + 16] != _STORE:
        raise NotUnderstood("its variables are of another kind")
    return at + _STORE_HEAD, at + int.from_bytes(store[at + 16 : at + 20], "little")


def _variables(store: bytes, at: int, end: int) -> list[_Variable]:
    found = []
    while at + _HEAD.size <= end:
        start, state, _, _, _, _, _, name_size, data_size, vendor = _HEAD.unpack_from(store, at)
        if start != _START:
            break
        data_at = at + _HEAD.size + name_size
        after = (data_at + data_size + 3) & ~3
        if after > end:
            raise NotUnderstood("a variable is longer than the file")
        name = store[at + _HEAD.size : data_at].decode("utf-16-le", "replace").rstrip("\0")
        found.append(_Variable(at, data_at, data_size, after, state == _ADDED, name, vendor))
        at = after
    return found


def _find(store: bytes, first: int, end: int, name: str, vendor: UUID) -> _Variable | None:
    wanted = (one for one in _variables(store, first, end) if one.there and one.name == name)
    return next((one for one in wanted if one.vendor == vendor.bytes_le), None)
