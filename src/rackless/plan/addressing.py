"""Names, addresses, MACs and UUIDs of a lab: pure, and the same every time for the same spec."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Sequence
from ipaddress import ip_interface
from uuid import UUID, uuid5

from rackless.plan.model import (
    ATTACHED,
    CLUSTER_BRIDGE,
    BmcSite,
    LabPlan,
    PlannedBmc,
    PlannedNic,
    PlannedServer,
    interface,
    local_mac,
    with_prefix,
)
from rackless.plan.networks import (
    bootstrap_address,
    impairment,
    own_routes,
    plan_cluster,
    plan_provisioning,
    plan_site_provisioning,
    provisioning_gateway,
)
from rackless.ports.fabric import Bridge, Veth, Vlan
from rackless.ports.hypervisor import Firmware
from rackless.spec.address import Ip, IpInterface
from rackless.spec.lab import LabSpec
from rackless.spec.members import Member
from rackless.spec.networks import BmcAccess, Dhcp, Provisioning
from rackless.spec.places import (
    API_VIP,
    BMC_ROUTER,
    BOOTSTRAP,
    FIRST_SERVER,
    INGRESS_VIP,
    bmc_port,
    gateway,
    members,
    numbers,
)
from rackless.spec.servers import Role, ServerGroup

__all__ = ["API_VIP", "BOOTSTRAP", "FIRST_SERVER", "INGRESS_VIP", "LabPlan", "PlannedNic", "PlannedServer", "plan_lab"]

_NAMESPACE = UUID("5d3b6f0a-3c1e-5a7e-9d55-7261636b6c73")


_PLANNED: deque[tuple[LabSpec, LabPlan]] = deque(maxlen=4)
"""Specs and their plans, both values: every stage of an `up` asks for the plan of the same spec."""


def plan_lab(spec: LabSpec) -> LabPlan:
    for known, plan in _PLANNED:
        if known is spec:
            return plan
    _PLANNED.append((spec, _plan(spec)))
    return _PLANNED[-1][1]


def _plan(spec: LabSpec) -> LabPlan:
    domain = f"{spec.name}.{spec.domain}"
    wanted = spec.networks
    cluster = wanted.cluster.cidr
    places = _servers(spec, domain)
    on_demand = {name for prefix, group in spec.servers.items() for name in group.elastic_names(prefix)}
    servers = tuple(server for server in places if server.name not in on_demand)
    api_vip = wanted.cluster.api_vip or cluster[API_VIP]
    ingress_vip = wanted.cluster.ingress_vip or cluster[INGRESS_VIP]
    bootstrap_mac = wanted.cluster.bootstrap.mac or derive_bootstrap_mac(spec.name)
    provisioning = wanted.provisioning.mode
    site = BmcSite(
        wanted.bmc.cidr,
        with_prefix(wanted.bmc.router or cluster[BMC_ROUTER], cluster)
        if wanted.bmc.access is BmcAccess.ROUTED
        else None,
        wanted.bmc.allow,
    )
    return LabPlan(
        name=spec.name,
        domain=domain,
        gateway=with_prefix(gateway(spec), cluster),
        api_vip=api_vip,
        ingress_vip=ingress_vip,
        bootstrap_mac=bootstrap_mac,
        bootstrap_address=bootstrap_address(spec, places),
        servers=servers,
        cluster=plan_cluster(spec, domain, places, bootstrap_mac, site),
        baremetal=Bridge(wanted.cluster.bridge, _bmcs_among_servers(spec, places), wanted.cluster.mtu),
        cable=Veth(
            "baremetal-up",
            "baremetal-down",
            bridge=CLUSTER_BRIDGE,
            peer_bridge=wanted.cluster.bridge,
            mtu=wanted.cluster.mtu,
        ),
        bmc=Bridge("bmc", _bmc_addresses(spec, places)),
        bmc_site=site,
        provisioning=Bridge(wanted.provisioning.bridge, (provisioning_gateway(spec),))
        if provisioning is Provisioning.MANAGED
        else None,
        provisioning_dhcp=plan_site_provisioning(spec, domain, places)
        if provisioning is Provisioning.UNMANAGED
        else None,
        network_boot=plan_provisioning(spec, domain, places) if provisioning is Provisioning.MANAGED else None,
        extra=tuple(Bridge(n, (interface(e.cidr, 1),), e.mtu) for n, e in wanted.extra.items() if e.vlan is None),
        vlans=tuple(
            Vlan(n, CLUSTER_BRIDGE, e.vlan, interface(e.cidr, 1)) for n, e in wanted.extra.items() if e.vlan is not None
        ),
        uplink=wanted.uplink.mode,
        storage=spec.storage,
        provisioner=spec.provisioner,
        discover=wanted.provisioning.discover,
        metal=spec.hosts,
        attached=(ATTACHED, wanted.cluster.attach.device) if wanted.cluster.attach is not None else (),
        routes=own_routes(spec),
        impairment=impairment(spec),
        elastic=tuple(server for server in places if server.name in on_demand),
        bootstrap_on=spec.cluster.bootstrap.on or "",
        tells_addresses=wanted.cluster.dhcp is Dhcp.NONE,
    )


def _bmc_addresses(spec: LabSpec, servers: Sequence[PlannedServer]) -> tuple[IpInterface, ...]:
    """Addresses of the BMCs; the gateway's is on the bridge already."""
    network = spec.networks.bmc.cidr
    own = {ip_interface(server.bmc_address): None for server in servers if server.bmc_address != gateway(spec)}
    own.pop(ip_interface(network[1]), None)  # which the bridge has with the whole network behind it
    among = _bmcs_among_servers(spec, servers)
    return (interface(network, 1), *(one for one in own if one not in among))


def _bmcs_among_servers(spec: LabSpec, servers: Sequence[PlannedServer]) -> tuple[IpInterface, ...]:
    """Addresses of BMCs that are in the cluster network, as at sites with one network: they are on the bridge that is joined to
    it, because an address is answered for on its own link only. Behind a router there are none."""
    if spec.networks.bmc.access is BmcAccess.ROUTED:
        return ()
    network = spec.networks.cluster.cidr
    found = [server.bmc_address for server in servers if server.bmc_address in network]
    return tuple(dict.fromkeys(ip_interface(one) for one in found if one != gateway(spec)))


def _servers(spec: LabSpec, domain: str) -> list[PlannedServer]:
    servers: list[PlannedServer] = []
    macs: set[str] = set()
    places, own = numbers(spec), members(spec)
    sharing = Counter(member.bmc.address for member in own.values() if member.bmc.address is not None)
    sharing[gateway(spec)] += 1
    macs |= {mac for member in own.values() for mac in (member.mac, member.cluster_mac) if mac is not None}
    for prefix, group in spec.servers.items():
        on_demand = group.elastic_names(prefix)
        for name in (*group.names(prefix), *on_demand):
            number, member = places[name], own.get(name)
            nics = _nics(spec, group, name, number, macs, member)
            (first,) = [nic for nic in nics if nic.network == "cluster" and nic.address is not None]
            servers.append(
                PlannedServer(
                    name=name,
                    group=prefix,
                    role=Role.SPARE if name in on_demand else group.role,
                    uuid=uuid5(_NAMESPACE, f"{spec.name}/{name}"),
                    mac=first.mac,
                    address=first.address or spec.networks.cluster.cidr[number],
                    bmc_address=(member and member.bmc.address) or spec.networks.bmc.cidr[number],
                    memory_mib=group.memory >> 20,
                    vcpus=group.vcpus,
                    disks=(group.disk, *group.extra_disks),
                    nics=nics,
                    fqdn=f"{name}.{domain}",
                    bmc_scheme=group.scheme,
                    firmware=Firmware(group.firmware.value),
                    secure_boot=group.secure_boot,
                    tpm=group.tpm,
                    disk_cache=group.disk_cache or spec.disk.cache,
                    disk_bus=group.disk_bus,
                    disk_serial=(member and member.disk_serial) or "",
                    root_device=group.root_device.hints if group.root_device is not None else (),
                    image=group.image or spec.image,
                    bmc=_bmc(group, member, sharing) if member is not None else None,
                )
            )
    return servers


def _bmc(group: ServerGroup, member: Member, sharing: Counter[Ip]) -> PlannedBmc:
    bmc = member.bmc
    return PlannedBmc(
        port=bmc_port(group.scheme, bmc),
        http=bmc.http,
        system=bmc.system,
        username=bmc.username,
        own_password=bmc.password_file is not None,
        alone=bmc.address is None or sharing[bmc.address] == 1,
    )


def _nics(
    spec: LabSpec, group: ServerGroup, name: str, number: int, macs: set[str], member: Member | None
) -> tuple[PlannedNic, ...]:
    """The provisioning NIC first, as installers expect it; then the cluster's, its further ones, the extra networks."""

    def mac(what: str) -> str:
        found = _mac(spec.name, what, macs)
        macs.add(found)
        return found

    nics: list[PlannedNic] = []
    mtu = spec.networks.cluster.mtu
    provisioning = spec.networks.provisioning
    boot, own = (member.mac, member.cluster_mac) if member is not None else (None, None)
    if provisioning.mode is not Provisioning.DISABLED:
        address = provisioning.cidr[number] if number < provisioning.cidr.num_addresses - 1 else None
        first = boot or mac(f"{name}/provisioning")
        nics.append(PlannedNic("provisioning", first, provisioning.bridge, address))
    elif boot is not None:
        own = boot
    place = (member and member.address) or spec.networks.cluster.cidr[number]
    nics.append(PlannedNic("cluster", own or mac(name), CLUSTER_BRIDGE, place, mtu))
    for index in range(group.extra_nics):
        nics.append(PlannedNic("cluster", mac(f"{name}/cluster/{index + 1}"), CLUSTER_BRIDGE, None, mtu))
    for network, extra in spec.networks.extra.items():
        if extra.vlan is None:
            nics.append(PlannedNic(network, mac(f"{name}/{network}"), network, None, extra.mtu))
    return tuple(nics)


def derive_bootstrap_mac(lab: str) -> str:
    """Fixed, so that DHCP can reserve an address; with the prefix that installer-made VMs have."""
    digest = hashlib.sha256(f"{lab}/bootstrap".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x52, 0x54, 0x00, *digest[:3]))


def _mac(lab: str, name: str, taken: set[str]) -> str:
    attempt = 0
    while (mac := local_mac(f"{lab}/{name}/{attempt}")) in taken:
        attempt += 1
    return mac
