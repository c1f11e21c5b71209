"""The watchdog timer, and the small switches beside it."""

from __future__ import annotations

import struct
from typing import Final

from rackless.bmc.ipmi.command import Code, Command, CommandCall, CommandRefused
from rackless.bmc.ipmi.session import Privilege
from rackless.bmc.ipmi.watchdog import ACTIONS

_APP: Final = 0x06
_NEVER_SET: Final = 0x80
_RUNNING: Final = 0x40


def reset(call: CommandCall) -> bytes:
    watchdog = call.controller.watchdog
    if not watchdog.was_set:
        raise CommandRefused(_NEVER_SET)
    watchdog.wind()
    return b""


def set(call: CommandCall) -> bytes:
    use, actions, pretimeout, clear, initial = struct.unpack("<BBBBH", call.need(6))
    if not 1 <= use & 0x07 <= 5 or actions & 0x07 >= len(ACTIONS):
        raise CommandRefused(Code.INVALID_FIELD)
    call.controller.watchdog.set(use, actions, pretimeout, clear, initial)
    return b""


def get(call: CommandCall) -> bytes:
    watchdog = call.controller.watchdog
    use = watchdog.use & 0x87 | (_RUNNING if watchdog.running else 0)
    fields = (use, watchdog.actions, watchdog.pretimeout, watchdog.expired, watchdog.initial, watchdog.left)
    return struct.pack("<BBBBHH", *fields)


def set_enables(call: CommandCall) -> bytes:
    call.controller.enables = call.need(1)[0]
    return b""


def get_enables(call: CommandCall) -> bytes:
    return bytes((call.controller.enables,))


COMMANDS: Final = {
    (_APP, 0x22): Command(reset, Privilege.OPERATOR),
    (_APP, 0x24): Command(set, Privilege.OPERATOR),
    (_APP, 0x25): Command(get, Privilege.USER),
    (_APP, 0x2E): Command(set_enables, Privilege.ADMINISTRATOR),
    (_APP, 0x2F): Command(get_enables, Privilege.USER),
}
