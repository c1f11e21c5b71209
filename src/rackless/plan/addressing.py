"""Names, addresses, MACs and UUIDs of a lab: pure, and the same every time for the same spec."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from uuid import UUID, uuid5

from rackless.ports.fabric import Bridge, Network, Record, Reservation, Veth
from rackless.spec.check import FIRST_SERVER
from rackless.spec.lab import LabSpec, Role

INGRESS_VIP = 4
API_VIP = 5
BOOTSTRAP = 9
_NAMESPACE = UUID("5d3b6f0a-3c1e-5a7e-9d55-7261636b6c73")


@dataclass(frozen=True, slots=True)
class PlannedServer:
    name: str
    role: Role
    uuid: UUID
    mac: str
    address: IPv4Address
    bmc_address: IPv4Address
    memory_mib: int
    vcpus: int
    disk_bytes: int
    fqdn: str


@dataclass(frozen=True, slots=True)
class LabPlan:
    """Everything that follows from a spec before anything is made."""

    name: str
    domain: str
    gateway: IPv4Interface
    api_vip: IPv4Address
    ingress_vip: IPv4Address
    servers: tuple[PlannedServer, ...]
    cluster: Network
    baremetal: Bridge
    cable: Veth
    bmc: Bridge

    def server(self, name: str) -> PlannedServer | None:
        return next((server for server in self.servers if server.name == name), None)

    @property
    def control_planes(self) -> tuple[PlannedServer, ...]:
        return tuple(server for server in self.servers if server.role is Role.CONTROL_PLANE)


def plan_lab(spec: LabSpec) -> LabPlan:
    domain = f"{spec.name}.{spec.domain}"
    cluster, bmc = spec.networks.cluster.cidr, spec.networks.bmc.cidr
    gateway = _interface(cluster, 1)
    servers = tuple(_servers(spec, domain))
    api_vip, ingress_vip = cluster[API_VIP], cluster[INGRESS_VIP]
    return LabPlan(
        name=spec.name,
        domain=domain,
        gateway=gateway,
        api_vip=api_vip,
        ingress_vip=ingress_vip,
        servers=servers,
        cluster=Network(
            name="cluster",
            bridge="virbr0",
            gateway=gateway,
            domain=domain,
            reservations=tuple(Reservation(s.mac, s.name, s.address) for s in servers),
            records=(
                Record(gateway.ip, (f"gateway.{domain}",)),
                Record(api_vip, (f"api.{domain}", f"api-int.{domain}")),
                Record(ingress_vip, (f"*.apps.{domain}",)),
                *(Record(s.address, (s.fqdn,)) for s in servers),
            ),
        ),
        baremetal=Bridge("baremetal"),
        cable=Veth("baremetal-up", "baremetal-down", bridge="virbr0", peer_bridge="baremetal"),
        bmc=Bridge("bmc", (_interface(bmc, 1), *(IPv4Interface(f"{s.bmc_address}/32") for s in servers))),
    )


def _servers(spec: LabSpec, domain: str) -> list[PlannedServer]:
    servers: list[PlannedServer] = []
    macs: set[str] = set()
    for prefix, group in spec.servers.items():
        for index in range(group.count):
            name = f"{prefix}-{index}"
            number = FIRST_SERVER + len(servers)
            mac = _mac(spec.name, name, macs)
            macs.add(mac)
            servers.append(
                PlannedServer(
                    name=name,
                    role=group.role,
                    uuid=uuid5(_NAMESPACE, f"{spec.name}/{name}"),
                    mac=mac,
                    address=spec.networks.cluster.cidr[number],
                    bmc_address=spec.networks.bmc.cidr[number],
                    memory_mib=group.memory >> 20,
                    vcpus=group.vcpus,
                    disk_bytes=group.disk,
                    fqdn=f"{name}.{domain}",
                )
            )
    return servers


def _mac(lab: str, name: str, taken: set[str]) -> str:
    """Locally administered, and never 52:54:00, the prefix of installer-made VMs."""
    attempt = 0
    while True:
        digest = hashlib.sha256(f"{lab}/{name}/{attempt}".encode()).digest()
        mac = ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))
        if mac not in taken:
            return mac
        attempt += 1


def _interface(network: IPv4Network, number: int) -> IPv4Interface:
    return IPv4Interface(f"{network[number]}/{network.prefixlen}")
