"""The endpoint by itself: what it hands on and what it does not, and how little a client can make it remember."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import pytest

from rackless.bmc.ipmi import endpoint as endpoint_
from rackless.bmc.ipmi import wire
from rackless.bmc.ipmi.endpoint import (
    CLAIM_LIMIT,
    OPENING_LIMIT,
    OPENING_SECONDS,
    OPENING_SHARE,
    SESSION_SECONDS,
    Endpoint,
)
from rackless.bmc.ipmi.rakp import RakpStatus
from rackless.bmc.ipmi.session import IpmiSession, Login, Peer, Privilege
from rackless.bmc.ipmi.suites import SUITES
from rackless.bmc.ipmi.wire import Packet, Request
from tests.bmc.ipmi.client import Client

KEY = b"pw".ljust(20, b"\0")
CHANGES, READS = Request(0x00, 0x02, b"\x01", number=9), Request(0x00, 0x01, b"", number=9)


@dataclass
class Gate:
    guid: bytes = bytes(16)
    group_key: bytes | None = None
    admitted: bool = True
    asked: list[str] = field(default_factory=list)
    outcomes: list[RakpStatus] = field(default_factory=list)

    def find(self, name: bytes) -> Login | None:
        return Login(2, name.decode(), Privilege.ADMINISTRATOR, KEY) if name != b"nobody" else None

    def admits(self, login: Login) -> bool:
        self.asked.append(login.name)
        return self.admitted

    def told(self, name: str, peer: Peer, outcome: RakpStatus) -> None:
        self.outcomes.append(outcome)


@dataclass
class Doer:
    """Writes down what is to be done, and answers it at once unless told to wait."""

    done: list[Request] = field(default_factory=list)
    waits: bool = False

    def __call__(self, session: IpmiSession | None, request: Request, peer: Peer) -> bytes | None:
        self.done.append(request)
        return None if self.waits else bytes((0, len(self.done)))

    def only_reads(self, request: Request) -> bool:
        return request == READS


@dataclass
class Line:
    """To an endpoint, with nothing in between."""

    endpoint: Endpoint
    heard: list[bytes] = field(default_factory=list)

    def say(self, datagram: bytes, peer: Peer = ("192.0.2.1", 40000)) -> None:
        self.heard += self.endpoint.receive(datagram, peer)

    async def hear(self, within: float = 0.0) -> bytes:
        return self.heard.pop(0)


@dataclass
class Table:
    """An endpoint, and the time and the random numbers that it is given."""

    seconds: float = 1000.0
    gate: Gate = field(default_factory=Gate)
    doer: Doer = field(default_factory=Doer)

    def __post_init__(self) -> None:
        numbers = count(1)
        self.endpoint = Endpoint(
            self.gate, self.doer, now=lambda: self.seconds, random=lambda size: next(numbers).to_bytes(size, "little")
        )
        self.line = Line(self.endpoint)

    def client(self, number: int = 1, console: int = 0xA0A1A2A3) -> Client:
        return Client(self.line, SUITES[17], console, (f"192.0.2.{number}", 40000))  # type: ignore[arg-type]

    async def login(self, client: Client | None = None) -> Client:
        client = client or self.client()
        await client.login("admin", "pw")
        return client

    def ask(self, client: Client, request: Request) -> list[bytes]:
        """The answers to a request in a packet of its own."""
        answers = self.endpoint.receive(client.seal(request.encode()), client.peer)
        return [client.payload(answer) for answer in answers]


@pytest.fixture
def table() -> Table:
    return Table()


async def test_a_request_that_is_being_worked_on_is_not_done_again_however_long_it_takes(table: Table) -> None:
    client = await table.login()
    table.doer.waits = True
    for later in (0, 1, 3600):
        table.seconds += later
        assert table.ask(client, CHANGES) == table.ask(client, READS) == []
    assert table.doer.done == [CHANGES, READS]


async def test_an_answer_is_given_again_for_five_seconds_and_then_the_request_is_a_new_one(table: Table) -> None:
    client = await table.login()
    first = table.ask(client, CHANGES)
    table.seconds += 4.9
    assert table.ask(client, CHANGES) == first and table.doer.done == [CHANGES]
    table.seconds += 0.1
    assert table.ask(client, CHANGES) != first and table.doer.done == [CHANGES] * 2


async def test_what_only_reads_is_done_as_often_as_it_is_asked(table: Table) -> None:
    client = await table.login()
    assert table.ask(client, READS) != table.ask(client, READS)
    assert table.doer.done == [READS] * 2


async def test_a_late_answer_reaches_the_session_that_asked_and_none_that_has_ended(table: Table) -> None:
    client = await table.login()
    table.doer.waits = True
    table.ask(client, CHANGES)
    (session,) = table.endpoint.sessions.values()
    (answer,) = table.endpoint.answer(session, CHANGES, b"\x00\x07")
    assert client.read(answer) == (0, b"\x07")
    table.endpoint.close(session)
    assert table.endpoint.answer(session, CHANGES, b"\x00\x07") == []
    again = await table.login()
    table.endpoint.sessions[client.session] = table.endpoint.sessions.pop(again.session)
    assert table.endpoint.answer(session, CHANGES, b"\x00\x07") == [], "another one has its number by now"


async def test_half_open_sessions_are_counted_and_the_oldest_make_room(table: Table) -> None:
    clients = OPENING_LIMIT // OPENING_SHARE
    for number in range(clients):
        for _ in range(OPENING_SHARE):
            await table.client(number).open()
    openings = table.endpoint._openings
    assert len(openings) == OPENING_LIMIT
    first, second, *_ = openings
    await table.client(200).open()
    assert len(openings) == OPENING_LIMIT and first not in openings and second in openings


async def test_a_client_has_its_share_of_half_open_sessions_and_makes_room_for_itself(table: Table) -> None:
    other = await table.client(2).open()
    own = [await table.client(1).open() for _ in range(OPENING_SHARE)]
    openings = table.endpoint._openings
    assert set(openings) == {other, *own}
    newest = await table.client(1).open()
    assert set(openings) == {other, *own[1:], newest}


async def test_what_is_no_longer_half_open_takes_nothing_of_a_share(table: Table) -> None:
    for _ in range(OPENING_SHARE - 1):
        client = await table.login()
        table.endpoint.close(table.endpoint.sessions[client.session])
    own = [await table.client().open() for _ in range(OPENING_SHARE)]
    assert list(table.endpoint._openings) == list(table.endpoint._opened_by["192.0.2.1"]) == own
    table.seconds += OPENING_SECONDS
    await table.client(2).open()
    assert set(own) < set(table.endpoint._openings), "not too old yet"
    table.seconds += 0.1
    await table.client(2).open()
    assert not set(own) & set(table.endpoint._openings)


async def test_clients_that_have_nothing_half_open_are_forgotten(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_, "OPENING_LIMIT", 4)
    for number in range(20):
        await table.client(number).open()
    assert len(table.endpoint._opened_by) <= 2 * 4 + 1
    kept = {f"192.0.2.{number}" for number in range(16, 20)}
    assert kept <= set(table.endpoint._opened_by), "those who have are not"


async def test_claims_are_counted_and_the_oldest_make_room(table: Table) -> None:
    named = []
    for number in range(CLAIM_LIMIT + 1):
        client = table.client(number % 200)
        client.session = await client.open()
        assert (await client.ask_outside(wire.RAKP1, _named(client)))[1] == 0
        named.append(client.session)
        table.seconds += OPENING_SECONDS / 1000
    assert list(table.endpoint._claims) == named[1:]
    table.seconds += OPENING_SECONDS - OPENING_SECONDS / 1000
    last = table.client(1)
    last.session = await last.open()
    await last.ask_outside(wire.RAKP1, _named(last))
    assert list(table.endpoint._claims) == [named[-1], last.session], "the others came too long ago"


async def test_a_number_is_given_to_one_session_at_a_time(table: Table) -> None:
    numbers = iter([0, 5, 5, 6, 6, 5, 7, 5, 6, 7, 8])
    table.endpoint.random = lambda size: next(numbers).to_bytes(4, "little") if size == 4 else bytes(size)
    client = table.client()
    client.session = await client.open()
    assert client.session == 5, "0 is no session"
    assert await table.client(2).open() == 6
    assert (await client.ask_outside(wire.RAKP1, _named(client)))[1] == 0
    assert await table.client(3).open() == 7, "5 has been named"
    await client.login("admin", "pw")
    assert client.session == 8


def _named(client: Client, name: bytes = b"admin") -> bytes:
    return bytes((1, 0, 0, 0)) + client.session.to_bytes(4, "little") + bytes(16) + bytes((4, 0, 0, len(name))) + name


async def test_a_wrong_password_is_not_asked_after_further(table: Table) -> None:
    with pytest.raises(Exception, match="0xf"):
        await table.client().login("admin", "wrong")
    assert table.gate.asked == [] and table.gate.outcomes == [RakpStatus.INVALID_CHECK_VALUE]
    table.gate.admitted = False
    with pytest.raises(Exception, match="0xf"):
        await table.client().login("admin", "pw")
    assert table.gate.asked == ["admin"] and not table.endpoint.sessions


async def test_the_last_answer_of_a_login_is_for_who_has_proved_themselves(table: Table) -> None:
    client = await table.login()
    (session,) = table.endpoint.sessions.values()
    third = bytes((2, 0, 0, 0)) + client.session.to_bytes(4, "little")
    (again,) = table.endpoint.receive(wire.outside_session(wire.RAKP3, third + session.rakp3), client.peer)
    packet = wire.decode(again)
    assert isinstance(packet, Packet) and packet.payload == session.rakp4
    assert table.endpoint.receive(wire.outside_session(wire.RAKP3, third + bytes(32)), client.peer) == []


async def test_a_session_ends_when_its_time_is_over_and_not_before(table: Table) -> None:
    old = await table.login()
    table.seconds += 1
    young = await table.login(table.client(2, console=7))
    table.seconds += SESSION_SECONDS - 1
    assert table.endpoint.expire() == [] and len(table.endpoint.sessions) == 2, "its last moment"
    table.seconds += 0.1
    assert [session.id for session in table.endpoint.expire()] == [old.session]
    assert list(table.endpoint.sessions) == [young.session]
