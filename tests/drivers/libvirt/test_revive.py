"""Starting a network's dnsmasq again, by the only thing that makes libvirt look: something to tell it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rackless.drivers.libvirt.binding import libvirt
from rackless.drivers.libvirt.networks import LibvirtNetworks
from rackless.errors import HypervisorError


@pytest.fixture(autouse=True)
def binding() -> None:
    try:
        libvirt()
    except HypervisorError as error:
        pytest.skip(error.what)


class PretendNetwork:
    """Refuses records as libvirt does; a new record brings its dnsmasq back."""

    def __init__(self, records: set[str]) -> None:
        self.records = records
        self.alive = False
        self.starts = 0

    def networkLookupByName(self, name: str) -> PretendNetwork:
        return self

    def isActive(self) -> bool:
        return True

    def update(self, command: int, section: int, index: int, record: str, flags: int) -> None:
        adds = command == libvirt().VIR_NETWORK_UPDATE_COMMAND_ADD_LAST
        if adds is (record in self.records):
            raise libvirt().libvirtError("there is already one" if adds else "couldn't locate it")
        if adds:
            self.records.add(record)
            self.starts += not self.alive
            self.alive = True
        else:
            self.records.remove(record)


class Networks(LibvirtNetworks):
    def __init__(self, network: PretendNetwork) -> None:
        super().__init__(self)  # type: ignore[arg-type]
        self.network = network

    async def call(self, work: Callable[[Any], Any]) -> Any:
        await asyncio.sleep(0)
        return work(self.network)

    def server_pid(self, name: str) -> int | None:
        return 7 if self.network.alive else None


async def test_two_who_see_it_dead_start_it_once() -> None:
    networks = Networks(PretendNetwork(set()))
    assert sorted(await asyncio.gather(*(networks.revive("cluster") for _ in range(2)))) == [False, True]
    assert networks.network.starts == 1 and not networks.network.records


async def test_a_record_left_by_one_who_was_killed_is_no_obstacle() -> None:
    network = PretendNetwork(set())
    networks = Networks(network)
    await networks.revive("cluster")
    network.alive = False
    network.records = {"<host ip='127.0.0.9'><hostname>nobody.invalid</hostname></host>"}
    assert await networks.revive("cluster")
    assert network.starts == 2 and not network.records
