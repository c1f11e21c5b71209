"""Networks in memory: `ports.fabric.Links` and `Networks` without netlink and libvirt."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from rackless.drivers.fake.script import Script
from rackless.ports.fabric import Bridge, Impairment, Leg, Network, Route, Veth, Vlan
from rackless.ports.hypervisor import Unreachable
from rackless.ports.namespaces import Room


@dataclass
class FakeLinks:
    script: Script
    links: dict[str, Bridge | Veth | Vlan | Leg] = field(default_factory=dict)
    routes: set[Route] = field(default_factory=set)
    masters: dict[str, str] = field(default_factory=dict)
    """The bridge that a link is plugged into."""
    impaired: dict[str, Impairment] = field(default_factory=dict)
    guests: set[str] = field(default_factory=set)
    """Links that came from outside the namespace: the lab does not own them, and they leave as they came."""

    async def ensure_loopback(self) -> None:
        await self.script.meet("links", "ensure_loopback")

    async def ensure_bridge(self, bridge: Bridge) -> bool:
        return await self._ensure(bridge.name, bridge, "ensure_bridge")

    async def ensure_veth(self, veth: Veth) -> bool:
        return await self._ensure(veth.name, veth, "ensure_veth", _ends(veth))

    async def ensure_vlan(self, vlan: Vlan) -> bool:
        return await self._ensure(vlan.name, vlan, "ensure_vlan")

    async def ensure_leg(self, leg: Leg, room: Room, behind: Bridge) -> bool:
        return await self._ensure(leg.name, leg, "ensure_leg", {leg.name: leg.bridge})

    async def differs(self, link: Bridge | Veth | Vlan) -> bool:
        await self.script.meet("links", "differs", link.name)
        return self.links.get(link.name) != link or not self._plugged(_ends(link))

    async def ensure_route(self, route: Route) -> bool:
        await self.script.meet("links", "ensure_route", str(route.to))
        if route in self.routes:
            return False
        self.routes.add(route)
        self.script.change("links", "ensure_route", str(route.to))
        return True

    async def impair(self, name: str, wanted: Impairment | None) -> bool:
        await self.script.meet("links", "impair", name)
        if self.impaired.get(name) == wanted:
            return False
        if wanted is None:
            del self.impaired[name]
        else:
            self.impaired[name] = wanted
        self.script.change("links", "impair", name)
        return True

    async def remove(self, name: str) -> None:
        await self.script.meet("links", "remove", name)
        cable = next((veth.name for veth in self.links.values() if isinstance(veth, Veth) and veth.peer == name), name)
        if cable in self.links:
            self.take_away(cable)
            self.script.change("links", "remove", name)

    async def ports(self, bridge: str) -> set[str]:
        await self.script.meet("links", "ports", bridge)
        return {end for end, master in self.masters.items() if master == bridge}

    async def plug(self, bridge: str, links: Sequence[str]) -> None:
        await self.script.meet("links", "plug", bridge)
        self.masters |= {name: bridge for name in links if name in self._all_names()}
        self.script.change("links", "plug", bridge)

    async def names(self) -> set[str]:
        await self.script.meet("links", "names")
        return self._all_names()

    async def await_up(self, names: Collection[str]) -> None:
        await self.script.meet("links", "await_up", " ".join(sorted(names)))

    def take_away(self, name: str) -> None:
        """A link is gone: of a cable both ends, of a bridge also the links on it."""
        gone = self.links.pop(name)
        for end in (*_ends(gone), name):
            self.masters.pop(end, None)
        if isinstance(gone, Bridge):
            self.masters = {end: master for end, master in self.masters.items() if master != name}
            for vlan in [link for link in self.links.values() if isinstance(link, Vlan) and link.bridge == name]:
                del self.links[vlan.name]

    def vanish(self) -> None:
        """Their namespace is gone."""
        self.links.clear()
        self.routes.clear()
        self.masters.clear()
        self.guests.clear()

    async def _ensure(
        self, name: str, link: Bridge | Veth | Vlan | Leg, method: str, ends: Mapping[str, str] | None = None
    ) -> bool:
        await self.script.meet("links", method, name)
        if self.links.get(name) == link and self._plugged(ends or {}):
            return False
        self.links[name] = link
        self.masters |= ends or {}
        self.script.change("links", method, name)
        return True

    def _plugged(self, ends: Mapping[str, str]) -> bool:
        return all(self.masters.get(end) == bridge for end, bridge in ends.items())

    def _all_names(self) -> set[str]:
        return {"lo", *self.guests, *self.links, *(end for link in self.links.values() for end in _ends(link))}


def _ends(link: Bridge | Veth | Vlan | Leg) -> dict[str, str]:
    """The ends of a cable here, and where they are plugged in."""
    return {link.name: link.bridge, link.peer: link.peer_bridge} if isinstance(link, Veth) else {}


@dataclass
class FakeNetworks:
    script: Script
    links: FakeLinks
    reachable: bool = True
    defined: dict[str, Network] = field(default_factory=dict)
    bridged: dict[str, str] = field(default_factory=dict)
    """Libvirt networks that only refer to a bridge, by name."""
    running: set[str] = field(default_factory=set)
    serving: set[str] = field(default_factory=set)
    """Networks whose dnsmasq answers DHCP and DNS."""

    async def ensure_network(self, network: Network) -> bool:
        await self._answer("ensure_network", network.name)
        if self.defined.get(network.name) == network and network.name in self.running:
            return False
        self.defined[network.name] = network
        self.running.add(network.name)
        self.serving.add(network.name)
        if network.bridge in self.links.links:
            self.links.take_away(network.bridge)  # started anew, on a new bridge
        self.links.links[network.bridge] = Bridge(network.bridge, (network.gateway,))
        self.script.change("networks", "ensure_network", network.name)
        return True

    async def differs(self, network: Network) -> bool:
        await self._answer("differs", network.name)
        return network.name in self.running and self.defined[network.name] != network

    async def ensure_bridge_network(self, name: str, bridge: str) -> bool:
        await self._answer("ensure_bridge_network", name)
        if self.bridged.get(name) == bridge and name in self.running:
            return False
        self.bridged[name] = bridge
        self.running.add(name)
        self.script.change("networks", "ensure_bridge_network", name)
        return True

    async def revive(self, name: str) -> bool:
        await self._answer("revive", name)
        if name not in self.running or name in self.serving:
            return False
        self.serving.add(name)
        self.script.change("networks", "revive", name)
        return True

    def server_pid(self, name: str) -> int | None:
        return 1 if name in self.serving else None

    async def active(self) -> set[str]:
        await self._answer("active")
        return set(self.running)

    def vanish(self) -> None:
        """Their namespace is gone; what was defined stays."""
        self.running.clear()
        self.serving.clear()

    async def _answer(self, method: str, name: str = "") -> None:
        await self.script.meet("networks", method, name)
        if not self.reachable:
            raise Unreachable("the fake hypervisor is away")
