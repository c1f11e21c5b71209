"""The system event log over the wire: read, add, take away, and its clock."""

from __future__ import annotations

import struct
from typing import Final

from rackless.bmc.ipmi.command import Code, Command, CommandCall, CommandRefused
from rackless.bmc.ipmi.sel import MOST
from rackless.bmc.ipmi.session import Privilege

_SENSOR, _STORAGE = 0x04, 0x0A
_RECORD: Final = 16
_LAST: Final = 0xFFFF
_ALL: Final = 0xFF
_CAN: Final = 0x0B
"""Delete, reserve, say how much room there is."""


def information(call: CommandCall) -> bytes:
    log = call.controller.sel
    records = log.records()
    room = (MOST - len(records)) * _RECORD
    newest = max((struct.unpack_from("<I", record, 3)[0] for record in records.values()), default=0)
    return struct.pack("<BHHIIB", 0x51, len(records), room, newest, int(log.erased), _CAN)


def allocation(call: CommandCall) -> bytes:
    room = MOST - len(call.controller.sel.records())
    return struct.pack("<HHHHB", MOST, _RECORD, room, room, 1)


def reserve(call: CommandCall) -> bytes:
    return struct.pack("<H", call.controller.sel.reserve())


def entry(call: CommandCall) -> bytes:
    reservation, id, offset, count = struct.unpack("<HHBB", call.need(6))
    records = call.controller.sel.records()
    if offset and reservation != call.controller.sel.reservation:
        raise CommandRefused(Code.RESERVATION_CANCELLED)
    if not records:
        raise CommandRefused(Code.NOT_PRESENT)
    ids = list(records)
    id = {0: ids[0], _LAST: ids[-1]}.get(id, id)
    if id not in records:
        raise CommandRefused(Code.NOT_PRESENT)
    if offset >= _RECORD:
        raise CommandRefused(Code.INVALID_FIELD)
    place = ids.index(id) + 1
    following = ids[place] if place < len(ids) else _LAST
    return struct.pack("<H", following) + records[id][offset : None if count == _ALL else offset + count]


def add(call: CommandCall) -> bytes:
    return struct.pack("<H", call.controller.sel.add(call.need(_RECORD)))


def platform_event(call: CommandCall) -> bytes:
    """An event as a sensor elsewhere would send it; who sent it comes first on a system interface only."""
    data = call.need(7, 8)
    generator = data[:1] if len(data) == 8 else bytes((0x41,))
    event = data[-7:]
    call.controller.sel.add(bytes(2) + b"\x02" + bytes(4) + generator + b"\x00" + event)
    return b""


def delete(call: CommandCall) -> bytes:
    reservation, id = struct.unpack("<HH", call.need(4))
    log = call.controller.sel
    if reservation not in (0, log.reservation):
        raise CommandRefused(Code.RESERVATION_CANCELLED)
    ids = list(log.records())
    id = {0: ids[0], _LAST: ids[-1]}.get(id, id) if ids else id
    if not log.delete(id):
        raise CommandRefused(Code.NOT_PRESENT)
    return struct.pack("<H", id)


def clear(call: CommandCall) -> bytes:
    data = call.need(6)
    log = call.controller.sel
    if struct.unpack_from("<H", data)[0] != log.reservation:
        raise CommandRefused(Code.RESERVATION_CANCELLED)
    if data[2:5] != b"CLR" or data[5] not in (0xAA, 0x00):
        raise CommandRefused(Code.INVALID_FIELD)
    if data[5] == 0xAA:
        reservation = log.reservation
        log.clear()
        log.reservation = reservation  # clients ask with the same one whether it is done
    return b"\x01"


def get_time(call: CommandCall) -> bytes:
    return struct.pack("<I", int(call.controller.sel.now()) & 0xFFFFFFFF)


def set_time(call: CommandCall) -> bytes:
    log = call.controller.sel
    log.offset += struct.unpack("<I", call.need(4))[0] - log.now()
    return b""


def get_utc_offset(call: CommandCall) -> bytes:
    return b"\x00\x00"


COMMANDS: Final = {
    (_SENSOR, 0x02): Command(platform_event, Privilege.OPERATOR),
    (_STORAGE, 0x40): Command(information, Privilege.USER),
    (_STORAGE, 0x41): Command(allocation, Privilege.USER),
    (_STORAGE, 0x42): Command(reserve, Privilege.USER),
    (_STORAGE, 0x43): Command(entry, Privilege.USER),
    (_STORAGE, 0x44): Command(add, Privilege.OPERATOR),
    (_STORAGE, 0x46): Command(delete, Privilege.OPERATOR),
    (_STORAGE, 0x47): Command(clear, Privilege.OPERATOR),
    (_STORAGE, 0x48): Command(get_time, Privilege.USER),
    (_STORAGE, 0x49): Command(set_time, Privilege.OPERATOR),
    (_STORAGE, 0x5C): Command(get_utc_offset, Privilege.USER),
}
