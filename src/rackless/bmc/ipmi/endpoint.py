"""RMCP+ at one BMC: a datagram comes in, datagrams go out.

Sessions are opened here (who, with which keys), kept, and closed; messages in them are handed to `execute`, which answers
at once or says that it will later (`answer`). Pure but for its own state: time and randomness are given, nothing is sent.
Whatever comes from the network changes nothing before it is authenticated, and takes a bounded place in memory.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Protocol, TypeVar

from rackless.bmc.ipmi import wire
from rackless.bmc.ipmi.rakp import (
    NameTooLong,
    OpenRequest,
    Rakp1,
    Rakp3,
    RakpStatus,
    decode_open_request,
    decode_rakp1,
    decode_rakp3,
    encode_open_response,
    encode_rakp2,
    encode_rakp4,
    refusal,
)
from rackless.bmc.ipmi.session import IpmiSession, Login, Peer, Privilege
from rackless.bmc.ipmi.suites import SAFE, Suite, choose, derive
from rackless.bmc.ipmi.wire import Malformed, Packet, Ping, Plain, Request, decode_request

SESSION_LIMIT = 32
SESSION_SECONDS = 60.0
OPENING_LIMIT = 1024
"""Half-open sessions; the oldest make room. A client that is quick enough to log in at all is not pushed out by a flood."""
CLAIM_LIMIT = 256
OPENING_SECONDS = 20.0
OPENING_SHARE = 64
"""Half-open sessions of one client's address: its own oldest make room, not those of others."""
CLAIM_SHARE = 64
"""The same for those in which a user name was said."""
_USERS_SHARE = 4
"""One of so many sessions is reserved, so that one user cannot take all of them."""
_REPEAT_SECONDS = 5.0

_T = TypeVar("_T")


class LoginGate(Protocol):
    """What the endpoint must know of its BMC to accept a login."""

    @property
    def guid(self) -> bytes: ...

    @property
    def group_key(self) -> bytes | None:
        """K_g; None when the user's own password takes its place."""
        ...

    def find(self, name: bytes) -> Login | None: ...

    def admits(self, login: Login) -> bool:
        """Asked when the password was right: may still say no."""
        ...

    def told(self, name: str, peer: Peer, outcome: RakpStatus) -> None:
        """Somebody tried to log in, and this is what became of it."""
        ...


class Execute(Protocol):
    """What is done with a message."""

    def __call__(self, session: IpmiSession | None, request: Request, peer: Peer) -> bytes | None:
        """Completion code and data; None when the answer comes later."""
        ...

    def only_reads(self, request: Request) -> bool:
        """Doing it twice does no harm, and a client that asks twice wants to know twice."""
        ...


@dataclass(frozen=True, slots=True)
class _Opening:
    console: int
    suite: Suite
    limit: int
    at: float
    client: str
    """The address it was opened from, which is no made-up one when a name follows: our answer came there."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """A login that has sent a user name and has not proved the password yet."""

    opening: _Opening
    rakp1: Rakp1
    login: Login
    random: bytes


class Endpoint:
    def __init__(
        self,
        gate: LoginGate,
        execute: Execute,
        *,
        now: Callable[[], float],
        random: Callable[[int], bytes],
        suites: tuple[int, ...] = SAFE,
    ) -> None:
        self.suites = suites
        self.sessions: dict[int, IpmiSession] = {}
        self.now = now
        self.random = random
        self._gate = gate
        self._execute = execute
        self._openings: OrderedDict[int, _Opening] = OrderedDict()
        self._opened_by: dict[str, deque[int]] = {}
        """Which half-open sessions a client's address has, the oldest first."""
        self._claims: OrderedDict[int, _Claim] = OrderedDict()
        self._claimed_by: dict[str, deque[int]] = {}

    # datagrams

    def receive(self, datagram: bytes, peer: Peer) -> list[bytes]:
        try:
            match wire.decode(datagram):
                case Ping() as ping:
                    return [ping.pong()]
                case Plain(message):
                    return [Plain(answer).encode() for answer in self._outside(message, peer)]
                case packet:
                    return self._packet(packet, peer)
        except Malformed:
            return []

    def _packet(self, packet: Packet, peer: Peer) -> list[bytes]:
        if packet.session:
            return self._inside(packet, peer)
        match packet.kind:
            case wire.IPMI:
                return [wire.outside_session(wire.IPMI, one) for one in self._outside(packet.payload, peer)]
            case wire.OPEN_REQUEST:
                opened = self._open(decode_open_request(packet.payload), peer)
                return [wire.outside_session(wire.OPEN_RESPONSE, opened)]
            case wire.RAKP1:
                return [wire.outside_session(wire.RAKP2, self._name(packet.payload, peer))]
            case wire.RAKP3:
                return [
                    wire.outside_session(wire.RAKP4, one) for one in self._prove(decode_rakp3(packet.payload), peer)
                ]
        return []

    def _outside(self, message: bytes, peer: Peer) -> list[bytes]:
        request = decode_request(message)
        answer = self._execute(None, request, peer)
        return [] if answer is None else [request.answer(answer[0], answer[1:])]

    def _inside(self, packet: Packet, peer: Peer) -> list[bytes]:
        session = self.sessions.get(packet.session)
        if session is None:
            return []
        payload = session.unseal(packet)
        fresh = session.window.accept(packet.sequence)
        if fresh:
            session.used = self.now()
            session.peer = peer
        if packet.kind == wire.SOL:
            if not fresh or session.payload is None:
                return []
            return [self.seal(session, wire.SOL, one) for one in session.payload.receive(payload)]
        if packet.kind != wire.IPMI:
            return []
        return self._message(session, decode_request(payload), peer, fresh=fresh)

    def _message(self, session: IpmiSession, request: Request, peer: Peer, *, fresh: bool) -> list[bytes]:
        """A request that is sent again is answered again, and not done again."""
        known = session.answers.get(request)
        if known is not None and (not fresh or self._is_repetition(request, *known)):
            return [] if known[1] is None else [self.seal(session, wire.IPMI, known[1])]
        if not fresh:
            return []
        session.remember(request, self.now(), None)
        answer = self._execute(session, request, peer)
        return [] if answer is None else self.answer(session, request, answer)

    def _is_repetition(self, request: Request, at: float, answer: bytes | None) -> bool:
        """Some clients never count their requests: what only reads is answered anew."""
        return answer is None or (self.now() - at < _REPEAT_SECONDS and not self._execute.only_reads(request))

    def answer(self, session: IpmiSession, request: Request, answer: bytes) -> list[bytes]:
        if self.sessions.get(session.id) is not session:
            return []
        message = request.answer(answer[0], answer[1:])
        session.remember(request, self.now(), message)
        sealed = self.seal(session, wire.IPMI, message)
        if session.closing:
            self.close(session)
        return [sealed]

    def seal(self, session: IpmiSession, kind: int, payload: bytes) -> bytes:
        return session.seal(kind, payload, self.random)

    # opening

    def _open(self, request: OpenRequest, peer: Peer) -> bytes:
        suite = choose(request.algorithms, self.suites)
        if suite is None:
            return refusal(request.tag, RakpStatus.NO_SUITE, request.console)
        if request.console == 0:
            return refusal(request.tag, RakpStatus.INVALID_SESSION, request.console)
        if request.privilege > Privilege.ADMINISTRATOR:
            return refusal(request.tag, RakpStatus.INVALID_ROLE, request.console)
        now = self.now()
        _trim(self._openings, OPENING_LIMIT - 1, lambda opening: opening.at, now - OPENING_SECONDS)
        _trim_client(self._openings, self._opened_by, peer[0], OPENING_SHARE)
        limit = request.privilege or Privilege.ADMINISTRATOR
        id = self._new_id()
        self._openings[id] = _Opening(request.console, suite, limit, now, peer[0])
        self._opened_by[peer[0]].append(id)
        return encode_open_response(request.tag, limit, request.console, id, suite.algorithms)

    def _new_id(self) -> int:
        while True:
            id = int.from_bytes(self.random(4), "little")
            if id and id not in self.sessions and id not in self._openings and id not in self._claims:
                return id

    def _name(self, payload: bytes, peer: Peer) -> bytes:
        try:
            rakp1 = decode_rakp1(payload)
        except NameTooLong as error:
            opening = self._openings.get(error.session)
            return refusal(error.tag, RakpStatus.INVALID_NAME_LENGTH, opening.console if opening else 0)
        claim = self._claims.get(rakp1.session)
        if claim is not None and claim.rakp1 == rakp1:
            return self._rakp2(claim)
        opening = self._openings.get(rakp1.session)
        if opening is None or opening.at < self.now() - OPENING_SECONDS:
            return refusal(rakp1.tag, RakpStatus.INVALID_SESSION, 0)
        login, status = self._admit(rakp1, opening)
        del self._openings[rakp1.session]
        if login is None:
            self._gate.told(rakp1.name.decode(errors="replace"), peer, status)
            return refusal(rakp1.tag, status, opening.console)
        _trim(self._claims, CLAIM_LIMIT - 1, lambda claim: claim.opening.at, self.now() - OPENING_SECONDS)
        _trim_client(self._claims, self._claimed_by, opening.client, CLAIM_SHARE)
        claim = self._claims[rakp1.session] = _Claim(opening, rakp1, login, self.random(16))
        self._claimed_by[opening.client].append(rakp1.session)
        return self._rakp2(claim)

    def _admit(self, rakp1: Rakp1, opening: _Opening) -> tuple[Login | None, RakpStatus]:
        if not Privilege.CALLBACK <= rakp1.privilege <= Privilege.ADMINISTRATOR:
            return None, RakpStatus.INVALID_ROLE
        login = self._gate.find(rakp1.name)
        if login is None:
            return None, RakpStatus.UNAUTHORIZED_NAME
        if rakp1.privilege > min(login.limit, opening.limit):
            return None, RakpStatus.UNAUTHORIZED_ROLE
        return login, RakpStatus.OK

    def _rakp2(self, claim: _Claim) -> bytes:
        opening, rakp1 = claim.opening, claim.rakp1
        code = opening.suite.code(
            claim.login.key,
            _id(opening.console),
            _id(rakp1.session),
            rakp1.random,
            claim.random,
            self._gate.guid,
            rakp1.identity,
        )
        return encode_rakp2(rakp1.tag, opening.console, claim.random, self._gate.guid, code)

    def _prove(self, rakp3: Rakp3, peer: Peer) -> list[bytes]:
        session = self.sessions.get(rakp3.session)
        if session is not None:  # our last answer was lost
            return [session.rakp4] if hmac.compare_digest(session.rakp3, rakp3.code) else []
        claim = self._claims.pop(rakp3.session, None)
        if rakp3.status:  # the client gives up
            return []
        if claim is None or claim.opening.at < self.now() - OPENING_SECONDS:
            return [refusal(rakp3.tag, RakpStatus.INVALID_SESSION, 0)]
        opening, rakp1 = claim.opening, claim.rakp1
        expected = opening.suite.code(claim.login.key, claim.random, _id(opening.console), rakp1.identity)
        status = RakpStatus.OK
        if not hmac.compare_digest(expected, rakp3.code) or not self._gate.admits(claim.login):
            status = RakpStatus.INVALID_CHECK_VALUE
        elif not self._room(claim.login):
            status = RakpStatus.NO_RESOURCES
        self._gate.told(claim.login.name, peer, status)
        if status is not RakpStatus.OK:
            return [refusal(rakp3.tag, status, opening.console)]
        return [self._start(claim, rakp3, peer)]

    def _room(self, login: Login) -> bool:
        self.expire()
        own = sum(session.login.user == login.user for session in self.sessions.values())
        return len(self.sessions) < SESSION_LIMIT and own < SESSION_LIMIT - SESSION_LIMIT // _USERS_SHARE

    def _start(self, claim: _Claim, rakp3: Rakp3, peer: Peer) -> bytes:
        opening, rakp1, suite = claim.opening, claim.rakp1, claim.opening.suite
        group_key = self._gate.group_key or claim.login.key
        session_key = suite.code(group_key, rakp1.random, claim.random, rakp1.identity)
        check = suite.check(session_key, rakp1.random, _id(rakp1.session), self._gate.guid)
        rakp4 = encode_rakp4(rakp3.tag, opening.console, check)
        limit = Privilege(rakp1.privilege)
        self.sessions[rakp1.session] = IpmiSession(
            id=rakp1.session,
            console=opening.console,
            suite=suite,
            keys=derive(suite, session_key),
            login=claim.login,
            limit=limit,
            privilege=min(limit, Privilege.USER),
            peer=peer,
            handle=self._free_handle(),
            used=self.now(),
            rakp3=rakp3.code,
            rakp4=rakp4,
        )
        return rakp4

    def _free_handle(self) -> int:
        """At most SESSION_LIMIT, since no more sessions are let in: one byte of an answer."""
        taken = {session.handle for session in self.sessions.values()}
        return next(handle for handle in count(1) if handle not in taken)

    # closing

    def close(self, session: IpmiSession) -> None:
        self.sessions.pop(session.id, None)
        if session.payload is not None:
            session.payload.end()
            session.payload = None

    def expire(self) -> list[IpmiSession]:
        """End the sessions nobody uses. Returns them."""
        oldest = self.now() - SESSION_SECONDS
        ended = [session for session in self.sessions.values() if session.used < oldest]
        for session in ended:
            self.close(session)
        return ended


def _id(session: int) -> bytes:
    return session.to_bytes(4, "little")


def _trim_client(table: OrderedDict[int, _T], by_client: dict[str, deque[int]], client: str, share: int) -> None:
    """Make room for one more of this client."""
    own = by_client.setdefault(client, deque())
    while own and (len(own) >= share or own[0] not in table):
        table.pop(own.popleft(), None)
    if len(by_client) > 2 * OPENING_LIMIT:
        for name, ids in list(by_client.items()):
            if name != client and not any(id in table for id in ids):
                del by_client[name]


def _trim(table: OrderedDict[int, _T], most: int, at: Callable[[_T], float], oldest: float) -> None:
    while table and (len(table) > most or at(next(iter(table.values()))) < oldest):
        table.popitem(last=False)
