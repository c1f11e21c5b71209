"""Commands before and about a session: cipher suites and capabilities, the session's privilege, closing it."""

from __future__ import annotations

import ipaddress
from typing import Final

from rackless.bmc.ipmi.command import Code, Command, CommandCall, CommandRefused
from rackless.bmc.ipmi.endpoint import SESSION_LIMIT
from rackless.bmc.ipmi.session import IpmiSession, Privilege
from rackless.bmc.ipmi.suites import SUITES

_NETFN: Final = 0x06
CHANNEL: Final = 0x01
"""The network is the only channel."""
_THIS: Final = 0x0E
_V20: Final = 0x80
_BY_SUITE: Final = 0x80
_PAGE: Final = 16


def channel(number: int) -> int:
    """The channel that is meant; refused when it is none of ours."""
    if number & 0x0F not in (CHANNEL, _THIS):
        raise CommandRefused(Code.INVALID_FIELD)
    return CHANNEL


def authentication_capabilities(call: CommandCall) -> bytes:
    data = call.need(2)
    channel(data[0])
    if not Privilege.CALLBACK <= data[1] & 0x0F <= Privilege.ADMINISTRATOR:
        raise CommandRefused(Code.INVALID_FIELD)
    v20 = bool(data[0] & _V20)
    names = 0x04 | (0x20 if call.controller.group_key else 0)  # users have names; K_g is set
    return bytes((CHANNEL, 0x80 if v20 else 0x00, names, 0x02 if v20 else 0x00)) + bytes(4)


def cipher_suites(call: CommandCall) -> bytes:
    data = call.need(3)
    channel(data[0])
    offered = [SUITES[id] for id in call.endpoint.suites]
    if data[2] & _BY_SUITE:
        records = b"".join(suite.record for suite in offered)
    else:
        tags = (0x00, 0x40, 0x80)
        records = bytes(
            sorted({tag | one for suite in offered for tag, one in zip(tags, suite.algorithms, strict=True)})
        )
    start = _PAGE * (data[2] & 0x3F)
    return bytes((CHANNEL,)) + records[start : start + _PAGE]


def system_guid(call: CommandCall) -> bytes:
    return call.controller.guid


def set_privilege(call: CommandCall) -> bytes:
    wanted = call.need(1)[0] & 0x0F
    session = call.session
    if wanted:
        if not Privilege.USER <= wanted <= Privilege.ADMINISTRATOR:
            raise CommandRefused(Code.INVALID_FIELD)
        if wanted > session.limit:
            raise CommandRefused(0x81)
        session.privilege = Privilege(wanted)
    return bytes((session.privilege,))


def close(call: CommandCall) -> bytes:
    data = call.need(4, 5)
    wanted = int.from_bytes(data[:4], "little")
    if wanted == call.session.id:
        call.session.closing = True
        return b""
    if call.session.privilege < Privilege.ADMINISTRATOR:
        raise CommandRefused(Code.INSUFFICIENT_PRIVILEGE)
    sessions = call.endpoint.sessions.values()
    handle = data[4] if wanted == 0 and len(data) == 5 else None
    other = next((one for one in sessions if (one.id if handle is None else one.handle) == (handle or wanted)), None)
    if other is None:
        raise CommandRefused(0x87)
    call.endpoint.close(other)
    return b""


def information(call: CommandCall) -> bytes:
    data = call.need(1, 5)
    sessions = sorted(call.endpoint.sessions.values(), key=lambda session: session.handle)
    found: IpmiSession | None
    match data[0]:
        case 0x00:
            found = call.session
        case 0xFE if len(data) == 2:
            found = next((one for one in sessions if one.handle == data[1]), None)
        case 0xFF if len(data) == 5:
            wanted = int.from_bytes(data[1:5], "little")
            found = next((one for one in sessions if one.id == wanted), None)
        case 0xFE | 0xFF:
            raise CommandRefused(Code.LENGTH_INVALID)
        case index:
            found = sessions[index - 1] if index <= len(sessions) else None
    counts = bytes((SESSION_LIMIT, len(sessions)))
    if found is None:
        return b"\x00" + counts
    client = ipaddress.ip_address(found.peer[0])
    address = client.packed if client.version == 4 else bytes(4)
    who = bytes((found.login.user, found.privilege, 0x10 | CHANNEL))
    return bytes((found.handle,)) + counts + who + address + bytes(6) + found.peer[1].to_bytes(2, "little")


COMMANDS: Final = {
    (_NETFN, 0x37): Command(system_guid, Privilege.NONE),
    (_NETFN, 0x38): Command(authentication_capabilities, Privilege.NONE),
    (_NETFN, 0x3B): Command(set_privilege, Privilege.CALLBACK),
    (_NETFN, 0x3C): Command(close, Privilege.CALLBACK),
    (_NETFN, 0x3D): Command(information, Privilege.USER),
    (_NETFN, 0x54): Command(cipher_suites, Privilege.NONE),
}
