"""What types alone cannot say: rules between the fields of a lab. Pure; returns every problem it finds."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from rackless.errors import Problem
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


def find_problems(spec: LabSpec) -> Iterator[Problem]:
    yield from _overlaps(spec)
    yield from _room(spec)
    yield from _addresses(spec)
    yield from _routes(spec)
    yield from _extra(spec)
    yield from _servers(spec)


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


def _networks(spec: LabSpec) -> dict[str, IPv4Network]:
    networks = spec.networks
    named = {"networks.cluster.cidr": networks.cluster.cidr, "networks.bmc.cidr": networks.bmc.cidr}
    if networks.provisioning.mode is not Provisioning.DISABLED:
        named["networks.provisioning.cidr"] = networks.provisioning.cidr
    return named | {f"networks.extra.{name}.cidr": extra.cidr for name, extra in networks.extra.items()}


def _overlaps(spec: LabSpec) -> Iterator[Problem]:
    seen: list[tuple[str, IPv4Network]] = []
    for path, cidr in _networks(spec).items():
        for other, taken in seen:
            if cidr.overlaps(taken):
                yield Problem(path, f"{cidr} overlaps {other} {taken}", hint="give each its own")
        seen.append((path, cidr))


def _room(spec: LabSpec) -> Iterator[Problem]:
    places = numbers(spec)
    highest = max(places.values(), default=FIRST_SERVER)
    for path, cidr in _networks(spec).items():
        if highest > cidr.num_addresses - 2:
            room = max(cidr.num_addresses - 1 - FIRST_SERVER, 0)
            yield Problem(
                path,
                f"{cidr} has room for {room} servers, the lab has {len(places)}"
                if len(places) > room
                else f"{cidr} has no address number {highest}",
                hint=f"servers start at the {FIRST_SERVER}th address; use a larger network",
            )
    taken: dict[int, str] = {}
    for name, number in places.items():
        if number in taken:
            group = name.rpartition("-")[0]
            yield Problem(
                f"servers.{group}.first",
                f"{name} would have the number {number} of {taken[number]}",
                hint="let the groups begin further apart",
            )
            return
        taken[number] = name


def _addresses(spec: LabSpec) -> Iterator[Problem]:
    """Addresses with a purpose lie in the network and belong to one purpose only."""
    cluster, cidr = spec.networks.cluster, spec.networks.cluster.cidr
    if cidr.num_addresses <= FIRST_SERVER:
        return  # said already
    base = "networks.cluster"
    purposes: list[tuple[str, IPv4Address]] = [("the gateway", cidr[1])]
    if spec.networks.bmc.access is BmcAccess.ROUTED:
        purposes.append(("networks.bmc.router", spec.networks.bmc.router or cidr[BMC_ROUTER]))
    purposes += [
        (f"{base}.ingress_vip", cluster.ingress_vip or cidr[INGRESS_VIP]),
        (f"{base}.api_vip", cluster.api_vip or cidr[API_VIP]),
        (f"{base}.bootstrap.address", cluster.bootstrap.address or cidr[BOOTSTRAP]),
    ]
    first, last = cluster.bootstrap.range or (cidr[RANGE[0]], cidr[RANGE[1]])
    servers = {cidr[number]: name for name, number in numbers(spec).items() if number < cidr.num_addresses}
    for index, (path, address) in enumerate(purposes):
        if address not in cidr or address in (cidr.network_address, cidr.broadcast_address):
            yield Problem(path, f"{address} is not an address for a host in {cidr}", hint=f"choose one of {cidr}")
        elif first <= address <= last:
            yield Problem(path, f"{address} is in the range {first}-{last} that DHCP gives away")
        elif address in servers:
            yield Problem(path, f"{address} is the address of the server {servers[address]}")
        for other, taken in purposes[:index]:
            if address == taken:
                yield Problem(path, f"{address} is already {other}", hint="give each its own")
    path = f"{base}.bootstrap.range"
    if first not in cidr or last not in cidr:
        yield Problem(path, f"{first}-{last} is not inside {cidr}")
    elif inside := [name for address, name in servers.items() if first <= address <= last]:
        yield Problem(path, f"{first}-{last} overlaps the addresses of {', '.join(inside[:3])}")


def _routes(spec: LabSpec) -> Iterator[Problem]:
    known = {"bootstrap", *spec.servers}
    for index, route in enumerate(spec.networks.cluster.routes):
        path = f"networks.cluster.routes.{index}"
        if route.via not in spec.networks.cluster.cidr:
            yield Problem(f"{path}.via", f"{route.via} is not in {spec.networks.cluster.cidr}, so nobody reaches it")
        for name in route.audience:
            if name not in known:
                yield Problem(
                    f"{path}.audience", f"there is no group {name}", hint=f"known: {', '.join(sorted(known))}"
                )


def _extra(spec: LabSpec) -> Iterator[Problem]:
    tags: dict[int, str] = {}
    for name, extra in spec.networks.extra.items():
        if name in RESERVED_NAMES:
            yield Problem(f"networks.extra.{name}", f"the name {name} is taken by the lab itself")
        if extra.vlan is not None:
            if extra.vlan in tags:
                yield Problem(f"networks.extra.{name}.vlan", f"{extra.vlan} is already the tag of {tags[extra.vlan]}")
            tags[extra.vlan] = name


def _servers(spec: LabSpec) -> Iterator[Problem]:
    control_planes = sum(group.count for group in spec.servers.values() if group.role is Role.CONTROL_PLANE)
    if control_planes not in (0, 1, 3, 5):
        yield Problem(
            "servers",
            f"{control_planes} control planes cannot form a quorum that survives a loss",
            hint="use 1, 3 or 5, or none",
        )
    for name, group in spec.servers.items():
        longest = f"{name}-{max(group.count - 1, 0)}.{spec.name}.{spec.domain}"
        if len(longest) > 64:
            yield Problem(
                f"servers.{name}",
                f"the host name {longest} has {len(longest)} characters; Linux takes 64",
                hint="shorten the group, the lab or the domain",
            )
        if group.secure_boot and group.firmware is Firmware.BIOS:
            yield Problem(f"servers.{name}.secure_boot", "a BIOS has no secure boot", hint="use firmware: uefi")
        if group.bmc.boots_over_network:
            yield from _network_boot(spec, name)
    if spec.storage is not None and not spec.storage.is_absolute():
        yield Problem("storage", f"{spec.storage} is not an absolute path")


def _network_boot(spec: LabSpec, name: str) -> Iterator[Problem]:
    group, mode = spec.servers[name], spec.networks.provisioning.mode
    if mode is not Provisioning.MANAGED:
        yield Problem(
            f"servers.{name}.bmc",
            f"{group.bmc} boots over the network, and networks.provisioning.mode is {mode}",
            hint=f"leave the mode out or make it managed, or use bmc: {BmcScheme.REDFISH_VIRTUALMEDIA}",
        )
    if group.secure_boot:
        yield Problem(
            f"servers.{name}.secure_boot",
            f"{group.bmc} boots over the network by iPXE, which is not signed",
            hint=f"use bmc: {BmcScheme.REDFISH_VIRTUALMEDIA}",
        )
