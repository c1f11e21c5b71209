"""An install-config as the installer holds it after conversion and defaults: typed, complete, ready for the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rackless.installer.install_config.decode import Value
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.site import Site
from rackless.installer.install_config.values import Cidr

OVN = "OVNKubernetes"
MANAGED, UNMANAGED, DISABLED = "Managed", "Unmanaged", "Disabled"
METAL = "platform.baremetal"


@dataclass(frozen=True, slots=True)
class PodNetwork:
    cidr: Cidr | None
    host_prefix: int


@dataclass(frozen=True, slots=True)
class Networking:
    type: str
    machine: tuple[Cidr | None, ...]
    cluster: tuple[PodNetwork, ...]
    service: tuple[Cidr | None, ...]
    mtu: int
    ovn: bool
    """Whether ovnKubernetesConfig is there at all."""
    join: Cidr | None
    written_type: str = ""

    @property
    def machine_cidrs(self) -> tuple[Cidr, ...]:
        return tuple(one for one in self.machine if one)

    @property
    def service_cidrs(self) -> tuple[Cidr, ...]:
        return tuple(one for one in self.service if one)

    @property
    def cluster_cidrs(self) -> tuple[Cidr, ...]:
        return tuple(one.cidr for one in self.cluster if one.cidr)

    @property
    def families(self) -> frozenset[int]:
        """The installer decides single or dual stack by the service networks."""
        return frozenset(one.version for one in self.service_cidrs)

    @property
    def dual_stack(self) -> bool:
        return self.families == {4, 6}


@dataclass(frozen=True, slots=True)
class Credential:
    path: str
    host_name: str
    mac: str
    username: str
    password: str = field(repr=False)
    address: str
    certificate_verification: str


@dataclass(frozen=True, slots=True)
class MachinePool:
    path: str
    name: str
    replicas: int
    architecture: str
    hyperthreading: str
    platforms: tuple[str, ...]
    fencing: bool
    credentials: tuple[Credential, ...]
    disk_setup: bool
    management: str
    added: bool = False
    """Added by the installer's defaults, not written by anybody."""


@dataclass(frozen=True, slots=True)
class BgpPeer:
    path: str
    address: str
    asn: int
    port: int | None
    bfd: str
    multi_hop: str
    hold_time: str
    keepalive_time: str


@dataclass(frozen=True, slots=True)
class HostEntry:
    path: str
    """The installer's, which sorts hosts by role."""
    at: str
    """The place in the file."""
    name: str
    role: str
    boot_mac: str
    boot_mode: str
    hardware_profile: str
    device_name: str
    bmc_address: str
    bmc_username: str
    bmc_password: str = field(repr=False)
    verify_certificate: bool
    network_config: Value
    bgp_peers: tuple[BgpPeer, ...]

    @property
    def has_role(self) -> bool:
        return self.role in ("master", "arbiter", "worker")


@dataclass(frozen=True, slots=True)
class BareMetalPlatform:
    """platform.baremetal"""

    api_vips: tuple[str, ...]
    ingress_vips: tuple[str, ...]
    hosts: tuple[HostEntry, ...] | None
    provisioning: str
    cidr: Cidr | None
    written_cidr: bool
    interface: str
    gateway: str
    dhcp_range: str
    bootstrap_ip: str
    cluster_ip: str
    provisioning_bridge: str
    provisioning_mac: str
    external_bridge: str
    external_mac: str
    libvirt_uri: str
    static_ip: str
    static_gateway: str
    static_dns: str
    ntp_servers: tuple[str, ...]
    load_balancer: str | None
    dns_records: str
    bgp: bool
    local_asn: int
    bgp_peers: tuple[BgpPeer, ...]
    communities: tuple[str, ...]
    images: Mapping[str, str]

    @property
    def user_managed(self) -> bool:
        return self.load_balancer == "UserManaged"

    @property
    def disabled(self) -> bool:
        return self.provisioning == DISABLED


@dataclass(frozen=True, slots=True)
class Config:
    release: Release
    site: Site
    values: dict[str, Value]
    name: str
    base_domain: str
    networking: Networking
    control_plane: MachinePool
    arbiter: MachinePool | None
    compute: tuple[MachinePool, ...]
    platforms: tuple[str, ...]
    metal: BareMetalPlatform | None

    def text(self, name: str) -> str:
        """A text field of the top level, '' where it is not set."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    @property
    def platform(self) -> str:
        """The one the installer takes, in its order of looking; '' where there is none."""
        return next((name for name in PLATFORM_ORDER if name in self.platforms), "")

    @property
    def hosts(self) -> tuple[HostEntry, ...]:
        return (self.metal.hosts or ()) if self.metal else ()


PLATFORM_ORDER = (
    "aws", "azure", "baremetal", "gcp", "ibmcloud", "none", "external", "powervc", "openstack", "vsphere", "ovirt",
    "powervs", "nutanix",
)  # fmt: skip
