"""What a cluster must be told to become an install-config: one frozen value, whatever it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rackless.installer.install_config.config import DISABLED, MANAGED
from rackless.installer.install_config.decode import Value
from rackless.installer.install_config.release import NEWEST, Release


@dataclass(frozen=True, slots=True)
class HostAddressing:
    """A fixed address on one NIC, or on a VLAN of it."""

    interface: str
    mac: str
    address: str
    prefix: int
    gateway: str
    dns: tuple[str, ...]
    vlan: int | None = None
    mtu: int | None = None


@dataclass(frozen=True, slots=True)
class HostInput:
    name: str
    role: str
    boot_mac: str
    bmc_address: str
    bmc_username: str
    bmc_password: str = field(repr=False)
    verify_certificate: bool = True
    boot_mode: str = ""
    root_device_hints: Mapping[str, str | int | bool] = field(default_factory=dict)
    network: HostAddressing | Mapping[str, Value] | None = None
    """A simple address, or NMState as it stands."""


@dataclass(frozen=True, slots=True)
class ProvisioningInput:
    mode: str = DISABLED
    cidr: str = "172.22.0.0/24"
    bridge: str = "provisioning"
    interface: str = "enp1s0"
    """The hosts' NIC on that network; releases up to 4.8 must be told."""
    dhcp_range: str = ""
    bootstrap_ip: str = ""
    cluster_ip: str = ""
    gateway: str = ""
    mac: str = ""

    @property
    def has_network(self) -> bool:
        return self.mode != DISABLED

    @property
    def serves_dhcp(self) -> bool:
        return self.mode == MANAGED


@dataclass(frozen=True, slots=True)
class BootstrapInput:
    bridge: str = "baremetal"
    mac: str = ""
    static_ip: str = ""
    gateway: str = ""
    dns: str = ""
    libvirt_uri: str = ""


@dataclass(frozen=True, slots=True)
class ProxyInput:
    http: str = ""
    https: str = ""
    no_proxy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mirror:
    source: str
    mirrors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterInput:
    name: str
    base_domain: str
    machine_networks: tuple[str, ...]
    api_vips: tuple[str, ...]
    ingress_vips: tuple[str, ...]
    hosts: tuple[HostInput, ...]
    pull_secret: str = field(repr=False)
    ssh_key: str
    release: Release = NEWEST
    cluster_networks: tuple[tuple[str, int], ...] = (("10.128.0.0/14", 23),)
    service_networks: tuple[str, ...] = ("172.30.0.0/16",)
    provisioning: ProvisioningInput = ProvisioningInput()
    bootstrap: BootstrapInput = BootstrapInput()
    proxy: ProxyInput | None = None
    mirrors: tuple[Mirror, ...] = ()
    trust_bundle: str = ""
    trust_always: bool = False
    """Trust the bundle also where there is no proxy (mirrors)."""
    ntp_servers: tuple[str, ...] = ()
    user_managed_load_balancer: bool = False
    feature_set: str = ""

    def of(self, role: str) -> tuple[HostInput, ...]:
        return tuple(host for host in self.hosts if host.role == role)

    @property
    def fenced(self) -> bool:
        """Two control planes and no arbiter: one must be able to switch off the other."""
        return len(self.of("master")) == 2 and not self.of("arbiter")
