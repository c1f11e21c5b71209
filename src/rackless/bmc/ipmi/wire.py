"""What goes over the network, as values: RMCP, ASF's ping, both session headers, and the message inside.

Pure: bytes to frozen values and back. `Malformed` is all that wrong bytes can cause; the caller stays silent then.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

RMCP_ASF: Final = 0x06
RMCP_IPMI: Final = 0x07
_HEAD: Final = b"\x06\x00\xff"
_ASF_IANA: Final = b"\x00\x00\x11\xbe"
_PING, _PONG = 0x80, 0x40

AUTH_NONE: Final = 0x00
AUTH_RMCPP: Final = 0x06
_ENCRYPTED, _AUTHENTICATED = 0x80, 0x40
_OEM_PAYLOAD: Final = 0x02
_LONGEST: Final = 1024
"""No message of ours or of any client is longer; what is longer is not read."""

IPMI, SOL = 0x00, 0x01
OPEN_REQUEST, OPEN_RESPONSE = 0x10, 0x11
RAKP1, RAKP2, RAKP3, RAKP4 = 0x12, 0x13, 0x14, 0x15


class Malformed(Exception):
    """Not what the specification says it should be."""


@dataclass(frozen=True, slots=True)
class Ping:
    """ASF's "is anybody there?"."""

    tag: int

    def pong(self) -> bytes:
        supported = b"\x81\x00" + bytes(6)  # IPMI, and ASF 1.0
        return (
            _HEAD + bytes((RMCP_ASF,)) + _ASF_IANA + bytes((_PONG, self.tag, 0, 16)) + _ASF_IANA + bytes(4) + supported
        )


@dataclass(frozen=True, slots=True)
class Plain:
    """A message in the header of IPMI 1.5, outside any session: how clients find out what a BMC can do."""

    message: bytes

    def encode(self) -> bytes:
        return _HEAD + bytes((RMCP_IPMI, AUTH_NONE)) + bytes(8) + bytes((len(self.message),)) + self.message


@dataclass(frozen=True, slots=True)
class Packet:
    """An RMCP+ packet as it came. `signed` is what its authentication code is made of, `code` and the rest of the trailer."""

    kind: int
    session: int
    sequence: int
    payload: bytes
    encrypted: bool
    authenticated: bool
    signed: bytes
    """From the session header to the end of the datagram; the code is at its end."""


Datagram = Ping | Plain | Packet


def decode(datagram: bytes) -> Datagram:
    if not 5 <= len(datagram) <= _LONGEST or datagram[0] != 0x06:
        raise Malformed
    if datagram[3] == RMCP_ASF:
        if len(datagram) < 12 or datagram[4:8] != _ASF_IANA or datagram[8] != _PING:
            raise Malformed
        return Ping(datagram[9])
    if datagram[3] != RMCP_IPMI:
        raise Malformed
    if datagram[4] == AUTH_NONE:
        return _decode_plain(datagram)
    if datagram[4] == AUTH_RMCPP:
        return _decode_packet(datagram)
    raise Malformed


def _decode_plain(datagram: bytes) -> Plain:
    if len(datagram) < 14 or any(datagram[5:13]):
        raise Malformed
    end = 14 + datagram[13]
    if len(datagram) < end:
        raise Malformed
    return Plain(datagram[14:end])


def _decode_packet(datagram: bytes) -> Packet:
    if len(datagram) < 16:
        raise Malformed
    flags = datagram[5]
    if flags & 0x3F == _OEM_PAYLOAD:
        raise Malformed
    session, sequence, length = struct.unpack_from("<IIH", datagram, 6)
    end = 16 + length
    if len(datagram) < end:
        raise Malformed
    return Packet(
        kind=flags & 0x3F,
        session=session,
        sequence=sequence,
        payload=datagram[16:end],
        encrypted=bool(flags & _ENCRYPTED),
        authenticated=bool(flags & _AUTHENTICATED),
        signed=datagram[4:],
    )


def header(kind: int, session: int, sequence: int, length: int, *, encrypted: bool, authenticated: bool) -> bytes:
    flags = kind | (_ENCRYPTED if encrypted else 0) | (_AUTHENTICATED if authenticated else 0)
    return struct.pack("<BBIIH", AUTH_RMCPP, flags, session, sequence, length)


def outside_session(kind: int, payload: bytes) -> bytes:
    return rmcp(header(kind, 0, 0, len(payload), encrypted=False, authenticated=False) + payload)


def rmcp(body: bytes) -> bytes:
    return _HEAD + bytes((RMCP_IPMI,)) + body


@dataclass(frozen=True, slots=True)
class Request:
    """A message to us: what is asked (network function and command) with its data, and how to address the answer."""

    netfn: int
    command: int
    data: bytes
    target: int = 0x20
    source: int = 0x81
    source_lun: int = 0
    target_lun: int = 0
    number: int = 0
    """The requester's sequence number: the same in an answer, and in a request sent again."""

    def encode(self) -> bytes:
        head = bytes((self.target, self.netfn << 2 | self.target_lun))
        body = bytes((self.source, self.number << 2 | self.source_lun, self.command)) + self.data
        return head + checksum(head) + body + checksum(body)

    def answer(self, code: int, data: bytes = b"") -> bytes:
        head = bytes((self.source, (self.netfn | 1) << 2 | self.source_lun))
        body = bytes((self.target, self.number << 2 | self.target_lun, self.command, code)) + data
        return head + checksum(head) + body + checksum(body)


def decode_request(message: bytes) -> Request:
    if len(message) < 7 or sum(message[:3]) & 0xFF or sum(message[3:]) & 0xFF:
        raise Malformed
    target, function, _, source, number, command = message[:6]
    if function >> 2 & 1:
        raise Malformed  # an answer, and we asked nothing
    return Request(
        netfn=function >> 2,
        command=command,
        data=message[6:-1],
        target=target,
        source=source,
        source_lun=number & 3,
        target_lun=function & 3,
        number=number >> 2,
    )


def checksum(part: bytes) -> bytes:
    return bytes((-sum(part) & 0xFF,))
