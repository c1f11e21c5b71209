"""What every computer does with the devices that it lends to a lab, be it Linux or a fake."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers import namespaces as ns
from rackless.drivers.computer_devices import LinuxComputerDevices, read_addresses, read_routes
from rackless.drivers.fake.computer_devices import FakeComputerDevices
from rackless.drivers.fake.script import Script
from rackless.errors import CommandFailed
from rackless.ports.computer_devices import ComputerDevices, Device, SiteCable
from tests.own_network import own_network

Story = Callable[[ComputerDevices, Path], Coroutine[Any, Any, None]]
Told = Callable[[Story], None]
NIC = Device("nic0", up=True, mtu=1400, addresses=("192.0.2.5/24",), routes=("198.51.100.0/24 via 192.0.2.1",))
LAN = Device("lan", bridge=True, up=True, mtu=1450)
MAKE = """
ip link add lan mtu 1450 type bridge
ip link set lan up
ip link add nic0 mtu 1400 type veth peer name nic0-peer
ip link set nic0-peer up
ip link set nic0 up
ip address add 192.0.2.5/24 dev nic0
ip route add 198.51.100.0/24 via 192.0.2.1
"""


def make() -> None:
    for line in MAKE.strip().splitlines():
        subprocess.run(line.split(), check=True)


@pytest.fixture(params=[pytest.param("linux", marks=pytest.mark.real), "fake"])
def told(request: pytest.FixtureRequest) -> Told:
    def tell(story: Story) -> None:
        if request.param == "fake":
            there: set[str] = set()
            fake = FakeComputerDevices(Script(), lambda pin: there if pin == "/fake/there" else None)
            fake.here = {NIC.name: NIC, LAN.name: LAN}
            asyncio.run(story(fake, Path("/fake/there")))
            return
        room = ns.ThreadRoom("there")

        async def on_linux() -> None:
            await asyncio.to_thread(make)
            await story(LinuxComputerDevices(), room.path)

        try:
            with own_network() as live:
                live(on_linux)
        finally:
            room.close()

    return tell


def test_a_nic_that_was_lent_comes_back_as_it_was(told: Told) -> None:
    async def story(devices: ComputerDevices, there: Path) -> None:
        before = await devices.look("nic0")
        assert before is not None and replace(before, mac="") == NIC
        await devices.lend("nic0", there)
        assert await devices.look("nic0") is None and await devices.holds(there, "nic0")
        with pytest.raises(CommandFailed):
            await devices.lend("nic0", there)
        for _ in range(2):
            assert await devices.give_back(before, there)
            assert await devices.look("nic0") == before and not await devices.holds(there, "nic0")

    told(story)


def test_a_nic_that_is_nowhere_is_said_to_be(told: Told) -> None:
    async def story(devices: ComputerDevices, there: Path) -> None:
        assert await devices.look("nowhere") is None and not await devices.holds(there, "nowhere")
        assert not await devices.holds(there.parent / "nowhere", "nic0")
        assert not await devices.give_back(Device("nowhere"), there)

    told(story)


def test_a_bridge_gets_one_more_port_and_is_itself_left_as_it_is(told: Told) -> None:
    async def story(devices: ComputerDevices, there: Path) -> None:
        before = await devices.look("lan")
        assert before is not None and replace(before, mac="") == LAN
        cable = SiteCable("rs-0123abcd", "lan", "attached", there, "fe:00:00:00:00:01")
        assert not await devices.plugged(cable)
        for _ in range(2):
            await devices.plug_in(cable, before)
            assert await devices.plugged(cable) and await devices.holds(there, "attached")
        assert await devices.look("lan") == before
        for _ in range(2):
            await devices.unplug(cable, before)
            assert not await devices.plugged(cable) and not await devices.holds(there, "attached")
        assert await devices.look("lan") == before

    told(story)


def test_what_the_kernel_gives_a_nic_by_itself_is_not_remembered() -> None:
    lasting = {"family": "inet", "local": "192.0.2.5", "prefixlen": 24, "scope": "global"}
    lent = {**lasting, "local": "192.0.2.6", "dynamic": True, "valid_life_time": 600, "preferred_life_time": 300}
    own = {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"}
    assert list(read_addresses({"addr_info": [lasting, lent, own]})) == [
        "192.0.2.5/24",
        "192.0.2.6/24 valid_lft 600 preferred_lft 300",
    ]
    made = {"dst": "default", "gateway": "192.0.2.1", "protocol": "dhcp", "metric": 100, "prefsrc": "192.0.2.6"}
    assert list(read_routes([made, {"dst": "192.0.2.0/24", "protocol": "kernel"}])) == [
        "default via 192.0.2.1 metric 100 src 192.0.2.6 proto dhcp"
    ]
