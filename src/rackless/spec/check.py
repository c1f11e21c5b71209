"""What types alone cannot say: rules between the fields of a lab. Pure; returns every problem it finds.

A rule says which fields its finding rests on. In a lab with fields that could not be read, what rests on those is not said:
it would be about a default that nobody asked for. The rest is, so that a file is mended once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rackless.errors import Problem
from rackless.spec.address import Ip, IpNetwork
from rackless.spec.images import image_problems
from rackless.spec.lab import LabSpec, Role
from rackless.spec.networks import BmcAccess, Provisioning
from rackless.spec.servers import BmcScheme, Firmware

BMC_ROUTER = 2
INGRESS_VIP = 4
API_VIP = 5
BOOTSTRAP = 9
RANGE = (10, 19)
FIRST_SERVER = 20
"""Servers start at this address of their network; below it are the gateway, the VIPs and the bootstrap."""

RESERVED_NAMES = ("cluster", "baremetal", "bmc", "provisioning", "virbr0", "lo", "uplink")


Found = tuple[Problem, tuple[str, ...]]
"""A problem, and the fields it rests on; `*` stands for any name."""

PLACES = ("servers.*.count", "servers.*.first")
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
    """The host number of every server by name: its place in every network. A group may say where it begins."""
    claimed = {
        number
        for group in spec.servers.values()
        if group.first is not None
        for number in range(group.first, group.first + group.count)
    }
    found: dict[str, int] = {}
    following = FIRST_SERVER
    for prefix, group in spec.servers.items():
        for index in range(group.count):
            if group.first is not None:
                found[f"{prefix}-{index}"] = group.first + index
                continue
            while following in claimed:
                following += 1
            found[f"{prefix}-{index}"] = following
            following += 1
    return found


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
    places = numbers(spec)
    highest = max(places.values(), default=FIRST_SERVER)
    for path, cidr in _networks(spec).items():
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
    for name, number in numbers(spec).items():
        if number in taken:
            path = f"servers.{name.rpartition('-')[0]}.first"
            words = f"{name} would have the number {number} of {taken[number]}"
            yield Problem(path, words, hint="let the groups begin further apart"), PLACES
            return
        taken[number] = name


def _purposes(spec: LabSpec) -> list[tuple[str, Ip, tuple[str, ...]]]:
    """Addresses with a purpose: where each comes from, and what that rests on."""
    cluster, bmc = spec.networks.cluster, spec.networks.bmc
    cidr, base = cluster.cidr, "networks.cluster"
    found: list[tuple[str, Ip, tuple[str, ...]]] = [("the gateway", cidr[1], ())]
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
    if cidr.num_addresses <= FIRST_SERVER:
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
    if cidr.num_addresses <= FIRST_SERVER:
        return
    path = "networks.cluster.bootstrap.range"
    needs = (path, "networks.cluster.cidr")
    first, last = _given_away(spec)
    if first not in cidr or last not in cidr:
        yield Problem(path, f"{first}-{last} is not inside {cidr}"), needs
    elif inside := [name for address, name in _server_addresses(spec).items() if _between(first, address, last)]:
        yield Problem(path, f"{first}-{last} overlaps the addresses of {', '.join(inside[:3])}"), (*needs, *PLACES)


def _between(first: Ip, address: Ip, last: Ip) -> bool:
    return first.version == address.version and int(first) <= int(address) <= int(last)


def _given_away(spec: LabSpec) -> tuple[Ip, Ip]:
    cluster = spec.networks.cluster
    return cluster.bootstrap.range or (cluster.cidr[RANGE[0]], cluster.cidr[RANGE[1]])


def _server_addresses(spec: LabSpec) -> dict[Ip, str]:
    cidr = spec.networks.cluster.cidr
    return {cidr[number]: name for name, number in numbers(spec).items() if number < cidr.num_addresses}


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


def _images(spec: LabSpec) -> Iterator[Found]:
    if spec.image is not None:
        yield from ((problem, ()) for problem in image_problems(spec.image, "image"))
    for name, group in spec.servers.items():
        if group.image is not None:
            yield from ((problem, ()) for problem in image_problems(group.image, f"servers.{name}.image"))


def _groups(spec: LabSpec) -> Iterator[Found]:
    control_planes = sum(group.count for group in spec.servers.values() if group.role is Role.CONTROL_PLANE)
    if control_planes not in (0, 1, 3, 5):
        problem = Problem(
            "servers",
            f"{control_planes} control planes cannot form a quorum that survives a loss",
            hint="use 1, 3 or 5, or none",
        )
        yield problem, ("servers.*.count", "servers.*.role", "profile")
    for name, group in spec.servers.items():
        if group.secure_boot and group.firmware is Firmware.BIOS:
            path = f"servers.{name}.secure_boot"
            yield Problem(path, "a BIOS has no secure boot", hint="use firmware: uefi"), (f"servers.{name}.firmware",)


def _names(spec: LabSpec) -> Iterator[Found]:
    for name, group in spec.servers.items():
        longest = f"{name}-{max(group.count - 1, 0)}.{spec.name}.{spec.domain}"
        if len(longest) > 64:
            problem = Problem(
                f"servers.{name}",
                f"the host name {longest} has {len(longest)} characters; Linux takes 64",
                hint="shorten the group, the lab or the domain",
            )
            yield problem, ("name", "domain", f"servers.{name}.count")


def _network_boot(spec: LabSpec) -> Iterator[Found]:
    mode = spec.networks.provisioning.mode
    for name, group in spec.servers.items():
        if not group.bmc.boots_over_network:
            continue
        media = f"bmc: {BmcScheme.REDFISH_VIRTUALMEDIA}"
        if mode is not Provisioning.MANAGED:
            problem = Problem(
                f"servers.{name}.bmc",
                f"{group.bmc} boots over the network, and networks.provisioning.mode is {mode}",
                hint=f"leave the mode out or make it managed, or use {media}",
            )
            yield problem, ("networks.provisioning.mode",)
        if spec.provisioner is not None:
            problem = Problem(
                f"servers.{name}.bmc",
                f"{group.bmc} boots over the network with the lab's own Ironic, and provisioner names another",
                hint=f"use {media}",
            )
            yield problem, ("provisioner",)
        if group.secure_boot:
            problem = Problem(
                f"servers.{name}.secure_boot",
                f"{group.bmc} boots over the network by iPXE, which is not signed",
                hint=f"use {media}",
            )
            yield problem, (f"servers.{name}.bmc",)


def _storage(spec: LabSpec) -> Iterator[Found]:
    if spec.storage is not None and not spec.storage.is_absolute():
        yield Problem("storage", f"{spec.storage} is not an absolute path"), ()


_RULES = (
    _overlaps, _room, _places, _addresses, _range, _routes, _extra, _groups, _names, _network_boot, _images, _storage,
)  # fmt: skip
