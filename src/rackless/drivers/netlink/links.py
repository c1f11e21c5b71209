"""`ports.fabric.Links` by netlink, in the network namespace we are in."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute

from rackless.ports.fabric import Bridge, Veth


class NetlinkLinks:
    async def ensure_bridge(self, bridge: Bridge) -> bool:
        return await asyncio.to_thread(_ensure_bridge, bridge)

    async def ensure_veth(self, veth: Veth) -> bool:
        return await asyncio.to_thread(_ensure_veth, veth)

    async def ensure_loopback(self) -> None:
        await asyncio.to_thread(_raise_loopback)

    async def names(self) -> set[str]:
        return await asyncio.to_thread(_names)


def _raise_loopback() -> None:
    with IPRoute() as route:
        route.link("set", index=route.link_lookup(ifname="lo")[0], state="up")
    # frames between bridge ports are the lab's own business: no detour through the firewall of layer 3
    for knob in ("arptables", "iptables", "ip6tables"):
        path = Path(f"/proc/sys/net/bridge/bridge-nf-call-{knob}")
        if path.exists():
            path.write_text("0")


def _names() -> set[str]:
    with IPRoute() as route:
        return {link.get_attr("IFLA_IFNAME") for link in route.get_links()}


def _ensure_bridge(bridge: Bridge) -> bool:
    changed = False
    with IPRoute() as route:
        index = _index(route, bridge.name)
        if index is None:
            route.link("add", ifname=bridge.name, kind="bridge", br_stp_state=0, br_forward_delay=0)
            index = _index(route, bridge.name)
            changed = True
        route.link("set", index=index, state="up")
        present = {
            f"{address.get_attr('IFA_ADDRESS')}/{address['prefixlen']}" for address in route.get_addr(index=index)
        }
        for interface in bridge.addresses:
            if str(interface) not in present:
                _add_address(route, index, interface)
                changed = True
    return changed


def _add_address(route: Any, index: int | None, interface: IPv4Interface) -> None:
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
            route.link("set", index=link["index"], state="up")
    return changed


def _index(route: Any, name: str) -> int | None:
    found = route.link_lookup(ifname=name)
    return int(found[0]) if found else None
