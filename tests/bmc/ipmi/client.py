"""A client for the tests: it speaks RMCP+ by itself, so that what it says can be wrong on purpose."""

from __future__ import annotations

import asyncio
import hmac
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from rackless.bmc.ipmi import wire as wire_
from rackless.bmc.ipmi.server import Port
from rackless.bmc.ipmi.session import Peer
from rackless.bmc.ipmi.suites import SUITES, SessionKeys, Suite, decrypt, derive, encrypt
from rackless.bmc.ipmi.wire import Packet, Request

RANDOM = bytes(range(16))


@dataclass
class Wire(asyncio.DatagramTransport):
    """A network cable with one port at its end: what the port sends is kept in order."""

    port: Port
    sent: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    log: list[bytes] = field(default_factory=list)
    """Everything a client said, to be said again."""

    def __post_init__(self) -> None:
        self.port.connection_made(self)

    def sendto(self, data: bytes, addr: object = None) -> None:  # type: ignore[override]
        self.sent.put_nowait(data)

    def close(self) -> None:
        pass

    def say(self, datagram: bytes, peer: Peer = ("192.0.2.1", 40000)) -> None:
        self.log.append(datagram)
        self.port.datagram_received(datagram, peer)

    async def hear(self, within: float = 20.0) -> bytes:
        async with asyncio.timeout(within):
            return await self.sent.get()

    def silent(self) -> bool:
        return self.sent.empty()


class LoginRefused(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(hex(status))
        self.status = status


@dataclass
class Client:
    wire: Wire
    suite: Suite = SUITES[17]
    console: int = 0xA0A1A2A3
    peer: Peer = ("192.0.2.1", 40000)
    session: int = 0
    keys: SessionKeys = field(default_factory=lambda: SessionKeys(b"", b""))
    sequence: int = 0
    number: int = 0
    privilege: int = 4

    async def login(
        self,
        name: str = "admin",
        password: str = "s3cret:with:colons",
        *,
        role: int | None = None,
        group_key: bytes | None = None,
    ) -> None:
        self.session = await self.open()
        role = self.privilege if role is None else role
        user = name.encode()
        identity = bytes((role, len(user))) + user
        reply = await self.ask_outside(
            wire_.RAKP1, bytes((1, 0, 0, 0)) + _id(self.session) + RANDOM + bytes((role, 0, 0, len(user))) + user
        )
        if reply[1]:
            raise LoginRefused(reply[1])
        theirs, guid, code = reply[8:24], reply[24:40], reply[40:]
        key = password.encode().ljust(20, b"\0")
        expected = self.suite.code(key, _id(self.console), _id(self.session), RANDOM, theirs, guid, identity)
        if not hmac.compare_digest(code, expected):
            key_wrong = True
        else:
            key_wrong = False
        proof = self.suite.code(key, theirs, _id(self.console), identity)
        reply = await self.ask_outside(wire_.RAKP3, bytes((2, 0, 0, 0)) + _id(self.session) + proof)
        if reply[1]:
            raise LoginRefused(reply[1])
        assert not key_wrong
        session_key = self.suite.code((group_key or key).ljust(20, b"\0"), RANDOM, theirs, identity)
        assert reply[8:] == self.suite.check(session_key, RANDOM, _id(self.session), guid), "another K_g"
        self.keys = derive(self.suite, session_key)
        self.sequence = 0

    async def open(self) -> int:
        reply = await self.ask_outside(wire_.OPEN_REQUEST, self.open_request())
        if reply[1]:
            raise LoginRefused(reply[1])
        return int.from_bytes(reply[8:12], "little")

    def open_request(self) -> bytes:
        kinds = b"".join(bytes((kind, 0, 0, 8, one, 0, 0, 0)) for kind, one in enumerate(self.suite.algorithms))
        return bytes((0, self.privilege, 0, 0)) + _id(self.console) + kinds

    async def ask_outside(self, kind: int, payload: bytes) -> bytes:
        self.wire.say(wire_.outside_session(kind, payload), self.peer)
        reply = wire_.decode(await self.wire.hear())
        assert isinstance(reply, Packet)
        return reply.payload

    async def ask(self, netfn: int, command: int, data: bytes = b"") -> tuple[int, bytes]:
        """Completion code and data."""
        self.number = (self.number + 1) % 64
        self.wire.say(self.seal(Request(netfn, command, data, number=self.number).encode()), self.peer)
        return self.read(await self.wire.hear())

    async def get(self, netfn: int, command: int, data: bytes = b"") -> bytes:
        code, answer = await self.ask(netfn, command, data)
        assert code == 0, f"completion code {code:#04x}"
        return answer

    async def as_(self, privilege: int) -> None:
        assert await self.get(0x06, 0x3B, bytes((privilege,))) == bytes((privilege,))

    def seal(
        self, message: bytes, *, kind: int = wire_.IPMI, spoil: Callable[[bytes], bytes] = lambda signed: signed
    ) -> bytes:
        self.sequence += 1
        if self.suite.encrypts:
            message = encrypt(self.keys.confidentiality, RANDOM, message)
        head = wire_.header(
            kind,
            self.session,
            self.sequence,
            len(message),
            encrypted=self.suite.encrypts,
            authenticated=self.suite.signs,
        )
        body = head + message
        if not self.suite.signs:
            return wire_.rmcp(body)
        pad = -(len(body) + 2) % 4
        body += b"\xff" * pad + bytes((pad, 7))
        return wire_.rmcp(spoil(body + self.suite.check(self.keys.integrity, body)))

    def payload(self, datagram: bytes) -> bytes:
        packet = wire_.decode(datagram)
        assert isinstance(packet, Packet)
        assert packet.session == self.console
        if self.suite.signs:
            length = self.suite.check_length
            assert packet.signed[-length:] == self.suite.check(self.keys.integrity, packet.signed[:-length])
        return decrypt(self.keys.confidentiality, packet.payload) if self.suite.encrypts else packet.payload

    def read(self, datagram: bytes) -> tuple[int, bytes]:
        message = self.payload(datagram)
        assert not sum(message[:3]) & 0xFF
        assert not sum(message[3:]) & 0xFF
        return message[6], message[7:-1]


def _id(session: int) -> bytes:
    return struct.pack("<I", session)
