"""Names, addresses, MACs and UUIDs of a lab: pure, and the same every time for the same spec."""

from __future__ import annotations

import hashlib
from ipaddress import ip_interface
from uuid import UUID, uuid5

from rackless.plan.model import (
    CLUSTER_BRIDGE,
    BmcSite,
    LabPlan,
    PlannedNic,
    PlannedServer,
    interface,
    local_mac,
    with_prefix,
)
from rackless.plan.networks import plan_cluster, plan_provisioning
from rackless.ports.fabric import Bridge, Veth, Vlan
from rackless.ports.hypervisor import Firmware
from rackless.spec.check import API_VIP, BMC_ROUTER, BOOTSTRAP, FIRST_SERVER, INGRESS_VIP, numbers
from rackless.spec.lab import LabSpec
from rackless.spec.networks import BmcAccess, Provisioning
from rackless.spec.servers import ServerGroup

__all__ = ["API_VIP", "BOOTSTRAP", "FIRST_SERVER", "INGRESS_VIP", "LabPlan", "PlannedNic", "PlannedServer", "plan_lab"]

_NAMESPACE = UUID("5d3b6f0a-3c1e-5a7e-9d55-7261636b6c73")


def plan_lab(spec: LabSpec) -> LabPlan:
    domain = f"{spec.name}.{spec.domain}"
    wanted = spec.networks
    cluster = wanted.cluster.cidr
    servers = tuple(_servers(spec, domain))
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
        gateway=interface(cluster, 1),
        api_vip=api_vip,
        ingress_vip=ingress_vip,
        bootstrap_mac=bootstrap_mac,
        bootstrap_address=wanted.cluster.bootstrap.address or cluster[BOOTSTRAP],
        servers=servers,
        cluster=plan_cluster(spec, domain, servers, bootstrap_mac, site),
        baremetal=Bridge("baremetal"),
        cable=Veth("baremetal-up", "baremetal-down", bridge=CLUSTER_BRIDGE, peer_bridge="baremetal"),
        bmc=Bridge("bmc", (interface(site.network, 1), *(ip_interface(s.bmc_address) for s in servers))),
        bmc_site=site,
        provisioning=Bridge("provisioning", (interface(wanted.provisioning.cidr, 1),))
        if provisioning is Provisioning.MANAGED
        else None,
        provisioning_dhcp=plan_provisioning(spec, domain, servers) if provisioning is Provisioning.UNMANAGED else None,
        network_boot=plan_provisioning(spec, domain, servers) if provisioning is Provisioning.MANAGED else None,
        extra=tuple(Bridge(n, (interface(e.cidr, 1),)) for n, e in wanted.extra.items() if e.vlan is None),
        vlans=tuple(
            Vlan(n, CLUSTER_BRIDGE, e.vlan, interface(e.cidr, 1)) for n, e in wanted.extra.items() if e.vlan is not None
        ),
        uplink=wanted.uplink,
        storage=spec.storage,
        provisioner=spec.provisioner,
    )


def _servers(spec: LabSpec, domain: str) -> list[PlannedServer]:
    servers: list[PlannedServer] = []
    macs: set[str] = set()
    places = numbers(spec)
    for prefix, group in spec.servers.items():
        for index in range(group.count):
            name = f"{prefix}-{index}"
            number = places[name]
            nics = _nics(spec, group, name, number, macs)
            (first,) = [nic for nic in nics if nic.network == "cluster" and nic.address is not None]
            servers.append(
                PlannedServer(
                    name=name,
                    group=prefix,
                    role=group.role,
                    uuid=uuid5(_NAMESPACE, f"{spec.name}/{name}"),
                    mac=first.mac,
                    address=spec.networks.cluster.cidr[number],
                    bmc_address=spec.networks.bmc.cidr[number],
                    memory_mib=group.memory >> 20,
                    vcpus=group.vcpus,
                    disks=(group.disk, *group.extra_disks),
                    nics=nics,
                    fqdn=f"{name}.{domain}",
                    bmc_scheme=group.bmc,
                    firmware=Firmware(group.firmware.value),
                    secure_boot=group.secure_boot,
                    tpm=group.tpm,
                    image=group.image or spec.image,
                )
            )
    return servers


def _nics(spec: LabSpec, group: ServerGroup, name: str, number: int, macs: set[str]) -> tuple[PlannedNic, ...]:
    """The provisioning NIC first, as installers expect it; then the cluster's, its further ones, the extra networks."""

    def mac(what: str) -> str:
        found = _mac(spec.name, what, macs)
        macs.add(found)
        return found

    nics: list[PlannedNic] = []
    provisioning = spec.networks.provisioning
    if provisioning.mode is not Provisioning.DISABLED:
        address = provisioning.cidr[number]
        nics.append(PlannedNic("provisioning", mac(f"{name}/provisioning"), "provisioning", address))
    nics.append(PlannedNic("cluster", mac(name), CLUSTER_BRIDGE, spec.networks.cluster.cidr[number]))
    for index in range(group.extra_nics):
        nics.append(PlannedNic("cluster", mac(f"{name}/cluster/{index + 1}"), CLUSTER_BRIDGE, None))
    for network, extra in spec.networks.extra.items():
        if extra.vlan is None:
            nics.append(PlannedNic(network, mac(f"{name}/{network}"), network, None))
    return tuple(nics)


def derive_bootstrap_mac(lab: str) -> str:
    """Fixed, so that DHCP can reserve an address; with the prefix that installer-made machines have."""
    digest = hashlib.sha256(f"{lab}/bootstrap".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x52, 0x54, 0x00, *digest[:3]))


def _mac(lab: str, name: str, taken: set[str]) -> str:
    attempt = 0
    while (mac := local_mac(f"{lab}/{name}/{attempt}")) in taken:
        attempt += 1
    return mac
