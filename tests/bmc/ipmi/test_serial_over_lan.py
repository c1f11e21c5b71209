from __future__ import annotations

import asyncio

import pytest

from rackless.bmc.ipmi import wire
from rackless.bmc.ipmi.sol import SerialStream
from rackless.drivers.fake.consoles import FakeConsoles
from tests.bmc.ipmi.client import Client
from tests.bmc.ipmi.conftest import Clock, Desk

ACTIVATE, DEACTIVATE, STATUS = (0x06, 0x48), (0x06, 0x49), (0x06, 0x4A)
SOL = b"\x01\x01\xc0\x00\x00\x00"


@pytest.fixture
def consoles(desk: Desk) -> FakeConsoles:
    consoles = FakeConsoles({"server-0"})
    desk.controller.consoles = consoles
    return consoles


async def packet(client: Client) -> bytes:
    return client.payload(await client.wire.hear())


async def test_the_console_is_heard_and_typed_into(desk: Desk, consoles: FakeConsoles) -> None:
    client = await desk.admin()
    await client.get(*ACTIVATE, SOL)
    await asyncio.sleep(0)
    consoles.say("server-0", b"login: ")
    assert await packet(client) == b"\x01\x00\x00\x00login: "
    client.wire.say(client.seal(b"\x01\x01\x07\x00root\r", kind=wire.SOL))
    assert await packet(client) == b"\x00\x01\x05\x00"
    assert consoles.typed["server-0"] == b"root\r"


async def test_others_listen_to_the_same_console(desk: Desk, consoles: FakeConsoles) -> None:
    heard, write = consoles.attach("server-0")
    client = await desk.admin()
    await client.get(*ACTIVATE, SOL)
    await asyncio.sleep(0)
    consoles.say("server-0", b"hello")
    assert await anext(heard) == b"hello"
    assert (await packet(client))[4:] == b"hello"
    write(b"from elsewhere")
    assert consoles.typed["server-0"] == b"from elsewhere"
    await heard.aclose()


async def test_there_is_one_at_a_time_and_an_operator_may_end_it(desk: Desk, consoles: FakeConsoles) -> None:
    first, second = await desk.admin(), desk.client(console=2)
    await second.login()
    await second.as_(4)
    await first.get(*ACTIVATE, SOL)
    await asyncio.sleep(0)
    assert (await second.ask(*ACTIVATE, SOL))[0] == 0x80
    assert await second.get(*STATUS, b"\x01") == b"\x01\x01\x00"
    second.wire.say(second.seal(wire.Request(*DEACTIVATE, SOL, number=33).encode()))
    assert (await packet(first))[3] == 0x10
    assert second.read(await second.wire.hear())[0] == 0
    assert (await second.ask(*DEACTIVATE, SOL))[0] == 0x80
    await asyncio.sleep(0)
    assert consoles.listeners("server-0") == 0


async def test_a_session_that_ends_lets_go_of_the_console(desk: Desk, consoles: FakeConsoles) -> None:
    client = await desk.admin()
    await client.get(*ACTIVATE, SOL)
    await asyncio.sleep(0)
    assert consoles.listeners("server-0") == 1
    desk.clock.seconds += 61
    desk.port.sweep()
    await asyncio.sleep(0)
    assert consoles.listeners("server-0") == 0


async def test_without_a_console_it_is_disabled(desk: Desk) -> None:
    client = await desk.admin()
    assert (await client.ask(*ACTIVATE, SOL))[0] == 0x81
    assert await client.get(0x0C, 0x22, b"\x01\x01\x00\x00") == b"\x11\x00"
    desk.controller.consoles = FakeConsoles(set())
    assert (await client.ask(*ACTIVATE, SOL))[0] == 0x81


async def test_a_user_may_not_type(desk: Desk, consoles: FakeConsoles) -> None:
    client = desk.client(privilege=2)
    await client.login("viewer", "v1ewer")
    assert (await client.ask(*ACTIVATE, SOL))[0] == 0xD4


async def test_a_console_that_ends_ends_it(desk: Desk, consoles: FakeConsoles) -> None:
    client = await desk.admin()
    await client.get(*ACTIVATE, SOL)
    await asyncio.sleep(0)
    consoles.close("server-0")
    assert (await packet(client))[3] == 0x10
    assert await client.get(*STATUS, b"\x01") == b"\x01\x00\x00"


async def test_settings_are_kept(desk: Desk, consoles: FakeConsoles) -> None:
    client = await desk.admin()
    await client.get(0x0C, 0x21, b"\x01\x04\x03\x14")
    assert await client.get(0x0C, 0x22, b"\x01\x04\x00\x00") == b"\x11\x03\x14"
    assert (await client.ask(0x0C, 0x21, b"\x01\x08\x6f\x02"))[0] == 0x82
    await client.get(0x0C, 0x21, b"\x01\x01\x00")
    assert (await client.ask(*ACTIVATE, SOL))[0] == 0x81


class Typed(bytearray):
    def __call__(self, text: bytes) -> None:
        self.extend(text)


def test_what_is_not_acknowledged_is_sent_again_but_not_for_ever() -> None:
    clock = Clock()
    stream = SerialStream(Typed(), clock, retry_seconds=0.5, retries=2)
    [first] = stream.feed(b"abc")
    assert stream.feed(b"def") == []
    again = []
    for _ in range(10):
        clock.seconds += 0.6
        again += stream.tick()
    assert again == [first]
    assert not stream.restless
    [resumed] = stream.receive(b"\x01\x00\x00\x00x")
    assert resumed == b"\x01\x01\x01\x00abc"
    [rest] = stream.receive(b"\x00\x01\x03\x00")
    assert rest == b"\x02\x00\x00\x00def"


def test_what_a_client_did_not_take_comes_again_first() -> None:
    stream = SerialStream(Typed(), Clock())
    stream.feed(b"abcdef")
    assert stream.receive(b"\x00\x01\x02\x00") == [b"\x02\x00\x00\x00cdef"]


def test_a_piece_the_client_sends_again_is_typed_once() -> None:
    typed = Typed()
    stream = SerialStream(typed, Clock())
    for _ in range(2):
        assert stream.receive(b"\x03\x00\x00\x00ls") == [b"\x00\x03\x02\x00"]
    assert typed == b"ls"


def test_a_client_that_does_not_read_costs_a_bounded_place() -> None:
    stream = SerialStream(Typed(), Clock())
    for _ in range(1000):
        stream.feed(b"x" * 1000)
    assert len(stream._waiting) <= 64 << 10
    [packet] = stream.receive(b"\x00\x01\xf8\x00")
    assert packet[3] & 0x08
