"""Serial over LAN: its settings, and switching it on and off."""

from __future__ import annotations

import struct
from typing import Final

from rackless.bmc.ipmi import wire
from rackless.bmc.ipmi.command import Code, Command, CommandCall, CommandRefused
from rackless.bmc.ipmi.commands.session import CHANNEL, channel
from rackless.bmc.ipmi.controller import ManagementController
from rackless.bmc.ipmi.serial import SerialOverLan
from rackless.bmc.ipmi.session import IpmiSession, Privilege
from rackless.bmc.ipmi.sol import LARGEST
from rackless.ports.console import NoConsole

_APP, _TRANSPORT = 0x06, 0x0C
_ALREADY_ACTIVE, _DISABLED, _NO_ENCRYPTION, _NOT_ACTIVE = 0x80, 0x81, 0x83, 0x80
_NOT_SUPPORTED, _READ_ONLY = 0x80, 0x82
_NO_VLAN: Final = 0xFFFF
_DEFAULTS: Final = {
    1: b"\x01",
    2: b"\xc3",  # encrypted and authenticated; typing at a console can do a lot, so it takes an operator
    3: b"\x05\x60",
    4: b"\x07\x32",
    5: b"\x0a",  # 115200 baud, where that means anything
    6: b"\x0a",
}
_FIXED: Final = {7: bytes((CHANNEL,))}


def _setting(controller: ManagementController, parameter: int) -> bytes:
    kept = controller.setting("sol", {}).get(str(parameter))
    return bytes.fromhex(kept) if kept else _DEFAULTS[parameter]


def _enabled(controller: ManagementController) -> bool:
    return controller.consoles is not None and bool(_setting(controller, 1)[0] & 1)


def get_configuration(call: CommandCall) -> bytes:
    data = call.need(4)
    channel(data[0])
    revision, controller = b"\x11", call.controller
    if data[0] & 0x80:
        return revision
    match data[1]:
        case 0:
            return revision + bytes((controller.sol_in_progress,))
        case 1:
            return revision + bytes((_enabled(controller),))
        case 8:
            return revision + struct.pack("<H", controller.lan.port)
        case parameter if parameter in _DEFAULTS:
            return revision + _setting(controller, parameter)
        case parameter if parameter in _FIXED:
            return revision + _FIXED[parameter]
    raise CommandRefused(_NOT_SUPPORTED)


async def set_configuration(call: CommandCall) -> bytes:
    data = call.need(3, 8)
    channel(data[0])
    parameter, value = data[1], data[2:]
    if parameter == 0:
        call.controller.sol_in_progress = value[0] & 0x03
    elif parameter in _DEFAULTS:
        if len(value) != len(_DEFAULTS[parameter]):
            raise CommandRefused(Code.LENGTH_INVALID)
        await call.controller.keep(sol={**call.controller.setting("sol", {}), str(parameter): value.hex()})
    elif parameter in _FIXED or parameter == 8:
        raise CommandRefused(_READ_ONLY)
    else:
        raise CommandRefused(_NOT_SUPPORTED)
    return b""


def _sol(call: CommandCall, data: bytes) -> None:
    """Serial over LAN is the only payload that is switched on, and there is one console."""
    if data[0] & 0x3F != wire.SOL or data[1] & 0x0F != 1:
        raise CommandRefused(Code.INVALID_FIELD)


def active(call: CommandCall) -> IpmiSession | None:
    return next((one for one in call.endpoint.sessions.values() if one.payload is not None), None)


def activate(call: CommandCall) -> bytes:
    _sol(call, call.need(6))
    controller, session = call.controller, call.session
    if not _enabled(controller) or session.login.user in controller.setting("no_sol", []):
        raise CommandRefused(_DISABLED)
    wanted = _setting(controller, 2)[0]
    if session.privilege < wanted & 0x0F:
        raise CommandRefused(Code.INSUFFICIENT_PRIVILEGE)
    if wanted & 0x80 and not session.suite.encrypts:
        raise CommandRefused(_NO_ENCRYPTION)
    if active(call) is not None:
        raise CommandRefused(_ALREADY_ACTIVE)
    assert controller.consoles is not None
    try:
        heard, write = controller.consoles.attach(controller.chassis.name)
    except NoConsole:
        raise CommandRefused(_DISABLED) from None

    def ended() -> None:
        session.payload = None

    retries, interval = _setting(controller, 4)
    session.payload = SerialOverLan(
        heard,
        write,
        lambda packet: controller.emit(session, wire.SOL, packet),
        ended,
        call.endpoint.now,
        retry_seconds=max(interval, 1) / 100,
        retries=retries & 0x07,
    )
    return bytes(4) + struct.pack("<HHHH", LARGEST, LARGEST, controller.lan.port, _NO_VLAN)


def deactivate(call: CommandCall) -> bytes:
    _sol(call, call.need(6))
    session = active(call)
    if session is None or not isinstance(session.payload, SerialOverLan):
        raise CommandRefused(_NOT_ACTIVE)
    if session is call.session:
        session.payload.end()
    else:
        session.payload.dismiss()
    session.payload = None
    return b""


def activation_status(call: CommandCall) -> bytes:
    if call.need(1)[0] & 0x3F != wire.SOL:
        raise CommandRefused(Code.INVALID_FIELD)
    return struct.pack("<BH", 1, 1 if active(call) else 0)


def instance_information(call: CommandCall) -> bytes:
    _sol(call, call.need(2))
    session = active(call)
    return struct.pack("<I", session.id if session else 0) + bytes((1,)) + bytes(7)


def payload_support(call: CommandCall) -> bytes:
    channel(call.need(1)[0])
    messages_and_sol, login = 0x03, 0x3F
    return bytes((messages_and_sol, 0, login, 0, 0, 0, 0, 0))


def payload_version(call: CommandCall) -> bytes:
    data = call.need(2)
    channel(data[0])
    if data[1] & 0x3F not in (wire.IPMI, wire.SOL, *range(wire.OPEN_REQUEST, wire.RAKP4 + 1)):
        raise CommandRefused(0x80)
    return b"\x10"


COMMANDS: Final = {
    (_APP, 0x48): Command(activate, Privilege.OPERATOR),
    (_APP, 0x49): Command(deactivate, Privilege.OPERATOR),
    (_APP, 0x4A): Command(activation_status, Privilege.USER),
    (_APP, 0x4B): Command(instance_information, Privilege.USER),
    (_APP, 0x4E): Command(payload_support, Privilege.USER),
    (_APP, 0x4F): Command(payload_version, Privilege.USER),
    (_TRANSPORT, 0x21): Command(set_configuration, Privilege.ADMINISTRATOR),
    (_TRANSPORT, 0x22): Command(get_configuration, Privilege.USER),
}
