"""DCMI, the data centre's extension: power reading, temperatures, asset tag, the BMC's own name."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Final

from rackless.bmc.core.readings import model
from rackless.bmc.ipmi import sdr
from rackless.bmc.ipmi.command import Code, Command, CommandCall, CommandRefused, Run
from rackless.bmc.ipmi.commands.session import CHANNEL
from rackless.bmc.ipmi.sdr import Analog
from rackless.bmc.ipmi.sel import MOST
from rackless.bmc.ipmi.session import Privilege

_NETFN: Final = 0x2C
_GROUP: Final = 0xDC
_REVISION: Final = b"\x01\x05\x02"
_NO_LIMIT: Final = 0x80
_PIECE: Final = 16
_LONGEST_NAME, _LONGEST_TAG = 64, 63
_ENTITIES: Final = {0x40: (0x01,), 0x37: (0x01,), 0x41: (0x02,), 0x03: (0x02,)}
"""Inlet and CPU temperature: the sensors by DCMI's entity, and by IPMI's."""


def _group(call: CommandCall, least: int, most: int | None = None) -> bytes:
    """The data behind the byte that says "DCMI"; other groups share this network function."""
    if not call.data or call.data[0] != _GROUP:
        raise CommandRefused(Code.INVALID_COMMAND)
    return call.need(least + 1, None if most is None else most + 1)[1:]


def capabilities(call: CommandCall) -> bytes:
    values = {
        1: bytes((0x00, 0x01, 0x06)),  # power can be read; over the first LAN channel, with SOL
        2: struct.pack("<H", 0x8000 | MOST) + bytes((0x00, 0x05, 0x01)),
        3: bytes((0x20, 0x00)),
        4: bytes((CHANNEL, 0xFF, 0xFF)),
        5: bytes((0x00,)),
    }
    value = values.get(_group(call, 1)[0])
    if value is None:
        raise CommandRefused(Code.INVALID_FIELD)
    return bytes((_GROUP,)) + _REVISION + value


def power_reading(call: CommandCall) -> bytes:
    mode = _group(call, 3)[0]
    if mode != 1:
        raise CommandRefused(Code.INVALID_FIELD)
    server = call.controller.chassis.server()
    low, high = (round(model(server, on=on).watts) for on in (False, True))
    share, seconds = call.controller.on_share()
    least, most = (low if share < 1 else high), (high if share > 0 else low)
    average = round(low + (high - low) * share)
    stamp, period = int(call.controller.sel.now()) & 0xFFFFFFFF, min(int(seconds * 1000), 0xFFFFFFFF)
    measuring = 0x40
    now = round(call.controller.chassis.readings().watts)
    return bytes((_GROUP,)) + struct.pack("<HHHHIIB", now, least, most, average, stamp, period, measuring)


def power_limit(call: CommandCall) -> bytes:
    _group(call, 2)
    raise CommandRefused(_NO_LIMIT)


def _text(call: CommandCall, text: str) -> bytes:
    offset, count = _group(call, 2)
    raw = text.encode()
    if count > _PIECE or offset > len(raw):
        raise CommandRefused(Code.OUT_OF_RANGE)
    return bytes((_GROUP, len(raw))) + raw[offset : offset + count]


def _pieced(call: CommandCall, text: str, most: int) -> str:
    """The text after a piece of it was written."""
    data = _group(call, 2, 2 + _PIECE)
    offset, count, piece = data[0], data[1], data[2:]
    old = text.encode()
    if count != len(piece) or offset + count > most or offset > len(old):
        raise CommandRefused(Code.OUT_OF_RANGE)
    try:
        return (old[:offset] + piece).rstrip(b"\0").decode()
    except UnicodeDecodeError:
        raise CommandRefused(Code.INVALID_FIELD) from None


def _tag(call: CommandCall) -> str:
    return str(call.controller.chassis.memory.settings.get("asset_tag", ""))


def get_asset_tag(call: CommandCall) -> bytes:
    return _text(call, _tag(call))


async def set_asset_tag(call: CommandCall) -> bytes:
    tag = _pieced(call, _tag(call), _LONGEST_TAG)
    await call.controller.chassis.update(lambda memory: replace(memory, settings={**memory.settings, "asset_tag": tag}))
    return bytes((_GROUP, len(tag.encode())))


def get_name(call: CommandCall) -> bytes:
    return _text(call, call.controller.setting("name", f"bmc-{call.controller.chassis.name}"[:_LONGEST_NAME]))


async def set_name(call: CommandCall) -> bytes:
    name = _pieced(call, call.controller.setting("name", ""), _LONGEST_NAME)
    await call.controller.keep(name=name)
    return bytes((_GROUP, len(name.encode())))


def _temperatures(entity: int, type: int) -> list[Analog]:
    if type != sdr.TEMPERATURE:
        raise CommandRefused(Code.INVALID_FIELD)
    found = (sdr.BY_NUMBER[number] for number in _ENTITIES.get(entity, ()))
    return [sensor for sensor in found if isinstance(sensor, Analog)]


def sensor_information(call: CommandCall) -> bytes:
    type, entity, _, _ = _group(call, 4)
    found = _temperatures(entity, type)
    ids = [id for id, record in sdr.RECORDS.items() for sensor in found if record[7] == sensor.number and id <= 255]
    return bytes((_GROUP, len(ids), len(ids))) + b"".join(struct.pack("<H", id) for id in ids)


def temperatures(call: CommandCall) -> bytes:
    type, entity, _, _ = _group(call, 4)
    readings = call.controller.chassis.readings()
    values = [(sensor.instance, sensor.read(readings)) for sensor in _temperatures(entity, type)]
    shown = [bytes((round(value) & 0x7F, instance)) for instance, value in values if value is not None]
    return bytes((_GROUP, len(shown), len(shown))) + b"".join(shown)


def _command(run: Run, privilege: Privilege = Privilege.USER) -> Command:
    return Command(run, privilege)


COMMANDS: Final = {
    (_NETFN, 0x01): _command(capabilities),
    (_NETFN, 0x02): _command(power_reading),
    (_NETFN, 0x03): _command(power_limit),
    (_NETFN, 0x06): _command(get_asset_tag),
    (_NETFN, 0x07): _command(sensor_information),
    (_NETFN, 0x08): _command(set_asset_tag, Privilege.OPERATOR),
    (_NETFN, 0x09): _command(get_name),
    (_NETFN, 0x0A): _command(set_name, Privilege.ADMINISTRATOR),
    (_NETFN, 0x10): _command(temperatures),
}
