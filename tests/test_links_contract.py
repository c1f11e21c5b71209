"""What every set of links does, be it a kernel's or a fake's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from ipaddress import ip_interface, ip_network
from typing import Any

import pytest

from rackless.drivers.fake.fabric import FakeLinks
from rackless.drivers.fake.script import Script
from rackless.drivers.netlink.impairment import can_impair
from rackless.errors import HypervisorError
from rackless.ports.fabric import Bridge, Impairment, Links, Route, Veth
from tests.own_network import own_network

Story = Callable[[Links], Coroutine[Any, Any, None]]
Told = Callable[[Story], None]
LAN = Bridge("lan", (ip_interface("192.0.2.1/24"),))
CABLE = Veth("up", "down", "lan", "other")


@pytest.fixture(params=[pytest.param("netlink", marks=pytest.mark.real), "fake"])
def told(request: pytest.FixtureRequest) -> Told:
    def tell(story: Story) -> None:
        if request.param == "fake":
            asyncio.run(story(FakeLinks(Script())))
            return
        from rackless.drivers.netlink.links import NetlinkLinks

        with own_network() as live:
            live(lambda: story(NetlinkLinks()))

    return tell


def test_a_bridge_is_made_once_and_made_right_when_it_is_described_otherwise(told: Told) -> None:
    async def story(links: Links) -> None:
        assert await links.differs(LAN) and await links.ensure_bridge(LAN)
        assert not await links.differs(LAN) and not await links.ensure_bridge(LAN)
        changed = Bridge("lan", (ip_interface("192.0.2.2/24"), ip_interface("192.0.2.3/24")))
        assert await links.differs(changed) and await links.ensure_bridge(changed)
        assert not await links.differs(changed) and await links.differs(LAN)
        assert await links.names() == {"lo", "lan"}
        await links.remove("lan")
        await links.remove("lan")
        assert await links.names() == {"lo"}

    told(story)


def test_a_cable_joins_two_bridges_until_either_end_is_pulled(told: Told) -> None:
    async def story(links: Links) -> None:
        for bridge in (LAN, Bridge("other")):
            await links.ensure_bridge(bridge)
        assert await links.differs(CABLE) and await links.ensure_veth(CABLE)
        assert not await links.differs(CABLE) and not await links.ensure_veth(CABLE)
        assert (await links.ports("lan"), await links.ports("other")) == ({"up"}, {"down"})
        assert {"up", "down"} <= await links.names()
        await links.remove("down")
        assert await links.names() == {"lo", "lan", "other"} and await links.ports("lan") == set()

    told(story)


def test_what_was_plugged_into_a_bridge_that_went_is_plugged_in_again(told: Told) -> None:
    async def story(links: Links) -> None:
        for bridge in (LAN, Bridge("other")):
            await links.ensure_bridge(bridge)
        await links.ensure_veth(CABLE)
        await links.remove("lan")
        await links.ensure_bridge(LAN)
        assert await links.ports("lan") == set() and await links.differs(CABLE)
        await links.plug("lan", ["up", "nowhere"])
        assert await links.ports("lan") == {"up"} and not await links.differs(CABLE)
        assert await links.ports("nowhere") == set()

    told(story)


def test_bridges_and_cables_have_the_largest_packet_that_is_described(told: Told) -> None:
    async def story(links: Links) -> None:
        wide = Bridge("lan", LAN.addresses, 9000)
        for bridge in (LAN, Bridge("other")):
            await links.ensure_bridge(bridge)
        await links.ensure_veth(CABLE)
        assert await links.differs(wide) and await links.ensure_bridge(wide)
        assert not await links.differs(wide) and not await links.ensure_bridge(wide)
        cable = Veth("up", "down", "lan", "other", 9000)
        assert await links.differs(cable) and await links.ensure_veth(cable)
        assert not await links.differs(cable) and not await links.ensure_veth(cable)

    told(story)


def test_a_route_is_made_once(told: Told) -> None:
    async def story(links: Links) -> None:
        await links.ensure_loopback()
        await links.ensure_bridge(LAN)
        route = Route(ip_network("198.51.100.0/24"), ip_interface("192.0.2.9/24").ip)
        assert await links.ensure_route(route)
        assert not await links.ensure_route(route)

    told(story)


def test_links_without_carrier_and_links_that_are_not_there_are_not_waited_for(told: Told) -> None:
    async def story(links: Links) -> None:
        await links.ensure_bridge(Bridge("empty"))
        await links.await_up(["empty", "nowhere"])

    told(story)


@pytest.mark.real
def test_a_bridge_is_operational_when_it_was_waited_for() -> None:
    """A kernel tells so up to a second after the bridge has carrier; libvirt lists only what is operational."""
    from pyroute2 import IPRoute

    from rackless.drivers.netlink.links import NetlinkLinks

    def states() -> set[tuple[str, str]]:
        """As they stand in a list of all links: asked for a single one, a new kernel would hurry."""
        with IPRoute() as route:
            return {(link.get_attr("IFLA_IFNAME"), link.get_attr("IFLA_OPERSTATE")) for link in route.get_links()}

    async def story() -> None:
        links = NetlinkLinks()
        for number in range(5):  # the kernel is in no hurry with the second and all after it
            upper, lower = Bridge(f"upper{number}"), Bridge(f"lower{number}")
            for bridge in (upper, lower):
                await links.ensure_bridge(bridge)
            await links.ensure_veth(Veth(f"up{number}", f"down{number}", upper.name, lower.name))
            await links.await_up([upper.name, lower.name])
            assert await asyncio.to_thread(states) >= {(upper.name, "UP"), (lower.name, "UP")}

    with own_network() as live:
        live(story)


def test_a_link_is_slowed_down_once_changed_and_let_go_again(told: Told) -> None:
    async def story(links: Links) -> None:
        await links.ensure_bridge(LAN)
        assert not await links.impair("lan", None), "as it came"
        slow, slower = Impairment(rate_bits=10**7), Impairment(rate_bits=10**6)
        assert await links.impair("lan", slow) and not await links.impair("lan", slow)
        assert await links.impair("lan", slower) and not await links.impair("lan", slower)
        assert await links.impair("lan", None) and not await links.impair("lan", None)

    told(story)


def test_a_link_delays_and_loses_where_the_kernel_can_and_says_where_it_cannot(told: Told) -> None:
    async def story(links: Links) -> None:
        await links.ensure_bridge(LAN)
        far, slow = Impairment(40, 0.5), Impairment(40, 0.5, 10**7)
        try:
            assert await links.impair("lan", Impairment(rate_bits=10**7))
            assert await links.impair("lan", far)
        except HypervisorError as error:
            assert "it has no netem" in error.what and "modprobe sch_netem" in error.hint
            assert not isinstance(links, FakeLinks) and not can_impair(far), "and the computer says the same"
            return
        assert isinstance(links, FakeLinks) or can_impair(far)
        assert not await links.impair("lan", far)
        assert await links.impair("lan", slow) and not await links.impair("lan", slow)
        assert await links.impair("lan", None) and not await links.impair("lan", None)

    told(story)
