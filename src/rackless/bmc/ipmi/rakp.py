"""The four messages by which two parties that share a password agree on keys (RAKP), and the request before them.

Pure: bytes to frozen values and back. What is in the keys and who may log in is decided elsewhere.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from rackless.bmc.ipmi.wire import Malformed

NAME_LONGEST = 16


class RakpStatus(IntEnum):
    """Why a session is refused, in the words of the specification (table 13-15)."""

    OK = 0x00
    NO_RESOURCES = 0x01
    INVALID_SESSION = 0x02
    INVALID_PAYLOAD = 0x03
    INVALID_AUTHENTICATION = 0x04
    INVALID_INTEGRITY = 0x05
    INVALID_ROLE = 0x09
    UNAUTHORIZED_ROLE = 0x0A
    INVALID_NAME_LENGTH = 0x0C
    UNAUTHORIZED_NAME = 0x0D
    INVALID_CHECK_VALUE = 0x0F
    INVALID_CONFIDENTIALITY = 0x10
    NO_SUITE = 0x11
    ILLEGAL_PARAMETER = 0x12


@dataclass(frozen=True, slots=True)
class OpenRequest:
    tag: int
    privilege: int
    console: int
    """The session's name on the client's side."""
    algorithms: tuple[int | None, int | None, int | None]
    """Authentication, integrity, confidentiality; None leaves the choice to us."""


def decode_open_request(payload: bytes) -> OpenRequest:
    if len(payload) < 32:
        raise Malformed
    (console,) = struct.unpack_from("<I", payload, 4)
    return OpenRequest(
        payload[0], payload[1] & 0x0F, console, (_algorithm(payload, 0), _algorithm(payload, 1), _algorithm(payload, 2))
    )


def _algorithm(payload: bytes, kind: int) -> int | None:
    at = 8 + 8 * kind
    if payload[at] != kind:
        raise Malformed
    return payload[at + 4] & 0x3F if payload[at + 3] else None


def encode_open_response(
    tag: int, privilege: int, console: int, session: int, algorithms: tuple[int, int, int]
) -> bytes:
    chosen = b"".join(bytes((kind, 0, 0, 8, algorithm, 0, 0, 0)) for kind, algorithm in enumerate(algorithms))
    return bytes((tag, RakpStatus.OK, privilege, 0)) + struct.pack("<II", console, session) + chosen


def refusal(tag: int, status: RakpStatus, console: int) -> bytes:
    """The short form of every answer that is a no."""
    return bytes((tag, status, 0, 0)) + struct.pack("<I", console)


@dataclass(frozen=True, slots=True)
class Rakp1:
    tag: int
    session: int
    random: bytes
    role: int
    """As sent, for the keys are made of it: the privilege wanted, and whether the name alone decides."""
    name: bytes

    @property
    def privilege(self) -> int:
        return self.role & 0x0F

    @property
    def by_name_only(self) -> bool:
        return bool(self.role & 0x10)

    @property
    def identity(self) -> bytes:
        """Role, length and name, as they enter every key."""
        return bytes((self.role, len(self.name))) + self.name


class NameTooLong(Malformed):
    def __init__(self, tag: int, session: int) -> None:
        self.tag = tag
        self.session = session


def decode_rakp1(payload: bytes) -> Rakp1:
    if len(payload) < 28:
        raise Malformed
    (session,) = struct.unpack_from("<I", payload, 4)
    length = payload[27]
    if length > NAME_LONGEST:
        raise NameTooLong(payload[0], session)
    if len(payload) < 28 + length:
        raise Malformed
    return Rakp1(payload[0], session, payload[8:24], payload[24], payload[28 : 28 + length])


def encode_rakp2(tag: int, console: int, random: bytes, guid: bytes, code: bytes) -> bytes:
    return bytes((tag, RakpStatus.OK, 0, 0)) + struct.pack("<I", console) + random + guid + code


@dataclass(frozen=True, slots=True)
class Rakp3:
    tag: int
    status: int
    session: int
    code: bytes


def decode_rakp3(payload: bytes) -> Rakp3:
    if len(payload) < 8:
        raise Malformed
    (session,) = struct.unpack_from("<I", payload, 4)
    return Rakp3(payload[0], payload[1], session, payload[8:])


def encode_rakp4(tag: int, console: int, check: bytes) -> bytes:
    return bytes((tag, RakpStatus.OK, 0, 0)) + struct.pack("<I", console) + check
