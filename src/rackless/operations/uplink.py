"""The uplink `nat`: a veth pair to the hypervisor and masquerading (nftables). The one thing of a lab that touches the
hypervisor's network.

All of it is in the ledger before it is made, and is taken back by `down` and `destroy`. The lab's own addresses never appear on
the hypervisor: they are masqueraded behind the lab's end of the pair. Which destinations the lab may reach is in `lab.gate`, which
interfaces forward in `operations.forwarding`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any
from urllib.parse import urlsplit

from rackless.errors import HypervisorError
from rackless.events import Bus
from rackless.lab.gate import Gate, render_host, render_lab, table_of
from rackless.operations import forwarding
from rackless.ports.computer import Computer
from rackless.ports.computer_network import ComputerNetwork, KnownRoute, UplinkCable
from rackless.ports.drivers import Drivers
from rackless.run.ledger import Ledger, LedgerEntry
from rackless.run.paths import LabPaths
from rackless.spec.lab import LabSpec
from rackless.spec.uplink import Reach, Uplink

KIND = "uplink"
INSIDE = "uplink"
PREFIX = "rl-"
POOL = IPv4Network("100.64.0.0/16")
"""Subnets for uplinks: a part of 100.64.0.0/10 (carrier-grade NAT), which private networks do not use."""
WIDE = 8
"""Routes with a prefix shorter than this count as default routes: a VPN replaces the default route by several of them."""


async def ensure_uplink(spec: LabSpec, paths: LabPaths, bus: Bus, drivers: Drivers) -> None:
    ledger = Ledger(paths.ledger)
    present = next((entry for entry in ledger.entries() if entry.kind == KIND), None)
    if present is not None and (spec.networks.uplink.mode is Uplink.NONE or "forwarding" in present.detail):
        with bus.step("uplink taken away"):
            await retire_uplink(present, drivers)
            ledger.strike(present)
            present = None
    if spec.networks.uplink.mode is Uplink.NONE:
        return
    with bus.step("uplink") as step:
        network, boot = drivers.network, _boot(drivers.computer)
        async with network.alone():
            link = link_name(paths)
            there = await network.joined(link, INSIDE, paths.netns)
            routes = read_routes(await network.routes())
            subnet = IPv4Network(present.detail["subnet"]) if present and there else free_subnet(link, routes)
            gate = _gate(spec, paths, link, subnet, routes, network)
            ways = [*routes.ways([*(r.network for r in gate.reach if r.network), *map(IPv4Network, gate.names)])]
            tables = await forwarding.registered(drivers.firewall)
            mine = _opened(present, boot) | tables.pop(gate.table, set())
            others = set().union(*tables.values())
            # interfaces of a network that this computer has left
            forwarding.close_interfaces(mine - set(ways), others, network)
            opened = forwarding.claim(ways, mine, others, network)
            closed = [name for name in routes.interfaces if name in opened or not network.forwards(name)]
            gate = replace(gate, opened=tuple(opened), closed=tuple(closed))
            rules = hashlib.sha256((render_host(gate) + render_lab(gate)).encode()).hexdigest()[:16]
            same = there and present is not None and present.detail.get("rules") == rules
            owned = {"subnet": str(subnet), "table": gate.table, "opened": " ".join(opened), "rules": rules}
            owned["wanted"] = _wanted(spec)
            ledger.own(KIND, link, **owned, boot=boot)
            cable = UplinkCable(link, INSIDE, paths.netns, subnet)
            if not there:
                await network.remove(link)  # a link of this name that an earlier lab has left
                await network.join(cable)
            # the rules before the link is up; each set replaces the one before it atomically
            await drivers.firewall.replace(render_host(gate))
            await drivers.firewall.replace(render_lab(gate), namespace=paths.netns)
            await network.switch_on(cable)
            forwarding.open_interfaces([link, *ways], network)
        if same:
            step.unchanged(_told(gate))
        else:
            step.detail = _told(gate)


async def observe_uplink(paths: LabPaths, drivers: Drivers, wanted: LabSpec | None) -> tuple[bool, str]:
    """Whether the lab has its uplink, and why it must be made right. What it was made for stands in the ledger: the
    lab's recorded description is already the new one when the daemon has been started with it.
    """
    entry = next((entry for entry in Ledger(paths.ledger).entries() if entry.kind == KIND), None)
    if entry is None or link_name(paths) not in await drivers.network.links():
        return False, ""
    if "forwarding" in entry.detail:
        return True, "an earlier version made it"
    if wanted is not None and entry.detail.get("wanted") != _wanted(wanted):
        return True, "what it may reach is described otherwise"
    closed = await closed_ways(paths, drivers)
    return True, f"this computer has moved: {', '.join(closed)}" if closed else ""


async def closed_ways(paths: LabPaths, drivers: Drivers) -> list[str]:
    """Interfaces through which replies would come and that do not forward: the computer has moved to another network since the
    last `up`."""
    network = drivers.network
    if not any(entry.kind == KIND for entry in Ledger(paths.ledger).entries()):
        return []
    if link_name(paths) not in await network.links():
        return []  # the lab is down
    return [way for way in read_routes(await network.routes()).ways([]) if not network.forwards(way)]


def link_name(paths: LabPaths) -> str:
    return PREFIX + hashlib.sha256(str(paths.state).encode()).hexdigest()[:8]


async def retire_uplink(entry: LedgerEntry, drivers: Drivers) -> None:
    if "forwarding" in entry.detail:
        await _retire_former(entry, drivers)
    else:
        await retire_link(entry.id, drivers, _opened(entry, _boot(drivers.computer)))


async def retire_link(link: str, drivers: Drivers, opened: Iterable[str] = ()) -> None:
    """Remove the pair and its rules, and end forwarding of interfaces that forward for this lab alone; `opened` are those that the
    ledger lists."""
    network = drivers.network
    async with network.alone():
        await network.remove(link)
        tables = await forwarding.registered(drivers.firewall)
        mine = tables.pop(table_of(link), set()) | set(opened)
        forwarding.close_interfaces(mine, set().union(*tables.values()), network)
        await drivers.firewall.remove(table_of(link))


async def _retire_former(entry: LedgerEntry, drivers: Drivers) -> None:
    """Made by a version that turned on forwarding for the whole computer; it noted what it had found."""
    await drivers.network.remove(entry.id)
    await drivers.firewall.remove(entry.detail["table"])
    others = any(link.startswith(PREFIX) for link in await drivers.network.links())
    if entry.detail["forwarding"] == "0" and not others:
        drivers.network.set_forwarding("all", False)


@dataclass(frozen=True, slots=True)
class Routes:
    """What the hypervisor's routing tables say, without other labs' uplinks."""

    host: tuple[IPv4Address, ...]
    """Its own addresses."""
    networks: tuple[tuple[IPv4Network, tuple[str, ...]], ...]
    """For each destination network, the interfaces that its routes use; the default route is 0.0.0.0/0."""
    taken: tuple[IPv4Network, ...]
    """Networks that an uplink's subnet must not overlap."""

    @property
    def near(self) -> tuple[IPv4Network, ...]:
        return tuple(dict.fromkeys(network for network, _ in self.networks if network.prefixlen >= WIDE))

    @property
    def interfaces(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for _, names in self.networks for name in names))

    def ways(self, named: Iterable[IPv4Network | Any]) -> tuple[str, ...]:
        """The interfaces through which the Internet and the named networks are reached."""
        wanted = list(named)
        found = [
            name
            for network, names in self.networks
            if network.prefixlen < WIDE or any(network.overlaps(one) for one in wanted)
            for name in names
        ]
        return tuple(dict.fromkeys(found))


def read_routes(shown: Iterable[KnownRoute]) -> Routes:
    host: list[IPv4Address] = []
    networks: list[tuple[IPv4Network, tuple[str, ...]]] = []
    taken: list[IPv4Network] = []
    for route in shown:
        network, names = route.network, route.interfaces
        if network.prefixlen >= WIDE and route.kind != "broadcast":
            taken.append(network)
        if any(name.startswith(PREFIX) for name in names):
            continue
        if route.kind == "local" and not network.is_loopback:
            host.append(network.network_address)
        elif route.kind == "unicast" and names:
            networks.append((network, names))
    return Routes(tuple(dict.fromkeys(host)), tuple(networks), tuple(taken))


def free_subnet(link: str, routes: Routes) -> IPv4Network:
    """A /30 that no route of this computer leads to; the same one for the same lab where that is possible."""
    start = int(hashlib.sha256(link.encode()).hexdigest()[:8], 16)
    count = POOL.num_addresses // 4
    for step in range(count):
        base = int(POOL.network_address) + (start + step) % count * 4
        subnet = IPv4Network((base, 30))
        if not any(subnet.overlaps(other) for other in routes.taken):
            return subnet
    raise HypervisorError("no network is free for the lab's uplink", why=f"every /30 of {POOL} has a route")


def _gate(
    spec: LabSpec, paths: LabPaths, link: str, subnet: IPv4Network, routes: Routes, network: ComputerNetwork
) -> Gate:
    asked = spec.networks.dns.forward or (paths.upstream.read_text().split() if paths.upstream.exists() else ())
    return Gate(
        link=link,
        inside=INSIDE,
        subnet=subnet,
        reach=tuple(dict.fromkeys((*spec.networks.uplink.reach, *_implied(spec, network)))),
        names=tuple(IPv4Address(str(address)) for address in asked),
        host=(subnet[1], *routes.host),
        networks=routes.near,
    )


def _wanted(spec: LabSpec) -> str:
    """The part of a description that the uplink's rules depend on, as a short text to compare."""
    uplink, names = spec.networks.uplink, spec.networks.dns.forward
    said = [uplink.mode.value, *map(str, uplink.reach), "names", *map(str, names), "implied", *_implied_urls(spec)]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def _implied_urls(spec: LabSpec) -> list[str]:
    images = [image for image in (spec.image, *(group.image for group in spec.servers.values())) if image is not None]
    urls = [url for image in images for url in (image.url, image.checksum)]
    return list(dict.fromkeys([*urls, *([spec.provisioner.url] if spec.provisioner is not None else [])]))


def _implied(spec: LabSpec, network: ComputerNetwork) -> list[Reach]:
    """What lab.yaml names elsewhere: somebody else's Ironic, and where images and their checksums are."""
    found: list[Reach] = []
    for parts in map(urlsplit, _implied_urls(spec)):
        if parts.scheme not in ("http", "https") or not parts.hostname:
            continue
        port = parts.port or (443 if parts.scheme == "https" else 80)
        found += [Reach(IPv4Network(address), port) for address in network.addresses_of(parts.hostname)]
    return found


def _opened(entry: LedgerEntry | None, boot: str) -> set[str]:
    """What the ledger says of this start of the computer."""
    if entry is None or entry.detail.get("boot") != boot:
        return set()
    return set(entry.detail["opened"].split())


def _boot(computer: Computer) -> str:
    """Which start of the computer this is: what was opened in an earlier one is closed again."""
    return computer.boot_id().strip()


def _told(gate: Gate) -> str:
    reach = f"; reaches {', '.join(map(str, gate.reach))}" if gate.reach else ""
    return f"{gate.subnet} on {gate.link}, masqueraded{reach}"
