"""What follows from a spec before anything is made, as values. Made by `plan.addressing`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from ipaddress import ip_interface
from pathlib import Path
from uuid import UUID

from rackless.ports.fabric import Bridge, Network, Route, Veth, Vlan
from rackless.ports.hypervisor import Firmware
from rackless.spec.address import Ip, IpInterface, IpNetwork
from rackless.spec.images import ImageSpec
from rackless.spec.lab import Role
from rackless.spec.networks import Uplink
from rackless.spec.provisioner import ProvisionerSpec
from rackless.spec.servers import BmcScheme

CLUSTER_BRIDGE = "virbr0"


@dataclass(frozen=True, slots=True)
class PlannedNic:
    network: str
    mac: str
    bridge: str
    address: Ip | None
    """What DHCP gives it, where DHCP knows it."""


@dataclass(frozen=True, slots=True)
class PlannedServer:
    name: str
    group: str
    role: Role
    uuid: UUID
    mac: str
    """Of the NIC on the cluster network."""
    address: Ip
    bmc_address: Ip
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
    image: ImageSpec | None = None
    """An image of a person's own; without it the node image."""

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

    network: IpNetwork
    router: IpInterface | None
    """The router's address on the cluster network, when they are behind one."""
    allow: tuple[IpNetwork, ...]


@dataclass(frozen=True, slots=True)
class LabPlan:
    """Everything that follows from a spec before anything is made."""

    name: str
    domain: str
    gateway: IpInterface
    api_vip: Ip
    ingress_vip: Ip
    bootstrap_mac: str
    bootstrap_address: Ip
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
    provisioner: ProvisionerSpec | None = None
    """Somebody else's Ironic; without it the lab has its own."""

    def server(self, name: str) -> PlannedServer | None:
        return next((server for server in self.servers if server.name == name), None)

    @property
    def control_planes(self) -> tuple[PlannedServer, ...]:
        """Those that become members of the quorum; a server with another image than ours does not."""
        return tuple(server for server in self.servers if server.role is Role.CONTROL_PLANE and server.image is None)

    @property
    def bmc_route(self) -> Route | None:
        router = self.bmc_site.router
        return Route(self.bmc_site.network, router.ip) if router is not None else None


def local_mac(owner: str) -> str:
    """Locally administered, the same for the same owner, and never 52:54:00, the prefix of installer-made VMs."""
    return ":".join(f"{byte:02x}" for byte in (0x02, *hashlib.sha256(owner.encode()).digest()[:5]))


def interface(network: IpNetwork, number: int) -> IpInterface:
    return with_prefix(network[number], network)


def with_prefix(address: Ip, network: IpNetwork) -> IpInterface:
    return ip_interface(f"{address}/{network.prefixlen}")
