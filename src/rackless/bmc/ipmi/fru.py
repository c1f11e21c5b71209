"""The inventory (FRU) of a server as bytes: what it is, who made it, its serial number and asset tag. Pure."""

from __future__ import annotations

from typing import Final

from rackless.bmc.ipmi.wire import checksum
from rackless.ports.hypervisor import ServerState

_MAKER: Final = "rackless"
_MODEL: Final = "virtual server"
_RACK_MOUNT: Final = 0x17
_ENGLISH: Final = 0x00
_END: Final = b"\xc1"


def render(server: ServerState, asset_tag: str, version: str) -> bytes:
    serial = str(server.uuid)
    areas = (
        _area(bytes((_RACK_MOUNT,)), "", serial),
        _area(bytes((_ENGLISH, 0, 0, 0)), _MAKER, _MODEL, serial, "", ""),
        _area(bytes((_ENGLISH,)), _MAKER, _MODEL, server.name, version, serial, asset_tag, ""),
    )
    offsets, at = [], 8
    for area in areas:
        offsets.append(at // 8)
        at += len(area)
    head = bytes((0x01, 0, *offsets, 0, 0))
    return head + checksum(head) + b"".join(areas)


def _area(start: bytes, *texts: str) -> bytes:
    body = start + b"".join(_field(text) for text in texts) + _END
    length = -(-(2 + len(body) + 1) // 8)
    whole = (bytes((0x01, length)) + body).ljust(8 * length - 1, b"\0")
    return whole + checksum(whole)


def _field(text: str) -> bytes:
    raw = text.encode("latin-1", "replace")[:63]
    if len(raw) == 1:  # a field of one letter would look like the end
        raw += b" "
    return bytes((0xC0 | len(raw),)) + raw if raw else b"\x00"
