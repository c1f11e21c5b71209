"""Whatever comes from the network: no crash, no effect without authentication, no growth."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Iterator
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackless.bmc.ipmi import wire
from rackless.bmc.ipmi.command import Code
from rackless.bmc.ipmi.commands import TABLE
from rackless.bmc.ipmi.endpoint import CLAIM_LIMIT, OPENING_LIMIT
from rackless.bmc.ipmi.wire import Malformed, Request
from rackless.ports.hypervisor import Power
from tests.bmc.conftest import ADMIN
from tests.bmc.ipmi.client import Client
from tests.bmc.ipmi.conftest import Desk, MakeDesk

WRITES = ("power_on", "power_off", "reset", "interrupt", "shut_down", "insert_media", "eject_media", "set_boot_first")


@given(st.binary(max_size=80))
def test_any_bytes_are_a_datagram_or_malformed(datagram: bytes) -> None:
    for start in (b"", b"\x06\x00\xff\x07", b"\x06\x00\xff\x07\x06", b"\x06\x00\xff\x06"):
        try:
            wire.decode(start + datagram)
        except Malformed:
            continue


@given(st.integers(0, 31), st.integers(0, 255), st.binary(max_size=40), st.integers(0, 63), st.integers(0, 3))
def test_a_request_survives_the_wire(netfn: int, command: int, data: bytes, number: int, lun: int) -> None:
    request = Request(netfn * 2, command, data, number=number, target_lun=lun)
    assert wire.decode_request(request.encode()) == request


def mutations(recorded: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Bits turned, bytes lost, added and mixed; now and then pure noise."""
    chance = random.Random(seed)
    for _ in range(count):
        datagram = bytearray(chance.choice(recorded))
        match chance.randrange(6):
            case 0:
                datagram[chance.randrange(len(datagram))] ^= 1 << chance.randrange(8)
            case 1:
                for _ in range(chance.randrange(1, 9)):
                    datagram[chance.randrange(len(datagram))] = chance.randrange(256)
            case 2:
                del datagram[chance.randrange(len(datagram)) :]
            case 3:
                datagram[chance.randrange(len(datagram)) :] = chance.randbytes(chance.randrange(64))
            case 4:
                other = chance.choice(recorded)
                datagram[chance.randrange(len(datagram)) :] = other[chance.randrange(len(other)) :]
            case _:
                datagram[4:] = chance.randbytes(chance.randrange(200))
        yield bytes(datagram)


async def record(desk: Desk) -> list[bytes]:
    """A session of each suite with commands that would be noticed, as it went over the wire."""
    for suite in (3, 17):
        client = await desk.admin(suite)
        for netfn, command, data in ((0, 1, b""), (0, 2, b"\x00"), (0, 8, bytes((5, 0xE0, 4, 0, 0, 0))), (6, 1, b"")):
            await client.ask(netfn, command, data)
        await client.get(0x06, 0x3C, client.session.to_bytes(4, "little"))
    desk.wire.say(wire.Plain(Request(0x06, 0x38, b"\x8e\x04").encode()).encode())
    desk.wire.say(bytes.fromhex("0600ff06000011be80000000"))
    return list(desk.wire.log)


def drain(desk: Desk) -> None:
    desk.wire.log.clear()
    while not desk.wire.silent():
        desk.wire.sent.get_nowait()


async def bombard(desk: Desk, count: int, seed: int) -> None:
    recorded = await record(desk)
    drain(desk)
    desk.hypervisor.calls.clear()
    before = desk.chassis.memory
    victim = await desk.admin()
    sessions = len(desk.port.endpoint.sessions)
    unsent = [victim.seal(Request(0, 2, b"\x00", number=1).encode()) for _ in range(4)]
    signed = {datagram[4:] for datagram in unsent}  # what comes before is RMCP's, which nobody signs
    for number, datagram in enumerate(chain(mutations(recorded, count, seed), mutations(unsent, count // 5, seed))):
        if datagram[4:] not in signed:
            desk.port.datagram_received(datagram, ("198.51.100.7", 999))
        if number % 1000 == 0:
            drain(desk)
    assert not desk.hypervisor.called(*WRITES)
    assert desk.chassis.memory == before
    assert len(desk.port.endpoint.sessions) == sessions
    assert len(desk.port.endpoint._openings) <= OPENING_LIMIT
    assert len(desk.port.endpoint._claims) <= CLAIM_LIMIT
    drain(desk)
    client = Client(desk.wire)
    await client.login()
    assert await client.get(0x00, 0x01)
    assert not [note for note in desk.notes if "Error" in note]


async def test_thousands_of_spoilt_datagrams_do_nothing(make_desk: MakeDesk) -> None:
    await bombard(await make_desk(power=Power.ON), 4000, seed=1)


@pytest.mark.real
async def test_a_hundred_thousand_spoilt_datagrams_do_nothing_and_leave_nothing(make_desk: MakeDesk) -> None:
    desk = await make_desk(power=Power.ON)
    await bombard(desk, 10_000, seed=2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await bombard(desk, 100_000, seed=int.from_bytes(os.urandom(4), "little"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


async def test_every_command_answers_any_data_without_a_mistake_of_ours(make_desk: MakeDesk) -> None:
    desk = await make_desk(power=Power.ON)
    chance = random.Random(3)
    for key, command in TABLE.items():
        for length in (0, 1, 2, 3, 4, 5, 6, 7, 17, 22):
            client = await desk.admin()
            data = chance.randbytes(length)
            if key[0] == 0x2C and data:
                data = b"\xdc" + data[1:]
            code, _ = await client.ask(*key, data)
            assert code != Code.UNSPECIFIED, (key, data, desk.notes)
            desk.port._end(list(desk.port.endpoint.sessions.values()))
            drain(desk)
            if not command.only_reads and code == Code.OK:
                desk.controller.watchdog.stop()
                await desk.controller.keep(group_key="", barred=[])
                await desk.controller.accounts.put("1", ADMIN)
