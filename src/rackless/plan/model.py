"""The plan of a lab as values: networks, servers, NICs, BMCs, with their addresses. Made from lab.yaml by `plan.addressing`."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_interface
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

from rackless.ports.fabric import Bridge, Impairment, Network, Route, Veth, Vlan
from rackless.ports.hypervisor import Firmware
from rackless.spec.address import Ip, IpInterface, IpNetwork
from rackless.spec.discover import Discover
from rackless.spec.disks import DiskBus, DiskCache
from rackless.spec.hosts import MetalHost
from rackless.spec.images import ImageSpec
from rackless.spec.lab import Role
from rackless.spec.provisioner import ProvisionerSpec
from rackless.spec.servers import BmcScheme
from rackless.spec.uplink import Uplink

CLUSTER_BRIDGE = "virbr0"
ATTACHED = "attached"
"""The name of the veth end inside the lab whose other end is in a bridge of the hypervisor."""


@dataclass(frozen=True, slots=True)
class PlannedNic:
    network: str
    mac: str
    bridge: str
    address: Ip | None
    """The address that DHCP reserves for it, if any."""
    mtu: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedBmc:
    """A BMC with another address, port or path than the standard ones, as a site has it."""

    port: int
    http: bool = False
    system: str = "1"
    username: str = "admin"
    own_password: bool = False
    """Whether a file with its password was named; else it is the lab's."""
    alone: bool = True
    """Whether no other BMC, and not the gateway, has its address."""


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
    disk_cache: DiskCache = DiskCache.UNSAFE
    disk_bus: DiskBus = DiskBus.SCSI
    disk_serial: str = ""
    """Of its system disk; without it one is derived."""
    root_device: tuple[tuple[str, str | int | bool], ...] = ()
    """Metal3's hints for the disk that gets the system."""
    image: ImageSpec | None = None
    """An image of a person's own; without it the node image."""
    bmc: PlannedBmc | None = None
    """A BMC as a site has it; without it one at its own address, with the standard ports."""

    @property
    def bmc_url(self) -> str:
        """The BMC as Metal3 writes it."""
        return self.bmc_url_as("")

    def bmc_url_as(self, scheme: str) -> str:
        """With another scheme of Metal3's than the server's own, such as redfish+https."""
        ipmi = scheme.startswith("ipmi") if scheme else self.bmc_scheme is BmcScheme.IPMI
        own = f"{self.bmc_scheme}{'+http' if self.bmc is not None and self.bmc.http and not ipmi else ''}"
        path = "" if ipmi else f"/redfish/v1/Systems/{self.bmc.system if self.bmc is not None else '1'}"
        return f"{scheme or own}://{self.bmc_address}{self._port(ipmi)}{path}"

    @property
    def bmc_origin(self) -> str:
        """The BMC's address and port for people: Redfish's, or IPMI's where there is no Redfish."""
        ipmi = self.bmc is not None and self.bmc_scheme is BmcScheme.IPMI and not self.bmc.alone
        scheme = "ipmi" if ipmi else "http" if self.bmc is not None and self.bmc.http else "https"
        own = self.bmc_scheme is not BmcScheme.IPMI or ipmi
        return f"{scheme}://{self.bmc_address}{self._port(ipmi) if own else ''}"

    @property
    def redfish_port(self) -> int | None:
        """None where its BMC answers IPMI only."""
        if self.bmc is None:
            return 443
        if self.bmc_scheme is BmcScheme.IPMI:
            return 443 if self.bmc.alone else None
        return self.bmc.port

    @property
    def ipmi_port(self) -> int | None:
        """None where its BMC answers Redfish only."""
        if self.bmc is None:
            return 623
        if self.bmc_scheme is BmcScheme.IPMI:
            return self.bmc.port
        return 623 if self.bmc.alone else None

    @property
    def redfish_url(self) -> str | None:
        """The system as a Redfish client asks for it."""
        if (port := self.redfish_port) is None:
            return None
        http = self.bmc is not None and self.bmc.http
        shown = "" if port == (80 if http else 443) else f":{port}"
        system = self.bmc.system if self.bmc is not None else "1"
        return f"{'http' if http else 'https'}://{self.bmc_address}{shown}/redfish/v1/Systems/{system}"

    def _port(self, ipmi: bool) -> str:
        if self.bmc is None:
            return ""
        usual = 623 if ipmi else 80 if self.bmc.http else 443
        return "" if self.bmc.port == usual else f":{self.bmc.port}"

    @property
    def boot_nic(self) -> PlannedNic:
        """The NIC that the deploy agent uses: on the provisioning network for a server that boots from it."""
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
    """Everything that follows from lab.yaml before anything is made."""

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
    discover: Discover = Discover.OFF
    """Whether servers that are in no lab.yaml become hosts (discovery), and how their agents find Ironic."""
    metal: Mapping[str, MetalHost] = field(default_factory=dict)
    """Real servers (`hosts:`) that become hosts without being libvirt domains."""
    attached: tuple[str, ...] = ()
    """Names, inside the lab, of an attached device: the veth end, or the NIC. Plugged into `baremetal`."""
    routes: tuple[Route, ...] = ()
    """What the lab itself reaches by a router of the network that is attached, and answers by it."""
    impairment: Impairment | None = None
    """Of what the lab sends to its servers."""
    elastic: tuple[PlannedServer, ...] = ()
    """Servers that are made on demand. Networks know them all; of `servers` are those that have been made."""
    bootstrap_on: str = ""
    """The server that an install's bootstrap runs on; empty where it is a VM."""
    tells_addresses: bool = False
    """Whether nobody answers DHCP, so that an install tells servers their addresses."""

    def grown(self, names: Collection[str]) -> LabPlan:
        """The plan with these elastic servers among `servers`."""
        fixed = tuple(server for server in self.servers if server not in self.elastic)
        return replace(self, servers=(*fixed, *(server for server in self.elastic if server.name in names)))

    @property
    def places(self) -> tuple[PlannedServer, ...]:
        """All servers, also the elastic ones that do not exist."""
        return (*(server for server in self.servers if server not in self.elastic), *self.elastic)

    def server(self, name: str) -> PlannedServer | None:
        return next((server for server in self.servers if server.name == name), None)

    @property
    def control_planes(self) -> tuple[PlannedServer, ...]:
        """Those that become members of the quorum; a server with another image than ours does not."""
        return tuple(server for server in self.servers if server.role is Role.CONTROL_PLANE and server.image is None)

    @property
    def metal_bmcs(self) -> frozenset[str]:
        """Where BMCs that are not the lab's answer, and fetch boot images from."""
        return frozenset(urlsplit(host.bmc).hostname or "" for host in self.metal.values())

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
