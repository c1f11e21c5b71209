"""Sensors: the repository of their records, and what they show now."""

from __future__ import annotations

import struct
from typing import Final

from rackless.bmc.ipmi import sdr
from rackless.bmc.ipmi.command import Code, Command, CommandCall, CommandRefused
from rackless.bmc.ipmi.sdr import Analog, Discrete
from rackless.bmc.ipmi.session import Privilege

_SENSOR, _STORAGE = 0x04, 0x0A
_SCANNING, _UNAVAILABLE = 0x40, 0x20
_LAST: Final = 0xFFFF
_ALL: Final = 0xFF


def repository(call: CommandCall) -> bytes:
    reserve_supported = 0x02
    return struct.pack("<BHHIIB", sdr.VERSION, len(sdr.RECORDS), 0, 0, 0, reserve_supported)


def reserve(call: CommandCall) -> bytes:
    """The records never change, so a reservation is never lost."""
    return b"\x01\x00"


def record(call: CommandCall) -> bytes:
    _, id, offset, count = struct.unpack("<HHBB", call.need(6))
    ids = list(sdr.RECORDS)
    id = {0: ids[0], _LAST: ids[-1]}.get(id, id)
    if id not in sdr.RECORDS:
        raise CommandRefused(Code.NOT_PRESENT)
    found = sdr.RECORDS[id]
    if offset >= len(found):
        raise CommandRefused(Code.INVALID_FIELD)
    following = id + 1 if id + 1 in sdr.RECORDS else _LAST
    return struct.pack("<H", following) + found[offset : None if count == _ALL else offset + count]


def _sensor(call: CommandCall, least: int = 1, most: int | None = None) -> Analog | Discrete:
    found = sdr.BY_NUMBER.get(call.need(least, most)[0])
    if found is None:
        raise CommandRefused(Code.NOT_PRESENT)
    return found


def _analog(call: CommandCall, least: int = 1, most: int | None = None) -> Analog:
    found = _sensor(call, least, most)
    if isinstance(found, Discrete):
        raise CommandRefused(Code.ILLEGAL)
    return found


def reading(call: CommandCall) -> bytes:
    sensor = _sensor(call)
    controller = call.controller
    if isinstance(sensor, Discrete):
        return bytes((0, _SCANNING)) + struct.pack("<H", 0x8000 | controller.states(sensor))
    value = sensor.read(controller.chassis.readings())
    if value is None:
        return bytes((0, _SCANNING | _UNAVAILABLE, 0xC0))
    raw = sensor.raw(value)
    return bytes((raw, _SCANNING, 0xC0 | sensor.alarms(raw)))


def factors(call: CommandCall) -> bytes:
    sensor = _analog(call, 2)
    return bytes((0xFF, sensor.step & 0xFF, sensor.step >> 2 & 0xC0, 0, 0, 0, 0))


def hysteresis(call: CommandCall) -> bytes:
    _analog(call, 2)
    return b"\x00\x00"


def thresholds(call: CommandCall) -> bytes:
    sensor = _analog(call)
    return bytes((sensor.readable,)) + sensor.thresholds


def event_enable(call: CommandCall) -> bytes:
    _sensor(call)
    return bytes((_SCANNING, 0, 0, 0, 0))


def event_status(call: CommandCall) -> bytes:
    _sensor(call, 1, 6)
    return bytes((_SCANNING, 0, 0, 0, 0))


def kind(call: CommandCall) -> bytes:
    sensor = _sensor(call)
    return bytes((sensor.type, 0x01 if isinstance(sensor, Analog) else 0x6F))


COMMANDS: Final = {
    (_STORAGE, 0x20): Command(repository, Privilege.USER),
    (_STORAGE, 0x22): Command(reserve, Privilege.USER),
    (_STORAGE, 0x23): Command(record, Privilege.USER),
    (_SENSOR, 0x23): Command(factors, Privilege.USER),
    (_SENSOR, 0x25): Command(hysteresis, Privilege.USER),
    (_SENSOR, 0x27): Command(thresholds, Privilege.USER),
    (_SENSOR, 0x29): Command(event_enable, Privilege.USER),
    (_SENSOR, 0x2B): Command(event_status, Privilege.USER),
    (_SENSOR, 0x2D): Command(reading, Privilege.USER),
    (_SENSOR, 0x2F): Command(kind, Privilege.USER),
}
