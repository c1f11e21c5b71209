"""What follows from a spec before anything is made, as values. Made by `plan.addressing`."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path
from uuid import UUID

from rackless.ports.fabric import Bridge, Network, Route, Veth, Vlan
from rackless.ports.hypervisor import Firmware
from rackless.spec.lab import Role
from rackless.spec.networks import Uplink
from rackless.spec.servers import BmcScheme

CLUSTER_BRIDGE = "virbr0"


@dataclass(frozen=True, slots=True)
class PlannedNic:
    network: str
    mac: str
    bridge: str
    address: IPv4Address | None
    """What DHCP gives it, where DHCP knows it."""


@dataclass(frozen=True, slots=True)
class PlannedServer:
    name: str
    group: str
    role: Role
    uuid: UUID
    mac: str
    """Of the NIC on the cluster network."""
    address: IPv4Address
    bmc_address: IPv4Address
    memory_mib: int
    vcpus: int
    disks: tuple[int, ...]
    """Sizes in bytes, the system's first."""
    nics: tuple[PlannedNic, ...]
    fqdn: str
    bmc_scheme: BmcScheme = BmcScheme.REDFISH_VIRTUALMEDIA
    firmware: Firmware = Firmware.UEFI
    secure_boot: bool = False
    tpm: bool = False

    @property
    def bmc_url(self) -> str:
        """The BMC as Metal3 writes it."""
        path = "" if self.bmc_scheme is BmcScheme.IPMI else "/redfish/v1/Systems/1"
        return f"{self.bmc_scheme}://{self.bmc_address}{path}"

    @property
    def boot_nic(self) -> PlannedNic:
        """The one the agent comes over, or is first heard from: on the provisioning network for who boots from it."""
        network = "provisioning" if self.bmc_scheme.boots_over_network else "cluster"
        return next(nic for nic in self.nics if nic.network == network)


@dataclass(frozen=True, slots=True)
class BmcSite:
    """How the BMCs are reached: directly, or behind a router of their own."""

    network: IPv4Network
    router: IPv4Interface | None
    """The router's address on the cluster network, when they are behind one."""
    allow: tuple[IPv4Network, ...]


@dataclass(frozen=True, slots=True)
class LabPlan:
    """Everything that follows from a spec before anything is made."""

    name: str
    domain: str
    gateway: IPv4Interface
    api_vip: IPv4Address
    ingress_vip: IPv4Address
    bootstrap_mac: str
    bootstrap_address: IPv4Address
    servers: tuple[PlannedServer, ...]
    cluster: Network
    baremetal: Bridge
    cable: Veth
    bmc: Bridge
    bmc_site: BmcSite
    provisioning: Bridge | None
    provisioning_dhcp: Network | None
    """The provisioning network, where the lab itself answers DHCP …"""
    network_boot: Network | None
    """… and where the lab's Ironic does, once it runs."""
    extra: tuple[Bridge, ...]
    vlans: tuple[Vlan, ...]
    uplink: Uplink
    storage: Path | None

    def server(self, name: str) -> PlannedServer | None:
        return next((server for server in self.servers if server.name == name), None)

    @property
    def control_planes(self) -> tuple[PlannedServer, ...]:
        return tuple(server for server in self.servers if server.role is Role.CONTROL_PLANE)

    @property
    def bmc_route(self) -> Route | None:
        router = self.bmc_site.router
        return Route(self.bmc_site.network, router.ip) if router is not None else None


def interface(network: IPv4Network, number: int) -> IPv4Interface:
    return with_prefix(network[number], network)


def with_prefix(address: IPv4Address, network: IPv4Network) -> IPv4Interface:
    return IPv4Interface(f"{address}/{network.prefixlen}")
