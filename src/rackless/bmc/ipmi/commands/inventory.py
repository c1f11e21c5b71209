"""The FRU inventory over the wire. It can be read; it is written by changing the server."""

from __future__ import annotations

import struct
from importlib.metadata import version
from typing import Final

from rackless.bmc.ipmi import fru
from rackless.bmc.ipmi.command import Code, Command, CommandCall, CommandRefused
from rackless.bmc.ipmi.session import Privilege

_STORAGE: Final = 0x0A
_VERSION: Final = version("rackless")
_WRITE_PROTECTED: Final = 0x80
_MOST_AT_ONCE: Final = 250


def _content(call: CommandCall, id: int) -> bytes:
    if id != 0:
        raise CommandRefused(Code.NOT_PRESENT)
    chassis = call.controller.chassis
    return fru.render(chassis.server(), chassis.memory.settings.get("asset_tag", ""), _VERSION)


def area(call: CommandCall) -> bytes:
    by_bytes = 0
    return struct.pack("<HB", len(_content(call, call.need(1)[0])), by_bytes)


def read(call: CommandCall) -> bytes:
    id, offset, count = struct.unpack("<BHB", call.need(4))
    content = _content(call, id)
    if offset >= len(content):
        raise CommandRefused(Code.OUT_OF_RANGE)
    part = content[offset : offset + min(count, _MOST_AT_ONCE)]
    return bytes((len(part),)) + part


def write(call: CommandCall) -> bytes:
    raise CommandRefused(_WRITE_PROTECTED)


COMMANDS: Final = {
    (_STORAGE, 0x10): Command(area, Privilege.USER),
    (_STORAGE, 0x11): Command(read, Privilege.USER),
    (_STORAGE, 0x12): Command(write, Privilege.OPERATOR),
}
