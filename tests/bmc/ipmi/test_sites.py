from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path

import pytest

from rackless.bmc.fleet import Bmc, Fleet
from rackless.bmc.ipmi.sites import Ipmi
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.errors import HypervisorError
from rackless.events import Bus
from tests.bmc.conftest import ADMIN, MakeRack, free_port, server

PING = bytes.fromhex("0600ff06 000011be 80 2a 00 00")
_NETS = itertools.count(random.randrange(1, 200))


class Caller(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.heard.put_nowait(data)


async def answers(address: str, port: int, within: float = 10.0) -> bool:
    loop = asyncio.get_running_loop()
    transport, caller = await loop.create_datagram_endpoint(Caller, remote_addr=(address, port))
    try:
        transport.sendto(PING)
        async with asyncio.timeout(within):
            return (await caller.heard.get())[8] == 0x40
    except TimeoutError:
        return False
    finally:
        transport.close()


async def test_every_bmc_answers_at_its_own_address(make_rack: MakeRack) -> None:
    port = free_port()
    rack = await make_rack(3, ipmi=Ipmi(port=port))
    assert [await answers(address, port) for address in rack.addresses] == [True, True, True]


async def test_a_bmc_that_is_taken_away_stops_answering_and_the_others_go_on(make_rack: MakeRack) -> None:
    port = free_port()
    rack = await make_rack(3, ipmi=Ipmi(port=port))
    await rack.fleet.ensure([Bmc(f"server-{number}", rack.addresses[number]) for number in (0, 2)])
    assert [await answers(rack.addresses[number], port) for number in (0, 2)] == [True, True]
    assert not await answers(rack.addresses[1], port, within=0.5)


async def test_a_password_changed_by_redfish_counts_for_ipmi(make_rack: MakeRack) -> None:
    rack = await make_rack(1, ipmi=Ipmi(port=free_port()))
    status, _, _ = await rack.ask("PATCH", "/redfish/v1/AccountService/Accounts/1", {"Password": "another-one-1"})
    assert status < 300
    assert rack.fleet.ipmi is not None
    controller = rack.fleet.ipmi.controller("server-0")
    login = controller.find(b"admin")
    assert login is not None
    assert login.key == b"another-one-1".ljust(20, b"\0")


async def test_one_port_each_in_the_order_of_names(tmp_path: Path) -> None:
    hypervisor = FakeHypervisor()
    hypervisor.define(server(number) for number in range(3))
    address, base = f"127.1.{next(_NETS)}.1", free_port()
    addresses = itertools.count(2)
    fleet = Fleet(
        [Bmc(f"server-{number}", address.rpartition(".")[0] + f".{next(addresses)}") for number in (2, 0, 1)],
        hypervisor,
        [ADMIN],
        state=tmp_path / "state",
        media=tmp_path / "media",
        bus=Bus(),
        tls=None,
        port=free_port(),
        ipmi=Ipmi(base_port=base, address=address),
    )
    await fleet.start()
    try:
        assert fleet.ipmi is not None
        assert [fleet.ipmi.place(f"server-{number}") for number in range(3)] == [
            (address, base + number) for number in range(3)
        ]
        assert await answers(address, base + 2)
    finally:
        await fleet.stop()


async def test_an_address_that_cannot_be_had_is_explained(make_rack: MakeRack) -> None:
    port = free_port()
    rack = await make_rack(1, ipmi=Ipmi(port=port))
    assert rack.fleet.ipmi is not None
    with pytest.raises(HypervisorError, match="server-0"):
        rack.fleet.ipmi._listen(rack.fleet.chassis("server-0"), 0)
