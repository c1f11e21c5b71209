"""DHCP and DNS of a lab's networks: address reservations, routes (option 121) and names. Pure."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from rackless.plan.model import CLUSTER_BRIDGE, BmcSite, PlannedServer, local_mac, with_prefix
from rackless.ports.booting import BootFiles
from rackless.ports.fabric import HandedRoutes, Impairment, Network, Pool, Record, Reservation, Route, Tag
from rackless.spec.address import Ip, IpInterface
from rackless.spec.discover import Discover
from rackless.spec.lab import LabSpec
from rackless.spec.networks import Dhcp
from rackless.spec.places import API_VIP, BOOTSTRAP, INGRESS_VIP, RANGE
from rackless.spec.places import gateway as gateway_of

INSTALLER = "installer"
STRANGERS = 50
"""At most so many addresses of a network are for discovered servers; of a small network a quarter."""
SITE_FOLDER = "/run/network-boot"
SITE_BOOT = BootFiles(SITE_FOLDER, "bios.kpxe", "uefi.efi", "site.ipxe")
"""As seen in the lab: `lab/site_boot.py` lays them there."""
INSTALLER_MACS = "52:54:00:*:*:*"
"""The MAC prefix of VMs that an installer makes, whether it chose the MAC or was given one."""


def plan_cluster(
    spec: LabSpec, domain: str, servers: Sequence[PlannedServer], bootstrap_mac: str, site: BmcSite
) -> Network:
    cluster = spec.networks.cluster
    cidr = cluster.cidr
    gateway = with_prefix(gateway_of(spec), cidr)
    bootstrap = cluster.bootstrap.address or cidr[BOOTSTRAP]
    answers = cluster.dhcp.answers
    routes = _routes(spec, site) if answers else ()
    reservations = (
        *(Reservation(s.mac, s.name, s.address) for s in servers),
        Reservation(bootstrap_mac, "bootstrap", bootstrap),
    )
    return Network(
        name="cluster",
        bridge=CLUSTER_BRIDGE,
        mac=local_mac(f"{spec.name}/network/cluster"),
        gateway=gateway,
        domain=domain,
        reservations=reservations if answers else (),
        records=(
            Record(gateway.ip, (f"gateway.{domain}",)),
            Record(cluster.api_vip or cidr[API_VIP], (f"api.{domain}", f"api-int.{domain}")),
            Record(cluster.ingress_vip or cidr[INGRESS_VIP], (f"*.apps.{domain}",)),
            Record(bootstrap_address(spec, servers), (f"bootstrap.{domain}",)),
            *(Record(s.address, (s.fqdn,)) for s in servers),
            *(Record(s.bmc_address, (f"{s.name}-bmc.{domain}",)) for s in servers),
            *(Record(address, (_full(name, domain),)) for name, address in spec.networks.dns.records.items()),
        ),
        tags=_tags(spec, servers, routes) if answers else (),
        pools=_pools(spec),
        routes=routes,
        forwarders=spec.networks.dns.forward,
        ntp=True,
        dhcp=answers,
        mtu=cluster.mtu,
    )


def bootstrap_address(spec: LabSpec, servers: Sequence[PlannedServer]) -> Ip:
    """Of the VM that an install begins with, or of the server in its place."""
    wanted = spec.networks.cluster
    on = next((server.address for server in servers if server.name == spec.cluster.bootstrap.on), None)
    return on or wanted.bootstrap.address or wanted.cidr[BOOTSTRAP]


def plan_provisioning(spec: LabSpec, domain: str, servers: Sequence[PlannedServer]) -> Network:
    """DHCP reservations on the provisioning network (PXE); whether libvirt's dnsmasq or Ironic's serves them is decided
    elsewhere."""
    reservations = tuple(
        Reservation(nic.mac, server.name, nic.address)
        for server in servers
        for nic in server.nics
        if nic.network == "provisioning" and nic.address is not None
    )
    return Network(
        name="provisioning",
        bridge=spec.networks.provisioning.bridge,
        mac=local_mac(f"{spec.name}/network/provisioning"),
        gateway=provisioning_gateway(spec),
        domain=f"provisioning.{domain}",
        reservations=reservations,
        records=(),
        pools=_strangers(spec, {each.address for each in reservations}),
        router=False,
    )


def plan_site_provisioning(spec: LabSpec, domain: str, servers: Sequence[PlannedServer]) -> Network:
    """The same where the lab answers DHCP in the place of somebody else who is no installer."""
    boots = any(group.scheme.boots_over_network for group in spec.servers.values())
    return replace(plan_provisioning(spec, domain, servers), boot=SITE_BOOT if boots else None)


def _strangers(spec: LabSpec, taken: Set[Ip]) -> tuple[Pool, ...]:
    """The DHCP range for discovered servers: the last unused addresses of the network."""
    wanted = spec.networks.provisioning
    if wanted.discover is Discover.OFF:
        return ()
    busy = {*taken, provisioning_gateway(spec).ip}
    last = first = wanted.cidr[-2]
    for _ in range(min(STRANGERS, wanted.cidr.num_addresses // 4)):
        if first in busy:
            break
        first -= 1
    return (Pool(first + 1, last),) if first != last else ()


def provisioning_gateway(spec: LabSpec) -> IpInterface:
    network = spec.networks.provisioning
    return with_prefix(network.gateway or network.cidr[1], network.cidr)


def _pools(spec: LabSpec) -> tuple[Pool, ...]:
    cluster = spec.networks.cluster
    first, last = cluster.bootstrap.range or (cluster.cidr[RANGE[0]], cluster.cidr[RANGE[1]])
    match cluster.dhcp:
        case Dhcp.STATIC_ONLY | Dhcp.THEIRS | Dhcp.NONE:
            return ()
        case Dhcp.INSTALLER:
            return (Pool(first, last, INSTALLER),)
        case Dhcp.OPEN:
            return (Pool(first, last),)


def impairment(spec: LabSpec) -> Impairment | None:
    link = spec.networks.cluster.link
    return Impairment(link.delay or 0, link.loss or 0.0, link.rate) if link is not None else None


def own_routes(spec: LabSpec) -> tuple[Route, ...]:
    """On a network of others the lab is a client like the servers; on its own it is the router."""
    cluster = spec.networks.cluster
    if cluster.attach is None:
        return ()
    return tuple(Route(route.to, route.via) for route in cluster.routes if not route.audience)


def _routes(spec: LabSpec, site: BmcSite) -> tuple[HandedRoutes, ...]:
    """One whole set for each kind of client: a client takes one option 121, not the union of several."""
    wanted = [(Route(route.to, route.via), route.audience) for route in spec.networks.cluster.routes]
    if site.router is not None:
        wanted.append((Route(site.network, site.router.ip), ()))
    sets = {
        tag: tuple(route for route, audience in wanted if not audience or who in audience)
        for who, tag in (("bootstrap", INSTALLER), *((group, _group_tag(group)) for group in spec.servers))
    }
    if len(set(sets.values())) == 1:
        (routes,) = set(sets.values())
        return (HandedRoutes(routes),) if routes else ()
    return tuple(HandedRoutes(routes, tag) for tag, routes in sets.items() if routes)


def _tags(spec: LabSpec, servers: Sequence[PlannedServer], routes: Sequence[HandedRoutes]) -> tuple[Tag, ...]:
    """The installer's prefix always; groups only when they are treated differently."""
    tags = [Tag(INSTALLER, (INSTALLER_MACS,))]
    for group in spec.servers:
        if any(handed.tag == _group_tag(group) for handed in routes):
            tags.append(Tag(_group_tag(group), tuple(s.mac for s in servers if s.group == group)))
    return tuple(tags)


def _group_tag(group: str) -> str:
    return f"group-{group}"


def _full(name: str, domain: str) -> str:
    return name.removesuffix(".") if name.endswith(".") else f"{name}.{domain}"
