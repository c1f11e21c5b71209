"""The management controller itself: what it is, whether it is well, how to start it anew."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from rackless.bmc.ipmi.command import Command, CommandCall
from rackless.bmc.ipmi.session import Privilege

_NETFN: Final = 0x06
_GOODBYE_SECONDS: Final = 1.0
_SUPPORTS: Final = 0x8F
"""Sensors, their records, the event log, FRU inventory; a chassis."""


def _device_id() -> bytes:
    major, minor = (int(part) for part in version("rackless").split(".")[:2])
    minor_bcd = minor // 10 << 4 | minor % 10
    maker, product = bytes(3), bytes(2)  # no number was assigned to us
    return bytes((0x20, 0x01, major & 0x7F, minor_bcd, 0x02, _SUPPORTS)) + maker + product + bytes(4)


_DEVICE_ID: Final = _device_id()


def device_id(call: CommandCall) -> bytes:
    return _DEVICE_ID


def cold_reset(call: CommandCall) -> bytes:
    """The server is not touched. Sessions end, also this one, once it was told so."""
    call.controller.forget()
    call.controller.restart(0.0)
    return b""


def warm_reset(call: CommandCall) -> bytes:
    """Sessions end too, but with a moment to say goodbye."""
    call.controller.restart(_GOODBYE_SECONDS)
    return b""


def self_test(call: CommandCall) -> bytes:
    return b"\x55\x00"


def device_guid(call: CommandCall) -> bytes:
    return call.controller.guid


COMMANDS: Final = {
    (_NETFN, 0x01): Command(device_id, Privilege.USER),
    (_NETFN, 0x02): Command(cold_reset, Privilege.ADMINISTRATOR),
    (_NETFN, 0x03): Command(warm_reset, Privilege.ADMINISTRATOR),
    (_NETFN, 0x04): Command(self_test, Privilege.USER),
    (_NETFN, 0x08): Command(device_guid, Privilege.USER),
}
