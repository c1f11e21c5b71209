"""What types alone cannot say: rules between the fields of a lab. Pure; returns every problem it finds.

A rule says which fields its finding rests on. In a lab with fields that could not be read, what rests on those is not said:
it would be about a default that nobody asked for. The rest is, so that a file is mended once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rackless.errors import Problem
from rackless.spec.address import Ip, IpNetwork
from rackless.spec.cluster import Method
from rackless.spec.discover import Discover
from rackless.spec.images import image_problems
from rackless.spec.lab import LabSpec, Role
from rackless.spec.members import Member, MemberBmc
from rackless.spec.networks import BmcAccess, Dhcp, Provisioning
from rackless.spec.servers import BmcProtocol, BmcScheme, ServerFirmware, WayToBoot
from rackless.spec.uplink import Uplink

BMC_ROUTER = 2
INGRESS_VIP = 4
API_VIP = 5
BOOTSTRAP = 9
RANGE = (10, 19)
FIRST_SERVER = 20
"""Servers start at this address of their network; below it are the gateway, the VIPs and the bootstrap."""

LAB_PORTS = frozenset({53, 5050, 6180, 6385, 6443})
"""TCP ports of the gateway that are the lab's: DNS, Ironic's inspection, files, Ironic, the Kubernetes API."""

RESERVED_NAMES = ("cluster", "baremetal", "bmc", "provisioning", "virbr0", "lo", "uplink", "attached")


Found = tuple[Problem, tuple[str, ...]]
"""A problem, and the fields it rests on; `*` stands for any name."""

PLACES = ("servers.*.count", "servers.*.first", "servers.*.elastic")
"""What decides which servers there are and where."""


def find_problems(spec: LabSpec, unsure: Collection[tuple[str, ...]] = ()) -> Iterator[Problem]:
    """`unsure` are the paths of what is not as somebody wanted it."""
    for rule in _RULES:
        for problem, needs in rule(spec):
            if not any(_concerns(tuple(need.split(".")), path) for need in needs for path in unsure):
                yield problem


def _concerns(need: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether one lies within the other."""
    return all(wanted in ("*", part) for wanted, part in zip(need, path, strict=False))


def numbers(spec: LabSpec) -> dict[str, int]:
    """The host number of every server by name: its place in every network. A group may say where it begins.

    Servers that are made on demand come last: a group that becomes elastic moves nobody.
    """
    found: dict[str, int] = {}
    floating: list[str] = []
    last: list[str] = []
    for prefix, group in spec.servers.items():
        names, elastic = group.names(prefix), group.elastic_names(prefix)
        if group.first is not None:
            found |= {name: group.first + index for index, name in enumerate((*names, *elastic))}
        else:
            floating += names
            last += elastic
    claimed, following = set(found.values()), FIRST_SERVER
    for name in (*floating, *last):
        while following in claimed:
            following += 1
        found[name] = following
        following += 1
    return found


def members(spec: LabSpec) -> dict[str, Member]:
    """The servers that are described one by one, by name."""
    return {member.name: member for group in spec.servers.values() for member in group.members}


def gateway(spec: LabSpec) -> Ip:
    return spec.networks.cluster.gateway or spec.networks.cluster.cidr[1]


def _numbered(spec: LabSpec, path: str) -> dict[str, int]:
    """The servers whose address in this network follows from their number."""
    own = members(spec)
    if path == "networks.cluster.cidr":
        placed = {name for name, member in own.items() if member.address is not None}
    elif path == "networks.bmc.cidr":
        placed = {name for name, member in own.items() if member.bmc.address is not None}
    else:
        placed = set(own)  # nobody else says where they are there
    return {name: number for name, number in numbers(spec).items() if name not in placed}


def _networks(spec: LabSpec) -> dict[str, IpNetwork]:
    networks = spec.networks
    named = {"networks.cluster.cidr": networks.cluster.cidr, "networks.bmc.cidr": networks.bmc.cidr}
    if networks.provisioning.mode is not Provisioning.DISABLED:
        named["networks.provisioning.cidr"] = networks.provisioning.cidr
    return named | {f"networks.extra.{name}.cidr": extra.cidr for name, extra in networks.extra.items()}


def _overlaps(spec: LabSpec) -> Iterator[Found]:
    seen: list[tuple[str, IpNetwork]] = []
    for path, cidr in _networks(spec).items():
        for other, taken in seen:
            if cidr.overlaps(taken):
                needs = (path, other, "networks.provisioning.mode") if "provisioning" in path + other else (path, other)
                yield Problem(path, f"{cidr} overlaps {other} {taken}", hint="give each its own"), needs
        seen.append((path, cidr))


def _room(spec: LabSpec) -> Iterator[Found]:
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


def _places(spec: LabSpec) -> Iterator[Found]:
    taken: dict[int, str] = {}
    names = [
        name for prefix, group in spec.servers.items() for name in (*group.names(prefix), *group.elastic_names(prefix))
    ]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem("servers", f"there are several servers {name}", hint="give each its own name"), ("servers",)
    for name, number in numbers(spec).items():
        if number in taken:
            path = f"servers.{_group_of(spec, name)}.first"
            words = f"{name} would have the number {number} of {taken[number]}"
            yield Problem(path, words, hint="let the groups begin further apart"), PLACES
            return
        taken[number] = name


def _purposes(spec: LabSpec) -> list[tuple[str, Ip, tuple[str, ...]]]:
    """Addresses with a purpose: where each comes from, and what that rests on."""
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


def _addresses(spec: LabSpec) -> Iterator[Found]:
    """Addresses with a purpose lie in the network and belong to one purpose only."""
    cidr = spec.networks.cluster.cidr
    if _too_small(spec):
        return  # said already
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


def _range(spec: LabSpec) -> Iterator[Found]:
    """What DHCP gives away lies in the network and is nobody's."""
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


def _too_small(spec: LabSpec) -> bool:
    """For the usual places; where all of them are said, they are wherever that is."""
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


def _member_addresses(spec: LabSpec) -> Iterator[Found]:
    cidr = spec.networks.cluster.cidr
    taken: dict[Ip, str] = {}
    for path, member in _each_member(spec):
        if member.address is None:
            continue
        where, needs = f"{path}.address", (f"{path}.address", "networks.cluster.cidr")
        if member.address not in cidr or member.address in (cidr.network_address, cidr.broadcast_address):
            yield Problem(where, f"{member.address} is not an address for a host in {cidr}"), needs
        if (other := taken.setdefault(member.address, member.name)) != member.name:
            yield Problem(where, f"{member.address} is already the address of {other}", hint="give each its own"), needs


def _member_macs(spec: LabSpec) -> Iterator[Found]:
    taken: dict[str, str] = {}
    if spec.networks.cluster.bootstrap.mac is not None:
        taken[spec.networks.cluster.bootstrap.mac] = "the bootstrap VM"
    for path, member in _each_member(spec):
        for key, mac in (("mac", member.mac), ("cluster_mac", member.cluster_mac)):
            if mac is not None and mac in taken:
                yield Problem(f"{path}.{key}", f"{mac} is already the MAC of {taken[mac]}"), (f"{path}.{key}",)
            elif mac is not None:
                taken[mac] = member.name


def _doors(spec: LabSpec) -> Iterator[Found]:
    """Every BMC has a door of its own: an address, a port, and behind Redfish's the id of its system."""
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


def bmc_port(scheme: BmcScheme, bmc: MemberBmc) -> int:
    return bmc.port or (623 if scheme is BmcScheme.IPMI else 80 if bmc.http else 443)


def _each_member(spec: LabSpec) -> Iterator[tuple[str, Member]]:
    for prefix, group in spec.servers.items():
        for index, member in enumerate(group.members):
            yield f"servers.{prefix}.members.{index}", member


def _member_path(spec: LabSpec, name: str) -> str:
    return next(path for path, member in _each_member(spec) if member.name == name)


def _group_of(spec: LabSpec, name: str) -> str:
    return next(
        prefix for prefix, group in spec.servers.items() if name in (*group.names(prefix), *group.elastic_names(prefix))
    )


def _routes(spec: LabSpec) -> Iterator[Found]:
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


def _extra(spec: LabSpec) -> Iterator[Found]:
    tags: dict[int, str] = {}
    for name, extra in spec.networks.extra.items():
        if name in RESERVED_NAMES:
            yield Problem(f"networks.extra.{name}", f"the name {name} is taken by the lab itself"), ()
        if extra.vlan is not None:
            if extra.vlan in tags:
                path = f"networks.extra.{name}.vlan"
                yield Problem(path, f"{extra.vlan} is already the tag of {tags[extra.vlan]}"), ()
            tags[extra.vlan] = name


def _attach(spec: LabSpec) -> Iterator[Found]:
    """On a network of others nothing is taken that nobody named: its first addresses are somebody's."""
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


def _uplink(spec: LabSpec) -> Iterator[Found]:
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


def _images(spec: LabSpec) -> Iterator[Found]:
    if spec.image is not None:
        yield from ((problem, ()) for problem in image_problems(spec.image, "image"))
    for name, group in spec.servers.items():
        if group.image is not None:
            yield from ((problem, ()) for problem in image_problems(group.image, f"servers.{name}.image"))


def _groups(spec: LabSpec) -> Iterator[Found]:
    if members(spec):
        return  # a site has what it has
    control_planes = sum(group.count for group in spec.servers.values() if group.role is Role.CONTROL_PLANE)
    if control_planes not in (0, 1, 3, 5):
        problem = Problem(
            "servers",
            f"{control_planes} control planes cannot form a quorum that survives a loss",
            hint="use 1, 3 or 5, or none",
        )
        yield problem, ("servers.*.count", "servers.*.role", "profile")


def _elastic(spec: LabSpec) -> Iterator[Found]:
    for name, group in spec.servers.items():
        if group.elastic is None:
            continue
        path = f"servers.{name}.elastic"
        if group.role is Role.CONTROL_PLANE:
            yield (
                Problem(
                    path,
                    "control planes are not made on demand",
                    hint="make a group of workers or spare servers elastic",
                ),
                (f"servers.{name}.role",),
            )
        if group.members:
            yield Problem(path, "a site has the servers it has", hint="leave out elastic, or members"), ()
        elif group.elastic.max <= group.count:
            problem = Problem(
                f"{path}.max", f"the group has {group.count} servers already", hint=f"say {group.count + 1} or more"
            )
            yield problem, (f"servers.{name}.count",)
        if group.image is not None or spec.image is not None:
            yield Problem(path, "Machines give their hosts the node image", hint="leave out elastic, or image"), ()


def _firmware(spec: LabSpec) -> Iterator[Found]:
    for name, group in spec.servers.items():
        if group.secure_boot and group.firmware is ServerFirmware.BIOS:
            path = f"servers.{name}.secure_boot"
            yield Problem(path, "a BIOS has no secure boot", hint="use firmware: uefi"), (f"servers.{name}.firmware",)


def _names(spec: LabSpec) -> Iterator[Found]:
    for name, group in spec.servers.items():
        names = [*group.names(name), *group.elastic_names(name)] or [f"{name}-0"]
        longest = max(reversed(names), key=len) + f".{spec.name}.{spec.domain}"
        if len(longest) > 64:
            problem = Problem(
                f"servers.{name}",
                f"the host name {longest} has {len(longest)} characters; Linux takes 64",
                hint="shorten the group, the lab or the domain",
            )
            yield problem, ("name", "domain", f"servers.{name}.count")


def _discover(spec: LabSpec) -> Iterator[Found]:
    wanted = spec.networks.provisioning
    if wanted.discover is Discover.OFF:
        return
    path = "networks.provisioning.discover"
    if wanted.mode is not Provisioning.MANAGED:
        words = f"nobody could boot from a network whose mode is {wanted.mode}"
        yield Problem(path, words, hint="make the mode managed"), ("networks.provisioning.mode",)
    if spec.provisioner is not None:
        words = "servers are discovered by the lab's own Ironic, and provisioner names another"
        yield Problem(path, words, hint="leave it out"), ("provisioner",)


def _network_boot(spec: LabSpec) -> Iterator[Found]:
    mode = spec.networks.provisioning.mode
    for name, group in spec.servers.items():
        if group.boot is WayToBoot.MEDIA:
            if group.bmc is BmcProtocol.IPMI:
                words = "IPMI knows no virtual media"
                problem = Problem(
                    f"servers.{name}.boot", words, hint=f"use boot: {WayToBoot.NETWORK}, or bmc: {BmcProtocol.REDFISH}"
                )
                yield problem, (f"servers.{name}.bmc",)
            continue
        media = f"boot: {WayToBoot.MEDIA}"
        if mode is Provisioning.DISABLED or (mode is Provisioning.UNMANAGED and not group.members):
            problem = Problem(
                f"servers.{name}.boot",
                f"{name} boots over the network, and networks.provisioning.mode is {mode}",
                hint=f"leave the mode out or make it managed, or use {media}",
            )
            yield problem, ("networks.provisioning.mode",)
        if spec.provisioner is not None:
            problem = Problem(
                f"servers.{name}.boot",
                f"{name} boots over the network with the lab's own Ironic, and provisioner names another",
                hint=f"use {media}",
            )
            yield problem, ("provisioner",)
        if group.secure_boot:
            problem = Problem(
                f"servers.{name}.secure_boot",
                f"{name} boots over the network by iPXE, which is not signed",
                hint=f"use {media}",
            )
            yield problem, (f"servers.{name}.bmc", f"servers.{name}.boot")


def _install(spec: LabSpec) -> Iterator[Found]:
    """What a bootstrap machine of ours cannot do yet."""
    if spec.cluster.method is not Method.IPI:
        return
    needs = ("cluster.method",)
    if not any(group.role is Role.CONTROL_PLANE and group.names(name) for name, group in spec.servers.items()):
        yield Problem("servers", "an install needs a control plane", hint="give a group the role control-plane"), needs
    if spec.provisioner is not None:
        yield Problem("provisioner", "an install brings its own Ironic", hint="leave it out"), needs
    for name, group in spec.servers.items():
        if group.scheme is BmcScheme.IPMI:
            words = f"the bootstrap of an install speaks Redfish only, and not {group.scheme}"
            hint = f"use bmc: {BmcScheme.REDFISH}, or cluster.method: {Method.DIRECT}"
            yield Problem(f"servers.{name}.bmc", words, hint=hint), needs


def _metal(spec: LabSpec) -> Iterator[Found]:
    """Hosts that the lab did not make are told apart from its servers, and from each other."""
    servers = {
        name for prefix, group in spec.servers.items() for name in (*group.names(prefix), *group.elastic_names(prefix))
    }
    macs: dict[str, str] = {member.mac: member.name for _, member in _each_member(spec) if member.mac is not None}
    bmcs: dict[str, str] = {}
    for name, host in spec.hosts.items():
        path = f"hosts.{name}"
        if name in servers:
            yield Problem(path, f"{name} is a server of the lab already", hint="call one of them otherwise"), PLACES
        for key, value, taken in (("mac", host.mac, macs), ("bmc", host.bmc, bmcs)):
            if value in taken:
                yield Problem(f"{path}.{key}", f"{value} is already that of {taken[value]}"), (f"{path}.{key}",)
            taken.setdefault(value, name)
        if spec.cluster.method is not Method.DIRECT:
            problem = Problem(
                path, "an install that is not the lab's own takes the lab's own servers only", hint="leave `hosts` out"
            )
            yield problem, ("cluster.method",)


def _storage(spec: LabSpec) -> Iterator[Found]:
    if spec.storage is not None and not spec.storage.is_absolute():
        yield Problem("storage", f"{spec.storage} is not an absolute path"), ()


_RULES = (
    _overlaps, _room, _places, _addresses, _range, _member_addresses, _member_macs, _doors, _routes, _extra, _groups,
    _elastic, _firmware, _names, _network_boot, _discover, _install, _images, _storage,
    _uplink, _attach, _metal,
)  # fmt: skip
