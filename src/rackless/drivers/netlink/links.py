"""`ports.fabric.Links` by netlink, in the network namespace we are in."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
import time
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute, NetlinkError
from pyroute2.netlink.rtnl import RTMGRP_LINK
from pyroute2.netlink.rtnl.ifinfmsg import IFF_UP

from rackless.drivers.namespaces import ThreadRoom
from rackless.drivers.netlink.impairment import impair
from rackless.errors import GaveUp
from rackless.ports.fabric import Bridge, Impairment, Leg, Route, Veth, Vlan
from rackless.ports.namespaces import Room
from rackless.spec.address import IpInterface

COMING_UP = 10.0
"""Seconds; the kernel itself takes one at most, a busy computer some more."""


class NetlinkLinks:
    async def ensure_bridge(self, bridge: Bridge) -> bool:
        return await asyncio.to_thread(_ensure_bridge, bridge)

    async def ensure_veth(self, veth: Veth) -> bool:
        return await asyncio.to_thread(_ensure_veth, veth)

    async def ensure_vlan(self, vlan: Vlan) -> bool:
        return await asyncio.to_thread(_ensure_vlan, vlan)

    async def ensure_leg(self, leg: Leg, room: Room, behind: Bridge) -> bool:
        """The near end from here, the far end from the room."""
        changed = await asyncio.to_thread(_ensure_leg, leg, room.path)
        await room.acall(lambda: configure_leg(leg, behind))
        return changed

    async def differs(self, link: Bridge | Veth | Vlan) -> bool:
        return await asyncio.to_thread(_differs, link)

    async def remove(self, name: str) -> None:
        """Silent when it is not there."""
        await asyncio.to_thread(_remove, name)

    async def ensure_route(self, route: Route) -> bool:
        return await asyncio.to_thread(_ensure_route, str(route.to), str(route.via))

    async def impair(self, name: str, wanted: Impairment | None) -> bool:
        return await asyncio.to_thread(impair, name, wanted)

    async def ports(self, bridge: str) -> set[str]:
        return await asyncio.to_thread(_ports, bridge)

    async def plug(self, bridge: str, links: Sequence[str]) -> None:
        await asyncio.to_thread(_plug, bridge, links)

    async def ensure_loopback(self) -> None:
        await asyncio.to_thread(raise_loopback)

    async def names(self) -> set[str]:
        return await asyncio.to_thread(_names)

    async def await_up(self, names: Collection[str]) -> None:
        await asyncio.to_thread(_await_up, names)


def raise_loopback() -> None:
    with IPRoute() as route:
        route.link("set", index=route.link_lookup(ifname="lo")[0], state="up")
    # an address is answered for on its own link only: bridges joined by a cable would else both claim the gateway
    Path("/proc/sys/net/ipv4/conf/all/arp_ignore").write_text("1")
    # no ICMP redirects: they would lead guests without the static route to routed BMCs all the same
    for settings in Path("/proc/sys/net/ipv4/conf").iterdir():
        with suppress(FileNotFoundError):  # of a link that has just gone
            (settings / "send_redirects").write_text("0")
    # frames between bridge ports are the lab's own business: no detour through the firewall of layer 3
    for knob in ("arptables", "iptables", "ip6tables"):
        path = Path(f"/proc/sys/net/bridge/bridge-nf-call-{knob}")
        if path.exists():
            path.write_text("0")


def configure_leg(leg: Leg, bridge: Bridge) -> None:
    """In the namespace at the far end of a leg: its address and way back, and a bridge with addresses behind it."""
    raise_loopback()
    with IPRoute() as route:
        index = _index(route, leg.inside)
        _ensure_address(route, index, leg.address)
        route.link("set", index=index, state="up")
        if leg.gateway is not None:
            _ensure_route("default", str(leg.gateway))
    _ensure_bridge(bridge)


def _remove(name: str) -> None:
    with IPRoute() as route:
        if (index := _index(route, name)) is not None:
            try:
                route.link("del", index=index)
            except NetlinkError as error:
                if error.code != errno.ENODEV:
                    raise


def _names() -> set[str]:
    with IPRoute() as route:
        return {link.get_attr("IFLA_IFNAME") for link in route.get_links()}


def _await_up(names: Collection[str], within: float = COMING_UP) -> None:
    """The kernel tells the state of a bridge up to a second later than that its port has carrier (linkwatch), and says so.

    Since Linux 6.8 it tells at once whoever asks for a single link; older ones are waited for.
    """
    deadline = time.monotonic() + within
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as news, IPRoute() as route:
        news.bind((0, RTMGRP_LINK))
        news.setblocking(False)
        heard = select.poll()
        heard.register(news, select.POLLIN)
        while late := _coming_up(route, names):
            left = deadline - time.monotonic()
            if left <= 0:
                raise GaveUp("links to come up", within, f"carrier, but not operational: {', '.join(late)}")
            heard.poll(left * 1000)
            with suppress(OSError):  # all of it has been read, or there was too much to keep: look again
                while news.recv(1 << 16):
                    pass


def _coming_up(route: Any, names: Collection[str]) -> list[str]:
    """Of these links, those that stand on carrier and are not operational yet."""
    links = {link["index"]: link for link in route.get_links()}

    def carried(index: int | None) -> bool:
        link = links.get(index)
        if link is None or not link["flags"] & IFF_UP:
            return False
        match _kind(link):
            case "bridge":  # its own carrier says nothing: one that never had a port has it, and stays as it is
                return any(carried(port) for port, other in links.items() if other.get_attr("IFLA_MASTER") == index)
            case "vlan":
                return carried(link.get_attr("IFLA_LINK"))
            case _:
                return bool(link.get_attr("IFLA_CARRIER"))

    wanted = [index for index, link in links.items() if link.get_attr("IFLA_IFNAME") in names and carried(index)]
    ports = [index for index, link in links.items() if link.get_attr("IFLA_MASTER") in wanted]
    late = []
    for index in (*ports, *wanted):  # in this order: a bridge has carrier when one of its ports is operational
        with suppress(NetlinkError):  # it has just gone
            now = route.get_links(index)[0]
            if index in wanted and now.get_attr("IFLA_OPERSTATE") != "UP":
                late.append(str(now.get_attr("IFLA_IFNAME")))
    return late


def _kind(link: Any) -> str:
    about = link.get_attr("IFLA_LINKINFO")
    return str(about.get_attr("IFLA_INFO_KIND")) if about is not None else ""


def _ports(bridge: str) -> set[str]:
    with IPRoute() as route:
        master = _index(route, bridge)
        if master is None:
            return set()
        return {link.get_attr("IFLA_IFNAME") for link in route.get_links() if link.get_attr("IFLA_MASTER") == master}


def _plug(bridge: str, links: Sequence[str]) -> None:
    with IPRoute() as route:
        master = _index(route, bridge)
        for name in links:
            if (index := _index(route, name)) is not None:
                route.link("set", index=index, master=master, state="up")


def _ensure_bridge(bridge: Bridge) -> bool:
    changed = False
    with IPRoute() as route:
        index = _index(route, bridge.name)
        if index is None:
            route.link("add", ifname=bridge.name, kind="bridge", br_stp_state=0, br_forward_delay=0)
            index = _index(route, bridge.name)
            changed = True
        if bridge.mtu is not None and _mtu(route, index) != bridge.mtu:
            route.link("set", index=index, mtu=bridge.mtu)
            changed = True
        route.link("set", index=index, state="up")
        wanted = {str(interface) for interface in bridge.addresses}
        for gone in _addresses(route, index) - wanted:
            address, _, prefix = gone.partition("/")
            try:
                route.addr("del", index=index, address=address, prefixlen=int(prefix))
            except NetlinkError as error:
                if error.code != errno.EADDRNOTAVAIL:  # it went with the first address of its network
                    raise
            changed = True
        # after that: the first address of a network takes the others along
        present = _addresses(route, index)
        for interface in bridge.addresses:
            if str(interface) not in present:
                _add_address(route, index, interface)
                changed = True
    return changed


def _addresses(route: Any, index: int | None) -> set[str]:
    return {f"{a.get_attr('IFA_ADDRESS')}/{a['prefixlen']}" for a in route.get_addr(index=index, family=2)}


def _ensure_address(route: Any, index: int | None, interface: IpInterface) -> bool:
    if str(interface) in _addresses(route, index):
        return False
    _add_address(route, index, interface)
    return True


def _add_address(route: Any, index: int | None, interface: IpInterface) -> None:
    route.addr("add", index=index, address=str(interface.ip), prefixlen=interface.network.prefixlen)


def _ensure_veth(veth: Veth) -> bool:
    changed = False
    with IPRoute() as route:
        if _index(route, veth.name) is None:
            route.link("add", ifname=veth.name, kind="veth", peer=veth.peer)
            changed = True
        for end, bridge in ((veth.name, veth.bridge), (veth.peer, veth.peer_bridge)):
            link = route.get_links(_index(route, end))[0]
            master = _index(route, bridge)
            if link.get_attr("IFLA_MASTER") != master:
                route.link("set", index=link["index"], master=master)
                changed = True
            if veth.mtu is not None and link.get_attr("IFLA_MTU") != veth.mtu:
                route.link("set", index=link["index"], mtu=veth.mtu)
                changed = True
            route.link("set", index=link["index"], state="up")
    return changed


def _differs(link: Bridge | Veth | Vlan) -> bool:
    with IPRoute() as route:
        index = _index(route, link.name)
        if index is None:
            return True
        match link:
            case Bridge():
                if link.mtu is not None and _mtu(route, index) != link.mtu:
                    return True
                return _addresses(route, index) != {str(interface) for interface in link.addresses}
            case Vlan():
                return str(link.address) not in _addresses(route, index)
            case Veth():
                ends = ((link.name, link.bridge), (link.peer, link.peer_bridge))
                if link.mtu is not None and any(_mtu(route, _index(route, end)) != link.mtu for end, _ in ends):
                    return True
                return any(_master(route, end) != _index(route, bridge) for end, bridge in ends)


def _mtu(route: Any, index: int | None) -> int | None:
    return route.get_links(index)[0].get_attr("IFLA_MTU") if index is not None else None


def _master(route: Any, name: str) -> int | None:
    index = _index(route, name)
    return route.get_links(index)[0].get_attr("IFLA_MASTER") if index is not None else -1


def _ensure_vlan(vlan: Vlan) -> bool:
    changed = False
    with IPRoute() as route:
        if _index(route, vlan.name) is None:
            route.link("add", ifname=vlan.name, kind="vlan", link=_index(route, vlan.bridge), vlan_id=vlan.tag)
            changed = True
        index = _index(route, vlan.name)
        changed |= _ensure_address(route, index, vlan.address)
        route.link("set", index=index, state="up")
    return changed


def can_tag() -> bool:
    """Whether this kernel knows VLANs; tried where nobody sees it."""
    room = ThreadRoom("vlan")

    def attempt() -> bool:
        _ensure_bridge(Bridge("probe"))
        try:
            _ensure_vlan(Vlan("tagged", "probe", 1, ip_interface("192.0.2.1/32")))
        except NetlinkError as error:
            if error.code != errno.EOPNOTSUPP:
                raise
            return False
        return True

    with closing(room):
        return room.call(attempt)


def _ensure_leg(leg: Leg, namespace: Path) -> bool:
    changed = False
    with IPRoute() as route:
        if _index(route, leg.name) is None:
            handle = os.open(namespace, os.O_RDONLY)
            try:
                route.link(
                    "add", ifname=leg.name, kind="veth", peer={"ifname": leg.inside, "net_ns_fd": handle}
                )  # fmt: skip
            finally:
                os.close(handle)
            changed = True
        index = _index(route, leg.name)
        master = _index(route, leg.bridge)
        if route.get_links(index)[0].get_attr("IFLA_MASTER") != master:
            route.link("set", index=index, master=master)
            changed = True
        route.link("set", index=index, state="up")
    return changed


def _ensure_route(to: str, via: str) -> bool:
    with IPRoute() as route:
        try:
            route.route("add", dst=to, gateway=via)
        except NetlinkError as error:
            if error.code != errno.EEXIST:
                raise
            return False
    return True


def _index(route: Any, name: str) -> int | None:
    found = route.link_lookup(ifname=name)
    return int(found[0]) if found else None
