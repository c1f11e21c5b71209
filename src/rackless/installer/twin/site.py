"""Config → Twin: the lab that has a site's addresses, names, MACs and BMCs. Pure.

What the file says is taken as it is; what it cannot say is decided by `Wishes`, and told as a comment; what a lab cannot be is
refused, all reasons at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from urllib.parse import urlsplit

from rackless.errors import InputError
from rackless.installer.install_config import bmc_address
from rackless.installer.install_config.building import struct, structs, text, texts
from rackless.installer.install_config.config import DISABLED, UNMANAGED, BareMetalPlatform, Config, HostEntry
from rackless.installer.install_config.values import Cidr, parse_ip, parse_mac
from rackless.installer.twin import nmstate, root_disks
from rackless.installer.twin.places import Places
from rackless.spec.networks import BmcAccess, Dhcp, Provisioning
from rackless.spec.servers import BmcScheme, Role, ServerFirmware

_SYSTEMS = "/redfish/v1/Systems/"
_LAB_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?")
_SCHEMES = {
    "ipmi": BmcScheme.IPMI,
    "libvirt": BmcScheme.IPMI,
    "redfish": BmcScheme.REDFISH,
    "ilo5-redfish": BmcScheme.REDFISH,
    "idrac-redfish": BmcScheme.REDFISH,
    "redfish-virtualmedia": BmcScheme.REDFISH_VIRTUALMEDIA,
    "ilo5-virtualmedia": BmcScheme.REDFISH_VIRTUALMEDIA,
    "idrac-virtualmedia": BmcScheme.REDFISH_VIRTUALMEDIA,
}
_ROLES = {
    "master": (Role.CONTROL_PLANE, "master"),
    "arbiter": (Role.WORKER, "arbiter"),
    "worker": (Role.WORKER, "worker"),
}
_Kind = tuple[str, BmcScheme, ServerFirmware, bool, int, bool]
"""What servers of one group have in common: role, BMC, firmware, secure boot, further NICs, virtio disks."""
_BMC_NETWORKS = tuple(IPv4Network(f"192.168.{number}.0/24") for number in range(112, 120))
"""One of these where every BMC is in the machine network itself, or is known by a name only."""


ARBITERS = "arbiters are workers to the lab"


class NoTwin(InputError):
    """A lab cannot be this site."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What an install-config cannot say."""

    name: str | None = None
    """The lab's name; without it the cluster's."""
    dhcp: Dhcp = Dhcp.INSTALLER
    bmc_access: BmcAccess = BmcAccess.DIRECT
    gateway: IPv4Address | None = None
    """The router of the machine network; without it what hosts or the bootstrap say, else the first address."""


@dataclass(frozen=True, slots=True)
class TwinBmc:
    address: IPv4Address
    port: int
    http: bool
    system: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TwinServer:
    name: str
    mac: str
    cluster_mac: str
    address: IPv4Address
    bmc: TwinBmc
    disk_serial: str = ""


@dataclass(frozen=True, slots=True)
class TwinGroup:
    name: str
    role: Role
    scheme: BmcScheme
    firmware: ServerFirmware
    secure_boot: bool
    extra_nics: int
    virtio: bool
    """Whether disks are /dev/vda and so on."""
    servers: tuple[TwinServer, ...]


@dataclass(frozen=True, slots=True)
class TwinProvisioning:
    mode: Provisioning
    cidr: IPv4Network | None = None
    gateway: IPv4Address | None = None
    bridge: str = "provisioning"


@dataclass(frozen=True, slots=True)
class Twin:
    name: str
    cluster: str
    base_domain: str
    machine: IPv4Network
    gateway: IPv4Address
    gateway_why: str
    bridge: str
    api_vip: IPv4Address
    ingress_vip: IPv4Address
    dhcp: Dhcp
    bootstrap_mac: str
    bootstrap_address: IPv4Address
    bootstrap_range: tuple[IPv4Address, IPv4Address]
    bmc_network: IPv4Network
    bmc_access: BmcAccess
    provisioning: TwinProvisioning
    groups: tuple[TwinGroup, ...]
    records: dict[str, tuple[IPv4Address, str]]
    """Names that must resolve: where to, and what they are at the site."""
    aliases: tuple[IPv4Address, ...]
    """Where the lab's gateway answers besides during a rehearsal: the site's name servers, and its other routers."""
    deviations: tuple[str, ...]

    @property
    def servers(self) -> tuple[TwinServer, ...]:
        return tuple(server for group in self.groups for server in group.servers)

    @property
    def domain(self) -> str:
        return f"{self.cluster}.{self.base_domain}"


def make_twin(config: Config, wishes: Wishes = Wishes()) -> Twin:  # noqa: B008  (frozen)
    """Raises NoTwin with every reason."""
    metal = config.metal
    reasons = list(_refusals(config))
    if reasons or metal is None:
        raise _no_twin(reasons)
    machine = _four(config.networking.machine_cidrs[0])
    assert machine is not None
    networks = {host.name: nmstate.read(host.network_config, machine) for host in config.hosts}
    gateway, why = _gateway(metal, machine, networks, wishes)
    api, ingress = (IPv4Address(vips[0]) for vips in (metal.api_vips, metal.ingress_vips))
    addresses = [parse_ip(bmc_address.parse(host.bmc_address).host) for host in config.hosts]
    at_site = [address for address in addresses if isinstance(address, IPv4Address)]
    static = parse_ip(metal.static_ip)
    own = [network.address for network in networks.values() if network.address is not None]
    aliases = tuple(gateway_aliases(config, gateway, {api, ingress, *at_site, *own, static}))
    places = Places(machine, {gateway, api, ingress, *at_site, *own, *aliases})
    bootstrap = static if isinstance(static, IPv4Address) and static in machine else places.bootstrap()
    if bootstrap is not None:
        places.claim(bootstrap)
    provisioning = _provisioning(metal)
    bmc_network = _bmc_network(at_site, [machine, *([provisioning.cidr] if provisioning.cidr else [])])
    named = Places(bmc_network, {bmc_network[1], *at_site})
    records: dict[str, tuple[IPv4Address, str]] = dict(_names(config, gateway))
    roles = dict(_roles(config))
    disks = root_disks.read_hints(config)
    found: list[tuple[_Kind, TwinServer]] = []
    deviations = list(_deviations(config, networks, disks))
    if aliases:
        deviations.append(
            f"{', '.join(map(str, aliases))}: name servers and routers of the site, and the lab's gateway in a rehearsal"
        )
    for host in config.hosts:
        address = bmc_address.parse(host.bmc_address)
        place = parse_ip(address.host)
        if not isinstance(place, IPv4Address):
            known = records.get(f"{address.host.lower()}.")
            place = known[0] if known else named.take(20)
            if place is None:
                reasons.append(f"{bmc_network} has no address left for the BMC {address.host}")
                continue
            records[f"{address.host.lower()}."] = (place, "a BMC")
        network = networks[host.name]
        reserved = network.address or places.server()
        if reserved is None:
            reasons.append(f"{machine} has no address left for {host.name}")
            continue
        scheme = _SCHEMES[address.name]
        secure = host.boot_mode == "UEFISecureBoot" and not scheme.boots_over_network
        firmware = ServerFirmware.BIOS if host.boot_mode == "legacy" else ServerFirmware.UEFI
        system = address.path.strip("/").removeprefix(_SYSTEMS.strip("/")).strip("/") or "1"
        bmc = TwinBmc(
            place, address.port, address.transport == "http", system, host.bmc_username or "admin", host.bmc_password
        )
        mac = parse_mac(host.boot_mac) or ""
        cluster_mac = (parse_mac(network.mac) or "") if provisioning.mode is not Provisioning.DISABLED else ""
        hints = disks.get(host.name, {})
        server = TwinServer(
            host.name, mac, "" if cluster_mac == mac else cluster_mac, reserved, bmc, root_disks.serial(hints)
        )
        kind = (roles[host.name], scheme, firmware, secure, network.nics - 1, root_disks.is_virtio(hints))
        found.append((kind, server))
    free = places.range() if bootstrap is not None else None
    if bootstrap is None or free is None:
        reasons.append(f"{machine} has no address left for the bootstrap VM")
    reasons += _conflicts(config)
    if wishes.bmc_access is BmcAccess.ROUTED and (near := [one for one in at_site if one in machine]):
        reasons.append(f"BMCs in the machine network, as {near[0]}, cannot be behind a router of their own")
    if reasons:
        raise _no_twin(reasons)
    assert bootstrap is not None and free is not None
    name = wishes.name or config.name
    if not _LAB_NAME.fullmatch(name):
        name = "twin"
    if name != config.name:
        domain = f"{config.name}.{config.base_domain.rstrip('.')}"
        for alias, vip in (("api", api), ("api-int", api), ("*.apps", ingress)):
            records[f"{alias}.{domain}."] = (vip, "the cluster's own name, which is not the lab's")
    return Twin(
        name=name,
        cluster=config.name,
        base_domain=config.base_domain.rstrip("."),
        machine=machine,
        gateway=gateway,
        gateway_why=why,
        bridge=metal.external_bridge,
        api_vip=api,
        ingress_vip=ingress,
        dhcp=wishes.dhcp,
        bootstrap_mac=parse_mac(metal.external_mac) or "",
        bootstrap_address=bootstrap,
        bootstrap_range=free,
        bmc_network=bmc_network,
        bmc_access=wishes.bmc_access,
        provisioning=provisioning,
        groups=tuple(_grouped(found)),
        records=records,
        aliases=aliases,
        deviations=tuple(_together(deviations)),
    )


def _no_twin(reasons: Sequence[str]) -> NoTwin:
    return NoTwin(
        "this install-config cannot have a twin",
        why="\n".join(dict.fromkeys(reasons)),
        hint="`rackless check install-config FILE` finds what the installer itself would refuse",
    )


def _refusals(config: Config) -> Iterator[str]:
    """What a lab cannot be, or what is no site yet."""
    metal = config.metal
    if metal is None:
        yield f"its platform is {config.platform or 'missing'}, and a lab is bare metal (platform.baremetal)"
        return
    cidrs = config.networking.machine_cidrs
    if any(cidr.version == 6 for cidr in cidrs):
        both = len({cidr.version for cidr in cidrs}) == 2
        yield "it is dual stack, and labs are IPv4 only" if both else "its machine network is IPv6, and labs are IPv4"
    elif len(cidrs) != 1:
        yield f"it has {len(cidrs)} machine networks, and a lab has one"
    elif cidrs[0].prefix > 28:
        yield f"its machine network {cidrs[0]} has no room for hosts, VIPs, a gateway and a bootstrap"
    if config.networking.dual_stack:
        yield "it is dual stack, and labs are IPv4 only"
    for pool in (config.control_plane, *config.compute, *([config.arbiter] if config.arbiter else [])):
        if pool.architecture not in ("", "amd64"):
            yield f"its {pool.name} machines are {pool.architecture}, and a lab's servers are x86_64"
    if metal.bgp:
        yield "its VIPs are announced by BGP, and a lab has no router that speaks it"
    if not metal.disabled and metal.cidr is not None and metal.cidr.version == 6:
        yield f"its provisioning network {metal.cidr} is IPv6, and labs are IPv4"
    yield from _vip_refusals(metal, cidrs)
    yield from _bridge_refusals(metal)
    if not config.hosts:
        yield "it has no hosts"
    for host in config.hosts:
        yield from _host_refusals(host)


def _vip_refusals(metal: BareMetalPlatform, cidrs: Sequence[Cidr]) -> Iterator[str]:
    for what, vips in (("API", metal.api_vips), ("ingress", metal.ingress_vips)):
        if not vips:
            yield f"it names no VIP for {what}, and its name at the site is not known here"
            continue
        vip = parse_ip(vips[0])
        if vip is None:
            yield f"the VIP for {what} {vips[0]!r} is not an address"
        elif what == "ingress" and metal.user_managed and vips[0] in metal.api_vips:
            yield f"API and ingress share the VIP {vip} (a load balancer of the site's own), and a lab has one for each"
        elif vip.version == 4 and cidrs and not any(vip in cidr for cidr in cidrs):
            balancer = " (a load balancer of the site's own)" if metal.user_managed else ""
            yield f"the VIP for {what} {vip} is outside the machine network{balancer}, where a lab has nobody"


def _bridge_refusals(metal: BareMetalPlatform) -> Iterator[str]:
    own = ("bmc", "virbr0", "lo", "baremetal-up", "baremetal-down", "cluster", "uplink", "attached")
    named = {"externalBridge": metal.external_bridge}
    if not metal.disabled:
        named["provisioningBridge"] = metal.provisioning_bridge
        if metal.external_bridge == metal.provisioning_bridge:
            yield f"externalBridge and provisioningBridge are both {metal.external_bridge}, and these are two networks"
    for field_, name in named.items():
        if name in own:
            yield f"its {field_} is {name}, and a lab has a link of its own that is called so"


def _host_refusals(host: HostEntry) -> Iterator[str]:
    try:
        address = bmc_address.parse(host.bmc_address)
    except bmc_address.BmcAddressError as error:
        yield f"the BMC of {host.name or host.at}: {error}"
        return
    if address.name not in _SCHEMES:
        yield f"the BMC of {host.name} is of type {address.name}, which a lab's BMCs do not speak (they speak Redfish and IPMI)"
    place = parse_ip(address.host)
    if place is not None and place.version == 6:
        yield f"the BMC of {host.name} is at {place}, and labs are IPv4"
    if not address.host:
        yield f"the BMC address of {host.name} names no host"
    path = address.path.rstrip("/")
    if address.is_redfish and path and not re.fullmatch(re.escape(_SYSTEMS) + r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", path):
        yield f"the BMC of {host.name} has its system at {address.path}, and a lab's are at {_SYSTEMS}ID"
    if parse_mac(host.boot_mac) is None:
        yield f"bootMACAddress of {host.name} {host.boot_mac!r} is not a MAC"
    if not re.fullmatch(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?", host.name):
        yield f"{host.name!r} is not a host's name"


def _conflicts(config: Config) -> Iterator[str]:
    """What no real site can have either: one service with two passwords for one user."""
    accounts: dict[tuple[str, int, str], tuple[str, str]] = {}
    for host in config.hosts:
        address = bmc_address.parse(host.bmc_address)
        if not address.is_redfish:
            continue
        key = (address.host.lower(), address.port, host.bmc_username)
        other, password = accounts.setdefault(key, (host.name, host.bmc_password))
        if password != host.bmc_password:
            yield (
                f"the BMCs of {other} and {host.name} are one service at {address.host}:{address.port}, "
                f"where {host.bmc_username} cannot have two passwords"
            )


def _four(cidr: Cidr) -> IPv4Network | None:
    return cidr.network if isinstance(cidr.network, IPv4Network) else None


def _gateway(
    metal: BareMetalPlatform, machine: IPv4Network, networks: dict[str, nmstate.HostNetwork], wishes: Wishes
) -> tuple[IPv4Address, str]:
    if wishes.gateway is not None:
        return wishes.gateway, "as told by --gateway"
    for name, network in networks.items():
        if network.gateway is not None:
            return network.gateway, f"the default route of {name}"
    static = parse_ip(metal.static_gateway)
    if isinstance(static, IPv4Address) and static in machine:
        return static, "the gateway of the bootstrap VM"
    return machine[1], "the file names none: the first address; --gateway says another"


def gateway_aliases(config: Config, gateway: IPv4Address, taken: Collection[object]) -> Iterator[IPv4Address]:
    """Name servers and routers of the site that are nobody in its twin: who asks them there must find somebody. `taken` are the
    addresses of others."""
    metal = config.metal
    machine = _four(config.networking.machine_cidrs[0]) if config.networking.machine_cidrs else None
    if metal is None or machine is None:
        return
    wanted: list[object] = [parse_ip(one) for one in re.split(r"[,; ]+", metal.static_dns) if one]
    if isinstance(router := parse_ip(metal.static_gateway), IPv4Address) and router in machine:
        wanted.append(router)
    for host in config.hosts:
        network = nmstate.read(host.network_config, machine)
        wanted += [*network.name_servers, network.gateway]
    for one in dict.fromkeys(wanted):
        if isinstance(one, IPv4Address) and one != gateway and one not in taken and not one.is_loopback:
            yield one


def _provisioning(metal: BareMetalPlatform) -> TwinProvisioning:
    if metal.provisioning == DISABLED or metal.cidr is None:
        return TwinProvisioning(Provisioning.DISABLED)
    cidr = _four(metal.cidr)
    assert cidr is not None
    used = {parse_ip(metal.bootstrap_ip), parse_ip(metal.cluster_ip)}
    first, _, last = metal.dhcp_range.partition(",")
    begin, end = parse_ip(first), parse_ip(last)
    given = parse_ip(metal.gateway)
    if isinstance(given, IPv4Address):
        own: IPv4Address | None = given
    else:
        own = next(
            (
                address
                for address in cidr.hosts()
                if address not in used and not (begin and end and int(begin) <= int(address) <= int(end))
            ),
            None,
        )
    mode = Provisioning.UNMANAGED if metal.provisioning == UNMANAGED else Provisioning.MANAGED
    return TwinProvisioning(mode, cidr, own, metal.provisioning_bridge)


def _bmc_network(addresses: Sequence[IPv4Address], others: Sequence[IPv4Network]) -> IPv4Network:
    """Around the first BMC outside the other networks; further ones need no network, only their addresses."""
    for address in addresses:
        if any(address in other for other in others):
            continue
        for prefix in range(24, 31):
            network = IPv4Network(f"{address}/{prefix}", strict=False)
            if not any(network.overlaps(other) for other in others):
                return network
    return next(one for one in _BMC_NETWORKS if not any(one.overlaps(other) for other in others))


def _names(config: Config, gateway: IPv4Address) -> Iterator[tuple[str, tuple[IPv4Address, str]]]:
    """Names of the site that must resolve: NTP servers, proxies, mirrors. In the lab they are the gateway."""
    metal = config.metal
    assert metal is not None
    wanted = [(server, "a time server; the lab's own answers") for server in metal.ntp_servers]
    proxy = struct(config.values, "proxy")
    for key in ("httpProxy", "httpsProxy"):
        if host := urlsplit(text(proxy, key)).hostname:
            wanted.append((host, "a proxy; nobody answers there"))
    for key in ("imageDigestSources", "imageContentSources"):
        for entry in structs(config.values, key):
            for mirror in texts(entry, "mirrors"):
                wanted.append((mirror.partition("/")[0].partition(":")[0], "a mirror; nobody answers there"))
    for host, what in wanted:
        if parse_ip(host) is None and re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?", host):
            yield f"{host.lower().rstrip('.')}.", (gateway, what)


def _roles(config: Config) -> Iterator[tuple[str, str]]:
    """Hosts without a role fill masters, then arbiters, then workers, as the installer does."""
    left = {
        "master": config.control_plane.replicas - sum(host.role == "master" for host in config.hosts),
        "arbiter": (config.arbiter.replicas if config.arbiter else 0)
        - sum(host.role == "arbiter" for host in config.hosts),
    }
    for host in config.hosts:
        if host.has_role:
            yield host.name, host.role
            continue
        role = next((role for role, count in left.items() if count > 0), "worker")
        if role in left:
            left[role] -= 1
        yield host.name, role


def _grouped(found: Sequence[tuple[_Kind, TwinServer]]) -> Iterator[TwinGroup]:
    """Servers of one kind together; a group is called after its role, with a number where there are several."""
    keys = list(dict.fromkeys(key for key, _ in found))
    for key in keys:
        role, scheme, firmware, secure, nics, virtio = key
        alike = [other for other in keys if other[0] == role]
        name = role if len(alike) == 1 else f"{role}-{alike.index(key) + 1}"
        servers = tuple(server for other, server in found if other == key)
        yield TwinGroup(name, _ROLES[role][0], scheme, firmware, secure, nics, virtio, servers)


def _deviations(
    config: Config, networks: dict[str, nmstate.HostNetwork], disks: dict[str, root_disks.Hints]
) -> Iterator[str]:
    """What the lab has otherwise than the site, and what is therefore not proven."""
    metal = config.metal
    assert metal is not None
    if metal.libvirt_uri != "qemu:///system":
        yield "libvirtURI: the lab's own libvirt is used instead of the one the file names"
    for host in config.hosts:
        network = networks[host.name]
        if network.vlan is not None:
            yield f"{host.name}: its address is on VLAN {network.vlan}; in the lab the machine network is untagged"
        elif network.kind not in ("", "ethernet"):
            yield f"{host.name}: its address is on a {network.kind}; in the lab DHCP reserves it for one NIC"
        if network.mtu not in (None, 1500):
            yield f"{host.name}: its MTU is {network.mtu}; in the lab it is 1500"
        if said := ", ".join(root_disks.missing(disks.get(host.name, {}))):
            yield f"{host.name}: rootDeviceHints {said}: the lab's disks are /dev/sda and so on, with sizes and names of their own"
        address = bmc_address.parse(host.bmc_address)
        if address.name not in ("ipmi", "redfish", "redfish-virtualmedia"):
            yield f"{host.name}: its BMC is of type {address.name}; the lab's speaks {_SCHEMES[address.name]}"
        if address.is_redfish and not address.path.strip("/"):
            yield f"{host.name}: its BMC address has no path of a system; the lab's is {_SYSTEMS}1"
        if host.boot_mode == "UEFISecureBoot" and _SCHEMES[address.name].boots_over_network:
            yield f"{host.name}: secure boot is off in the lab, where iPXE is not signed"
    if any(role == "arbiter" for _, role in _roles(config)):
        yield ARBITERS


def _together(deviations: Iterable[str]) -> Iterator[str]:
    """What is said of several hosts in the same words is said once."""
    hosts: dict[str, list[str]] = {}
    for line in deviations:
        name, colon, words = line.partition(": ")
        hosts.setdefault(words if colon else line, []).extend([name] if colon else [])
    for words, names in hosts.items():
        yield f"{', '.join(names)}: {words}" if names else words
