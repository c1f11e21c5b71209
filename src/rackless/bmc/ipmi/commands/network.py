"""The channel and its LAN configuration. A BMC's address is the lab's to give: it can be read and not changed here."""

from __future__ import annotations

import ipaddress
from typing import Final

from rackless.bmc.core.faults import Operation
from rackless.bmc.ipmi.command import Code, Command, CommandCall, CommandRefused
from rackless.bmc.ipmi.commands.session import CHANNEL, channel
from rackless.bmc.ipmi.session import Privilege
from rackless.bmc.ipmi.suites import KEY_LENGTH

_APP, _TRANSPORT = 0x06, 0x0C
_ALWAYS_AVAILABLE: Final = 0x22
"""The channel's access mode; alerts are off, for there are none."""
_NOT_SUPPORTED, _READ_ONLY = 0x80, 0x82
_UNLOCKED: Final = 0x02


def get_access(call: CommandCall) -> bytes:
    data = call.need(2)
    channel(data[0])
    if data[1] >> 6 not in (1, 2):
        raise CommandRefused(Code.INVALID_FIELD)
    return bytes((_ALWAYS_AVAILABLE, Privilege.ADMINISTRATOR))


def set_access(call: CommandCall) -> bytes:
    """What it already is may be said again; it cannot be made something else."""
    data = call.need(3)
    channel(data[0])
    other_mode = data[1] >> 6 and data[1] & 0x07 != _ALWAYS_AVAILABLE & 0x07
    other_limit = data[2] >> 6 and data[2] & 0x0F != Privilege.ADMINISTRATOR
    if other_mode or other_limit:
        raise CommandRefused(0x83)
    return b""


def information(call: CommandCall) -> bytes:
    channel(call.need(1)[0])
    lan, ipmb, many = 0x04, 0x01, 0x80
    return bytes((CHANNEL, lan, ipmb, many | len(call.endpoint.sessions), 0xF2, 0x1B, 0x00, 0x00, 0x00))


async def security_keys(call: CommandCall) -> bytes:
    """K_g: whoever does not know it cannot log in, whatever the password."""
    data = call.need(3, 3 + KEY_LENGTH)
    channel(data[0])
    if data[2] != 1:  # K_r, and whatever else there may be
        raise CommandRefused(Code.INVALID_FIELD)
    match data[1] & 0x03:
        case 0:
            return bytes((_UNLOCKED,)) + (call.controller.group_key or bytes(KEY_LENGTH))
        case 1 if len(data) == 3 + KEY_LENGTH:
            await call.controller.keep(group_key=data[3:].hex())
            return bytes((_UNLOCKED,))
    raise CommandRefused(Code.INVALID_FIELD)


def get_lan(call: CommandCall) -> bytes:
    data = call.need(4)
    channel(data[0])
    revision = b"\x11"
    if data[0] & 0x80:
        return revision
    value = _parameters(call).get(data[1])
    if value is None:
        raise CommandRefused(_NOT_SUPPORTED)
    return revision + value


def _parameters(call: CommandCall) -> dict[int, bytes]:
    lan, suites = call.controller.lan, call.endpoint.suites
    # a suite we offer can be used for everything, so its privilege limit is the highest; two to a byte
    limits = [Privilege.ADMINISTRATOR if number < len(suites) else 0 for number in range(16)]
    return {
        0: bytes((call.controller.lan_in_progress,)),
        1: b"\x00",  # ways to authenticate of IPMI 1.5: none
        2: bytes(5),
        3: _packed(lan.address),
        4: b"\x01",  # static
        5: call.controller.mac,
        6: _packed(lan.mask),
        7: b"\x40\x40\x10",
        8: lan.port.to_bytes(2, "little"),
        10: b"\x00",  # the kernel answers ARP, not we
        11: b"\x00",
        12: _packed(lan.gateway),
        13: bytes(6),
        14: bytes(4),
        15: bytes(6),
        16: b"public".ljust(18, b"\0"),
        17: b"\x00",
        20: b"\x00\x00",
        21: b"\x00",
        22: bytes((len(suites),)),
        23: b"\x00" + bytes(suites).ljust(16, b"\0"),
        24: b"\x00" + bytes(limits[at] | limits[at + 1] << 4 for at in range(0, 16, 2)),
        26: bytes(6),
    }


def set_lan(call: CommandCall) -> bytes:
    data = call.need(3, 64)
    channel(data[0])
    if data[1] == 0:
        call.controller.lan_in_progress = data[2] & 0x03
        return b""
    value = _parameters(call).get(data[1])
    if value is None:
        raise CommandRefused(_NOT_SUPPORTED)
    if value != data[2:]:  # saying what is already so is no change
        raise CommandRefused(_READ_ONLY)
    return b""


def _packed(address: str) -> bytes:
    parsed = ipaddress.ip_address(address)
    return parsed.packed if parsed.version == 4 else bytes(4)


COMMANDS: Final = {
    (_APP, 0x40): Command(set_access, Privilege.ADMINISTRATOR),
    (_APP, 0x41): Command(get_access, Privilege.USER),
    (_APP, 0x42): Command(information, Privilege.USER),
    (_APP, 0x56): Command(security_keys, Privilege.ADMINISTRATOR),
    (_TRANSPORT, 0x01): Command(set_lan, Privilege.ADMINISTRATOR),
    (_TRANSPORT, 0x02): Command(get_lan, Privilege.OPERATOR, Operation.READ),
}
