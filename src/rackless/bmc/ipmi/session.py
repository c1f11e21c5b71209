"""One session: its keys, who opened it, what it may do, and which packets it has seen.

Pure: time is given, nothing is sent. `endpoint` opens and closes sessions.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Protocol

from rackless.bmc.ipmi.suites import SessionKeys, Suite, decrypt, encrypt
from rackless.bmc.ipmi.wire import Malformed, Packet, Request, header, rmcp

Peer = tuple[str, int]
"""Where a client is: its address and port."""

_AHEAD, _BEHIND = 15, 16
_SEQUENCE_LAST = 0xFFFFFFFF
_REMEMBERED: Final = 16
_NEXT_HEADER: Final = b"\x07"


class Privilege(IntEnum):
    NONE = 0
    CALLBACK = 1
    USER = 2
    OPERATOR = 3
    ADMINISTRATOR = 4


@dataclass(frozen=True, slots=True)
class Login:
    """A user who may open a session: number and name, the password as a key, the highest privilege."""

    user: int
    name: str
    limit: Privilege
    key: bytes = field(repr=False)


class Payload(Protocol):
    """What a session carries besides messages: Serial over LAN."""

    def receive(self, payload: bytes) -> list[bytes]: ...

    def end(self) -> None:
        """The session is gone."""
        ...


@dataclass(slots=True)
class Window:
    """Which sequence numbers were seen: a little ahead and a little behind the highest is accepted, each once."""

    highest: int = 0
    seen: int = 1

    def accept(self, number: int) -> bool:
        if number == 0:
            return False
        ahead = number - self.highest
        if ahead > 0:
            if ahead > _AHEAD:
                return False
            self.seen = (self.seen << ahead | 1) & (1 << _BEHIND + 1) - 1
            self.highest = number
            return True
        if -ahead > _BEHIND or self.seen >> -ahead & 1:
            return False
        self.seen |= 1 << -ahead
        return True


@dataclass(slots=True)
class IpmiSession:
    id: int
    console: int
    """The client's name for it, in every packet we send."""
    suite: Suite
    keys: SessionKeys = field(repr=False)
    login: Login
    limit: Privilege
    """What was asked for at login; the user's own limit is at least this."""
    privilege: Privilege
    peer: Peer
    handle: int
    used: float
    rakp3: bytes = field(repr=False)
    rakp4: bytes = field(repr=False)
    window: Window = field(default_factory=Window)
    sequence: int = 0
    answers: OrderedDict[Request, tuple[float, bytes | None]] = field(default_factory=OrderedDict)
    """The last requests with our answer; None while it is being worked on."""
    closing: bool = False
    """It ends with the next answer."""
    changes_itself: bool = False
    """It is changing the account it was opened with, and is not ended while it does."""
    payload: Payload | None = None

    def seal(self, kind: int, payload: bytes, random: Callable[[int], bytes]) -> bytes:
        suite = self.suite
        if suite.encrypts:
            payload = encrypt(self.keys.confidentiality, random(16), payload)
        self.sequence = self.sequence % _SEQUENCE_LAST + 1
        head = header(
            kind, self.console, self.sequence, len(payload), encrypted=suite.encrypts, authenticated=suite.signs
        )
        body = head + payload
        if not suite.signs:
            return rmcp(body)
        pad = -(len(body) + 2) % 4
        body += b"\xff" * pad + bytes((pad,)) + _NEXT_HEADER
        return rmcp(body + suite.check(self.keys.integrity, body))

    def unseal(self, packet: Packet) -> bytes:
        """The payload of a packet that is really from our client. Malformed when it is not."""
        suite = self.suite
        if packet.encrypted is not suite.encrypts or packet.authenticated is not suite.signs:
            raise Malformed
        if suite.signs:
            signed, code = packet.signed[: -suite.check_length], packet.signed[-suite.check_length :]
            if len(signed) < 12 + len(packet.payload) + 2:
                raise Malformed
            if not hmac.compare_digest(suite.check(self.keys.integrity, signed), code):
                raise Malformed
        return decrypt(self.keys.confidentiality, packet.payload) if suite.encrypts else packet.payload

    def remember(self, request: Request, now: float, answer: bytes | None) -> None:
        self.answers[request] = (now, answer)
        self.answers.move_to_end(request)
        while len(self.answers) > _REMEMBERED:
            self.answers.popitem(last=False)
