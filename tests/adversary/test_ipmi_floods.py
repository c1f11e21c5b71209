"""Datagrams by the thousand at one BMC: memory stays bounded, others are served, and nobody is locked out."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest

from rackless.bmc.ipmi import wire
from rackless.bmc.ipmi.endpoint import CLAIM_LIMIT, CLAIM_SHARE, OPENING_LIMIT, OPENING_SECONDS, OPENING_SHARE
from rackless.bmc.ipmi.wire import Request
from tests.adversary.bmc_clients import Bystander, idle_turn, turn_of
from tests.adversary.bmc_host import Host, bmc_host
from tests.bmc.conftest import ADMIN
from tests.bmc.ipmi.client import RANDOM
from tests.bmc.ipmi.client import Client as IpmiClient
from tests.bmc.ipmi.conftest import Desk, desk, make_desk  # noqa: F401 - fixtures

TURNS = 12
"""A turn takes at most so many times the processor time of the longest of an idle BMC; thirty-two datagrams are read in one."""
FLOOD = 20_000
OPEN = bytes((0, 4, 0, 0)) + (0xA0A1A2A3).to_bytes(4, "little") + bytes.fromhex(
    "0000000803000000 0100000804000000 0200000801000000"
)  # fmt: skip


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with bmc_host(2) as found:
        yield found


def garbage(dice: random.Random) -> bytes:
    kind = dice.choice((wire.IPMI, wire.SOL, wire.OPEN_REQUEST, wire.RAKP1, wire.RAKP3))
    body = dice.randbytes(dice.randrange(120))
    match dice.randrange(4):
        case 0:
            return wire.outside_session(wire.OPEN_REQUEST, OPEN)
        case 1:
            return wire.outside_session(kind, body)
        case 2:
            return dice.randbytes(dice.randrange(1400))
        case _:
            return wire.rmcp(
                wire.header(kind, dice.randrange(2**32), 1, len(body), encrypted=True, authenticated=True) + body
            )


def test_a_flood_of_datagrams_costs_a_bounded_place_and_nobody_else_waits(host: Host) -> None:
    most = TURNS * max(idle_turn(host), 0.002)
    before = host.tell().memory

    def flood() -> None:
        dice = random.Random(12)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            for _ in range(FLOOD):
                line.sendto(garbage(dice), (host.addresses[0], host.ipmi_port))
            assert Bystander(host).looks(10)

    assert turn_of(host, flood, most) < most
    told = host.tell()
    assert told.memory - before < 16 << 20
    assert not told.notes


async def test_names_said_and_never_proved_take_a_bounded_place(desk: Desk) -> None:  # noqa: F811
    endpoint = desk.port.endpoint
    for number in range(3 * CLAIM_LIMIT):
        await claim(desk.client(peer=(f"10.0.{number >> 8}.{number & 255}", 1)))
    assert len(endpoint._claims) == CLAIM_LIMIT
    assert len(endpoint._openings) == 0, "a name takes the place of what it came by"
    client = desk.client()
    for _ in range(3 * CLAIM_SHARE):
        await claim(client)
    assert len(endpoint._claimed_by[client.peer[0]]) == CLAIM_SHARE
    assert len(endpoint._opened_by[client.peer[0]]) == 1


async def test_one_address_that_knows_a_name_pushes_out_only_its_own_logins(desk: Desk) -> None:  # noqa: F811
    """Every client knows a name, `admin` say: who said it and never proved it pushed out whoever was slower."""
    patient = desk.client(peer=("192.0.2.50", 1))
    asked = patient.ask_outside
    flood = desk.client(peer=("192.0.2.66", 2), console=7)

    async def amid_the_flood(kind: int, payload: bytes) -> bytes:
        if kind == wire.RAKP3:
            for _ in range(2 * CLAIM_LIMIT):
                await claim(flood)
        return await asked(kind, payload)

    patient.ask_outside = amid_the_flood  # type: ignore[method-assign]
    await patient.login()
    assert list(desk.port.endpoint._claims) == list(desk.port.endpoint._claimed_by["192.0.2.66"])


async def claim(client: IpmiClient) -> None:
    """Open a session and say a name."""
    session, name = await client.open(), ADMIN.username.encode()
    said = bytes((1, 0, 0, 0)) + session.to_bytes(4, "little") + RANDOM + bytes((4, 0, 0, len(name))) + name
    assert (await client.ask_outside(wire.RAKP1, said))[1] == 0


async def test_one_address_pushes_out_only_its_own_half_open_sessions(desk: Desk) -> None:  # noqa: F811
    patient = desk.client(peer=("192.0.2.50", 1))
    asked = patient.ask_outside
    flood = desk.client(peer=("192.0.2.66", 2), console=7)

    async def amid_the_flood(kind: int, payload: bytes) -> bytes:
        if kind != wire.OPEN_REQUEST:
            for _ in range(2 * OPENING_LIMIT):
                await flood.open()
        return await asked(kind, payload)

    patient.ask_outside = amid_the_flood  # type: ignore[method-assign]
    await patient.login()
    assert list(desk.port.endpoint._openings) == list(desk.port.endpoint._opened_by["192.0.2.66"])
    assert len(desk.port.endpoint._openings) == OPENING_SHARE


async def test_addresses_that_are_made_up_take_a_bounded_place(desk: Desk) -> None:  # noqa: F811
    for number in range(3 * OPENING_LIMIT):
        await desk.client(peer=(f"10.0.{number >> 8}.{number & 255}", 1)).open()
    endpoint = desk.port.endpoint
    assert len(endpoint._openings) == OPENING_LIMIT
    assert len(endpoint._opened_by) <= 2 * OPENING_LIMIT + 1


async def test_half_open_sessions_are_forgotten_when_their_time_is_over(desk: Desk) -> None:  # noqa: F811
    for number in range(10):
        await desk.client(peer=(f"10.0.0.{number}", 1)).open()
    desk.clock.seconds += OPENING_SECONDS
    await desk.client(peer=("10.0.1.1", 1)).open()
    assert len(desk.port.endpoint._openings) == 11, "their last moment"
    desk.clock.seconds += 0.5
    await desk.client(peer=("10.0.1.2", 1)).open()
    assert len(desk.port.endpoint._openings) == 2
    assert len(desk.port.endpoint._opened_by) == 12, (
        "addresses are looked through when they are many, and not each time"
    )


async def test_commands_that_wait_are_bounded_and_the_next_one_is_told_to_come_again(desk: Desk) -> None:  # noqa: F811
    client = await desk.admin()
    async with desk.chassis.lock:  # something takes its time
        for number in range(80):
            request = Request(0x00, 0x04, bytes((number,)), number=number % 64)
            desk.wire.say(client.seal(request.encode()), client.peer)
        busy = [client.read(await desk.wire.hear())[0] for _ in range(16)]
        assert set(busy) == {0xC0}
        assert len(desk.port._work._tasks) <= 64
