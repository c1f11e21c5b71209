"""Rules about networks and addresses: no address is used twice, and each lies in the network it is meant for. Part of `check`."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.errors import Problem
from rackless.spec.address import Ip, IpNetwork
from rackless.spec.cluster import Method
from rackless.spec.lab import LabSpec
from rackless.spec.networks import BmcAccess, Dhcp, Provisioning
from rackless.spec.places import (
    API_VIP,
    BMC_ROUTER,
    BOOTSTRAP,
    FIRST_SERVER,
    INGRESS_VIP,
    RANGE,
    bmc_port,
    each_member,
    gateway,
    members,
    numbers,
)
from rackless.spec.servers import BmcProtocol
from rackless.spec.uplink import Uplink

LAB_PORTS = frozenset({53, 5050, 6180, 6385, 6443})
"""TCP ports of the gateway that are the lab's: DNS, Ironic's inspection, files, Ironic, the Kubernetes API."""

RESERVED_NAMES = ("cluster", "baremetal", "bmc", "provisioning", "virbr0", "lo", "uplink", "attached")


Found = tuple[Problem, tuple[str, ...]]
"""A problem, and the fields it rests on; `*` stands for any name."""

PLACES = ("servers.*.count", "servers.*.first", "servers.*.elastic")
"""The fields that decide which servers there are and which addresses they have."""


def overlaps(spec: LabSpec) -> Iterator[Found]:
    seen: list[tuple[str, IpNetwork]] = []
    for path, cidr in _networks(spec).items():
        for other, taken in seen:
            if cidr.overlaps(taken):
                needs = (path, other, "networks.provisioning.mode") if "provisioning" in path + other else (path, other)
                yield Problem(path, f"{cidr} overlaps {other} {taken}", hint="give each its own"), needs
        seen.append((path, cidr))


def room(spec: LabSpec) -> Iterator[Found]:
    for path, cidr in _networks(spec).items():
        places = _numbered(spec, path)
        highest = max(places.values(), default=0 if members(spec) else FIRST_SERVER)
        if highest > cidr.num_addresses - 2:
            room = max(cidr.num_addresses - 1 - FIRST_SERVER, 0)
            problem = Problem(
                path,
                f"{cidr} has room for {room} servers, the lab has {len(places)}"
                if len(places) > room
                else f"{cidr} has no address number {highest}",
                hint=f"servers start at the {FIRST_SERVER}th address; use a larger network",
            )
            yield problem, (path, *PLACES)


def addresses(spec: LabSpec) -> Iterator[Found]:
    """VIPs, gateway, router and bootstrap address lie in the cluster network, and none is used for two purposes."""
    cidr = spec.networks.cluster.cidr
    if _too_small(spec):
        return  # `room` reports a network that is too small
    purposes = _purposes(spec)
    first, last = _given_away(spec)
    servers = _server_addresses(spec)
    for index, (path, address, more) in enumerate(purposes):
        needs = (path, "networks.cluster.cidr", *more)
        if address not in cidr or address in (cidr.network_address, cidr.broadcast_address):
            words = f"{address} is not an address for a host in {cidr}"
            yield Problem(path, words, hint=f"choose one of {cidr}"), needs
        elif _between(first, address, last):
            words = f"{address} is in the range {first}-{last} that DHCP gives away"
            yield Problem(path, words), (*needs, "networks.cluster.bootstrap.range")
        elif address in servers:
            yield Problem(path, f"{address} is the address of the server {servers[address]}"), (*needs, *PLACES)
        for other, taken, others in purposes[:index]:
            if address == taken:
                yield Problem(path, f"{address} is already {other}", hint="give each its own"), (*needs, other, *others)


def dhcp_range(spec: LabSpec) -> Iterator[Found]:
    """The DHCP range lies in the network, and nothing else has an address in it."""
    cidr = spec.networks.cluster.cidr
    if _too_small(spec):
        return
    path = "networks.cluster.bootstrap.range"
    needs = (path, "networks.cluster.cidr")
    first, last = _given_away(spec)
    if first not in cidr or last not in cidr:
        yield Problem(path, f"{first}-{last} is not inside {cidr}"), needs
    elif inside := [name for address, name in _server_addresses(spec).items() if _between(first, address, last)]:
        yield Problem(path, f"{first}-{last} overlaps the addresses of {', '.join(inside[:3])}"), (*needs, *PLACES)


def member_addresses(spec: LabSpec) -> Iterator[Found]:
    cidr = spec.networks.cluster.cidr
    taken: dict[Ip, str] = {}
    for path, member in each_member(spec):
        if member.address is None:
            continue
        where, needs = f"{path}.address", (f"{path}.address", "networks.cluster.cidr")
        if member.address not in cidr or member.address in (cidr.network_address, cidr.broadcast_address):
            yield Problem(where, f"{member.address} is not an address for a host in {cidr}"), needs
        if (other := taken.setdefault(member.address, member.name)) != member.name:
            yield Problem(where, f"{member.address} is already the address of {other}", hint="give each its own"), needs


def member_macs(spec: LabSpec) -> Iterator[Found]:
    taken: dict[str, str] = {}
    if spec.networks.cluster.bootstrap.mac is not None:
        taken[spec.networks.cluster.bootstrap.mac] = "the bootstrap VM"
    for path, member in each_member(spec):
        for key, mac in (("mac", member.mac), ("cluster_mac", member.cluster_mac)):
            if mac is not None and mac in taken:
                yield Problem(f"{path}.{key}", f"{mac} is already the MAC of {taken[mac]}"), (f"{path}.{key}",)
            elif mac is not None:
                taken[mac] = member.name


def doors(spec: LabSpec) -> Iterator[Found]:
    """No two BMCs answer at the same address and port, unless the ids of their Redfish systems tell them apart."""
    own = gateway(spec)
    servers = _server_addresses(spec) if not _too_small(spec) else {}
    others = {address: path for path, address, _ in _purposes(spec) if address != own} if not _too_small(spec) else {}
    taken: dict[tuple[Ip, int, str], str] = {}
    speaks: dict[tuple[Ip, int], bool] = {}
    for group in spec.servers.values():
        for member in group.members:
            if (address := member.bmc.address) is None:
                continue
            path = _member_path(spec, member.name)
            where, needs = f"{path}.bmc.address", ("servers", "networks.cluster")
            port = bmc_port(group.scheme, member.bmc)
            ipmi = group.bmc is BmcProtocol.IPMI
            if address in servers or address in others:
                whose = servers.get(address) or others.get(address)
                yield Problem(where, f"{address} is the address of {whose}, and a BMC needs its own"), needs
            if address == own and not ipmi and port in LAB_PORTS:
                words = f"port {port} of the gateway {address} is taken by the lab itself"
                yield Problem(f"{path}.bmc.port", words, hint="the site's BMC has to be at another port"), needs
            door = (address, port, f"ipmi {port}" if ipmi else member.bmc.system)
            if (other := taken.setdefault(door, member.name)) != member.name:
                words = f"the BMC of {other} is at the same address, port and system"
                yield Problem(where, words, hint="give each its own"), needs
            if not ipmi and speaks.setdefault((address, port), member.bmc.http) != member.bmc.http:
                yield Problem(f"{path}.bmc.http", f"another BMC at {address}:{port} speaks the other way"), needs


def routes(spec: LabSpec) -> Iterator[Found]:
    cidr = spec.networks.cluster.cidr
    known = {"bootstrap", *spec.servers}
    for index, route in enumerate(spec.networks.cluster.routes):
        path = f"networks.cluster.routes.{index}"
        if route.via not in cidr:
            words = f"{route.via} is not in {cidr}, so nobody reaches it"
            yield Problem(f"{path}.via", words), ("networks.cluster.cidr",)
        for name in route.audience:
            if name not in known:
                hint = f"known: {', '.join(sorted(known))}"
                yield (
                    Problem(f"{path}.audience", f"there is no group {name}", hint=hint),
                    ("profile", f"servers.{name}"),
                )


def extra(spec: LabSpec) -> Iterator[Found]:
    tags: dict[int, str] = {}
    for name, extra in spec.networks.extra.items():
        if name in RESERVED_NAMES:
            yield Problem(f"networks.extra.{name}", f"the name {name} is taken by the lab itself"), ()
        if extra.vlan is not None:
            if extra.vlan in tags:
                path = f"networks.extra.{name}.vlan"
                yield Problem(path, f"{extra.vlan} is already the tag of {tags[extra.vlan]}"), ()
            tags[extra.vlan] = name


def attach(spec: LabSpec) -> Iterator[Found]:
    """On a network that others own every address must be given: the defaults, its first addresses, may be in use."""
    cluster, base = spec.networks.cluster, "networks.cluster"
    if cluster.attach is None:
        if cluster.dhcp is Dhcp.THEIRS:
            words = "nobody else can answer DHCP in a lab whose network is its own"
            hint = "attach a bridge or a NIC, or let dhcp be static-only"
            yield Problem(f"{base}.dhcp", words, hint=hint), (f"{base}.attach",)
        return
    said = {
        "gateway": "the lab's own address",
        "api_vip": "the API's address",
        "ingress_vip": "the applications' address",
    }
    for field, what in said.items():
        if getattr(cluster, field) is None:
            words = f"{what} has to be said where a network of others is attached"
            yield Problem(f"{base}.{field}", words, hint=f"choose a free one of {cluster.cidr}"), (f"{base}.attach",)
    own = {*RESERVED_NAMES, cluster.bridge, spec.networks.provisioning.bridge, *spec.networks.extra}
    if cluster.attach.device in own:
        words = f"the lab itself has a link {cluster.attach.device} inside, and a NIC keeps its name there"
        yield Problem(f"{base}.attach.device", words, hint="name the device or the lab's link otherwise"), (base,)


def no_dhcp(spec: LabSpec) -> Iterator[Found]:
    """Where nobody answers DHCP, somebody must tell the servers their addresses, and nobody hands out routes."""
    cluster, path = spec.networks.cluster, "networks.cluster.dhcp"
    if cluster.dhcp is not Dhcp.NONE:
        return
    needs = (path, "networks.cluster.attach")
    if spec.cluster.method is Method.DIRECT:
        words = "the lab's own way to a cluster has its servers ask DHCP"
        hint = f"use cluster.method: {Method.IPI}, or dhcp: {Dhcp.STATIC_ONLY}"
        yield Problem(path, words, hint=hint), (*needs, "cluster.method")
    if spec.networks.bmc.access is BmcAccess.ROUTED:
        words = "the way to BMCs behind a router is a route that DHCP hands out, and nobody answers"
        yield (
            Problem("networks.bmc.access", words, hint=f"use access: {BmcAccess.DIRECT}"),
            (*needs, "networks.bmc.access"),
        )
    if cluster.routes:
        words = "routes are handed out by DHCP, and nobody answers"
        yield Problem("networks.cluster.routes", words, hint="leave them out"), needs
    if spec.cluster.method is not Method.IPI:
        return
    for name, group in spec.servers.items():
        if group.scheme.boots_over_network:
            words = "our install tells servers their addresses by virtual media, where nobody answers DHCP"
            yield Problem(f"servers.{name}.boot", words, hint="use boot: media"), (*needs, "cluster.method")


def uplink(spec: LabSpec) -> Iterator[Found]:
    uplink = spec.networks.uplink
    if uplink.reach and uplink.mode is Uplink.NONE:
        words = "without an uplink nothing outside is reached"
        yield Problem("networks.uplink.reach", words, hint="use mode: nat"), ("networks.uplink.mode",)
    for index, reach in enumerate(uplink.reach):
        for path, cidr in _networks(spec).items():
            if reach.network is not None and reach.network.prefixlen > 0 and reach.network.overlaps(cidr):
                words = f"{reach} is in {path} {cidr}: in the lab those addresses are its own"
                hint = "give the lab another network, or reach it at another address"
                yield Problem(f"networks.uplink.reach.{index}", words, hint=hint), (path, "networks.provisioning.mode")


def _numbered(spec: LabSpec, path: str) -> dict[str, int]:
    """The servers whose address in this network follows from their number."""
    own = members(spec)
    if path == "networks.cluster.cidr":
        placed = {name for name, member in own.items() if member.address is not None}
    elif path == "networks.bmc.cidr":
        placed = {name for name, member in own.items() if member.bmc.address is not None}
    else:
        placed = set(own)  # members give no addresses of their own in the other networks
    return {name: number for name, number in numbers(spec).items() if name not in placed}


def _networks(spec: LabSpec) -> dict[str, IpNetwork]:
    networks = spec.networks
    named = {"networks.cluster.cidr": networks.cluster.cidr, "networks.bmc.cidr": networks.bmc.cidr}
    if networks.provisioning.mode is not Provisioning.DISABLED:
        named["networks.provisioning.cidr"] = networks.provisioning.cidr
    return named | {f"networks.extra.{name}.cidr": extra.cidr for name, extra in networks.extra.items()}


def _purposes(spec: LabSpec) -> list[tuple[str, Ip, tuple[str, ...]]]:
    """The addresses with a purpose: the field or default that each comes from, the address, and the fields that decide whether
    it is used."""
    cluster, bmc = spec.networks.cluster, spec.networks.bmc
    cidr, base = cluster.cidr, "networks.cluster"
    where = f"{base}.gateway" if cluster.gateway else "the gateway"
    found: list[tuple[str, Ip, tuple[str, ...]]] = [(where, gateway(spec), ())]
    if bmc.access is BmcAccess.ROUTED:
        found.append(("networks.bmc.router", bmc.router or cidr[BMC_ROUTER], ("networks.bmc.access",)))
    found += [
        (f"{base}.ingress_vip", cluster.ingress_vip or cidr[INGRESS_VIP], ()),
        (f"{base}.api_vip", cluster.api_vip or cidr[API_VIP], ()),
        (f"{base}.bootstrap.address", cluster.bootstrap.address or cidr[BOOTSTRAP], ()),
    ]
    return found


def _too_small(spec: LabSpec) -> bool:
    """Whether the network has no room for the default addresses that the lab would use."""
    cluster, bmc = spec.networks.cluster, spec.networks.bmc
    said = (cluster.api_vip, cluster.ingress_vip, cluster.bootstrap.address, cluster.bootstrap.range)
    routed = bmc.access is BmcAccess.ROUTED and bmc.router is None
    return cluster.cidr.num_addresses <= FIRST_SERVER and (routed or not all(said))


def _between(first: Ip, address: Ip, last: Ip) -> bool:
    return first.version == address.version and int(first) <= int(address) <= int(last)


def _given_away(spec: LabSpec) -> tuple[Ip, Ip]:
    cluster = spec.networks.cluster
    return cluster.bootstrap.range or (cluster.cidr[RANGE[0]], cluster.cidr[RANGE[1]])


def _server_addresses(spec: LabSpec) -> dict[Ip, str]:
    cidr = spec.networks.cluster.cidr
    places = _numbered(spec, "networks.cluster.cidr")
    found = {cidr[number]: name for name, number in places.items() if number < cidr.num_addresses}
    return found | {member.address: name for name, member in members(spec).items() if member.address is not None}


def _member_path(spec: LabSpec, name: str) -> str:
    return next(path for path, member in each_member(spec) if member.name == name)
