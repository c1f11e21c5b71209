"""What the network of every hypervisor does for an uplink, be it a kernel's or a fake's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers import namespaces as ns
from rackless.drivers.computer_network import LinuxComputerNetwork
from rackless.drivers.fake.computer_network import FakeComputerNetwork
from rackless.drivers.fake.script import Script
from rackless.errors import CommandFailed
from rackless.ports.computer_network import ComputerNetwork, UplinkCable
from tests.own_network import own_network

Story = Callable[[ComputerNetwork, UplinkCable], Coroutine[Any, Any, None]]
Told = Callable[[Story], None]
SUBNET = IPv4Network("100.64.8.0/30")


@pytest.fixture(params=[pytest.param("linux", marks=pytest.mark.real), "fake"])
def told(request: pytest.FixtureRequest) -> Told:
    def cable(namespace: Path) -> UplinkCable:
        return UplinkCable("rl-0123abcd", "uplink", namespace, SUBNET)

    def tell(story: Story) -> None:
        if request.param == "fake":
            asyncio.run(story(FakeComputerNetwork(Script()), cable(Path("/fake/there"))))
            return
        there = ns.ThreadRoom("there")
        try:
            with own_network() as live:
                live(lambda: story(LinuxComputerNetwork(), cable(there.path)))
        finally:
            there.close()

    return tell


def test_a_cable_leads_into_one_namespace_and_nowhere_else(told: Told) -> None:
    async def story(network: ComputerNetwork, cable: UplinkCable) -> None:
        assert not await network.joined(cable.link, cable.inside, cable.namespace)
        await network.join(cable)
        assert await network.joined(cable.link, cable.inside, cable.namespace)
        assert not await network.joined(cable.link, "another", cable.namespace)
        assert cable.link in await network.links()
        with pytest.raises(CommandFailed):
            await network.join(cable)
        await network.remove(cable.link)
        await network.remove(cable.link)
        assert cable.link not in await network.links()
        assert not await network.joined(cable.link, cable.inside, cable.namespace)

    told(story)


def test_its_routes_are_known_once_it_is_switched_on(told: Told) -> None:
    async def story(network: ComputerNetwork, cable: UplinkCable) -> None:
        with pytest.raises(CommandFailed):
            await network.switch_on(cable)
        await network.join(cable)
        assert SUBNET not in {route.network for route in await network.routes()}
        for _ in range(2):
            await network.switch_on(cable)
        ours = [route for route in await network.routes() if route.interfaces == (cable.link,)]
        assert {(route.network, route.kind) for route in ours if route.kind != "broadcast"} == {
            (SUBNET, "unicast"), (IPv4Network("100.64.8.1/32"), "local")
        }  # fmt: skip

    told(story)


def test_interfaces_forward_one_by_one_and_a_new_one_as_the_computer_does(told: Told) -> None:
    async def story(network: ComputerNetwork, cable: UplinkCable) -> None:
        assert not network.forwards("all") and not network.forwards("nowhere")
        await network.join(cable)
        assert not network.forwards(cable.link)
        network.set_forwarding(cable.link, True)
        assert network.forwards(cable.link) and not network.forwards("lo") and not network.forwards("all")
        network.set_forwarding(cable.link, False)
        network.set_forwarding("nowhere", True)
        assert not network.forwards(cable.link) and not network.forwards("nowhere")
        network.set_forwarding("all", True)
        assert network.forwards("lo") and network.forwards(cable.link)
        await network.remove(cable.link)
        assert not network.forwards(cable.link)

    told(story)


def test_an_address_stands_for_itself_and_a_name_that_nobody_knows_for_nothing(told: Told) -> None:
    async def story(network: ComputerNetwork, _: UplinkCable) -> None:
        assert network.addresses_of("192.0.2.7") == [IPv4Address("192.0.2.7")]
        assert network.addresses_of("nobody.invalid") == []

    told(story)


def test_two_who_change_how_interfaces_forward_do_so_one_after_the_other(told: Told) -> None:
    async def story(network: ComputerNetwork, _: UplinkCable) -> None:
        seen: list[str] = []

        async def change(name: str) -> None:
            async with network.alone():
                seen.append(name)
                await asyncio.sleep(0.02)
                seen.append(name)

        await asyncio.gather(change("one"), change("other"))
        assert seen in (["one", "one", "other", "other"], ["other", "other", "one", "one"])

    told(story)


def test_name_servers_on_loopback_are_of_no_use_to_a_lab(tmp_path: Path) -> None:
    stub, full = tmp_path / "stub", tmp_path / "full"
    stub.write_text("nameserver 127.0.0.53\n")
    full.write_text("# comment\nnameserver fd00::1\nnameserver 192.0.2.53\nsearch example.org\n")
    assert LinuxComputerNetwork([stub, full]).nameservers() == [IPv4Address("192.0.2.53")]
    assert LinuxComputerNetwork([stub, tmp_path / "none"]).nameservers() == []
