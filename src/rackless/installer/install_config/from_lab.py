"""A planned lab → `ClusterInput`. Sees names and addresses, as any site would tell them; never servers or drivers.

What the lab says is taken from it: networks, VIPs, provisioning, firmware. What only the installation knows comes as
`Options`: who takes which part, fixed addresses, proxy, mirrors, certificates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rackless.installer.install_config.cluster_input import (
    BootstrapInput,
    ClusterInput,
    HostAddressing,
    HostInput,
    Mirror,
    ProvisioningInput,
    ProxyInput,
)
from rackless.installer.install_config.config import MANAGED, UNMANAGED
from rackless.installer.install_config.release import NEWEST, Release
from rackless.plan.addressing import LabPlan, PlannedServer
from rackless.ports.hypervisor import Firmware
from rackless.spec.lab import Role
from rackless.spec.servers import BmcScheme

NONE = "none"
PARTS = ("master", "worker", "arbiter", NONE)
_ROLES = {Role.CONTROL_PLANE: "master", Role.WORKER: "worker"}


@dataclass(frozen=True, slots=True)
class BmcAccount:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Options:
    """What the lab's spec does not say."""

    release: Release = NEWEST
    scheme: str = ""
    """Of all BMC addresses, in place of the one that each server's group says."""
    verify_certificate: bool = False
    """A lab's BMCs have certificates of the lab's own CA, which the installer's pods do not know."""
    static_bootstrap: bool = False
    """As it has in a lab in which nobody answers DHCP."""
    static_hosts: bool = False
    """Every host gets its planned address by NMState, not by DHCP; as in such a lab."""
    vlan: int | None = None
    """With `static_hosts`: the VLAN the addresses are on."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Servers that take another part than their group says: master, worker, arbiter, or none."""
    proxy: ProxyInput | None = None
    mirrors: tuple[Mirror, ...] = ()
    trust_bundle: str = ""


def from_lab(
    plan: LabPlan,
    accounts: Mapping[str, BmcAccount],
    pull_secret: str,
    ssh_key: str,
    options: Options = Options(),  # noqa: B008  (frozen)
) -> ClusterInput:
    """`accounts` by the server's name; spare servers are left to day 2."""
    network = plan.gateway.network
    bootstrap = BootstrapInput(bridge=plan.baremetal.name, mac=plan.bootstrap_mac)
    if options.static_bootstrap or plan.tells_addresses:
        gateway = str(plan.gateway.ip)
        bootstrap = BootstrapInput(bootstrap.bridge, bootstrap.mac, str(plan.bootstrap_address), gateway, gateway)
    return ClusterInput(
        name=plan.name,
        base_domain=plan.domain.removeprefix(f"{plan.name}."),
        machine_networks=(str(network),),
        api_vips=(str(plan.api_vip),),
        ingress_vips=(str(plan.ingress_vip),),
        hosts=tuple(
            _host(server, role, plan, accounts[server.name], options)
            for server in plan.servers
            if (role := options.roles.get(server.name, _ROLES.get(server.role, NONE))) != NONE
        ),
        pull_secret=pull_secret,
        ssh_key=ssh_key,
        release=options.release,
        bootstrap=bootstrap,
        provisioning=_provisioning(plan),
        proxy=options.proxy,
        mirrors=options.mirrors,
        trust_bundle=options.trust_bundle,
        trust_always=bool(options.trust_bundle and options.mirrors and options.proxy is None),
    )


def _provisioning(plan: LabPlan) -> ProvisioningInput:
    if plan.provisioning is not None:
        return ProvisioningInput(MANAGED, str(plan.provisioning.addresses[0].network), plan.provisioning.name)
    if plan.provisioning_dhcp is not None:
        return ProvisioningInput(UNMANAGED, str(plan.provisioning_dhcp.gateway.network), plan.provisioning_dhcp.bridge)
    return ProvisioningInput()


def _host(server: PlannedServer, role: str, plan: LabPlan, account: BmcAccount, options: Options) -> HostInput:
    transport = "" if server.bmc_scheme is BmcScheme.IPMI else "+http" if server.bmc and server.bmc.http else "+https"
    own = f"{server.bmc_scheme}{transport}"
    scheme = options.scheme or own
    return HostInput(
        name=server.name,
        role=role,
        boot_mac=next((nic.mac for nic in server.nics if nic.network == "provisioning"), server.mac),
        bmc_address=server.bmc_url_as(scheme),
        bmc_username=account.username,
        bmc_password=account.password,
        verify_certificate=options.verify_certificate,
        boot_mode=_boot_mode(server),
        root_device_hints=dict(server.root_device),
        network=_network(server, plan, options.vlan) if options.static_hosts or plan.tells_addresses else None,
    )


def _boot_mode(server: PlannedServer) -> str:
    if server.firmware is Firmware.BIOS:
        return "legacy"
    return "UEFISecureBoot" if server.secure_boot else ""


def _network(server: PlannedServer, plan: LabPlan, vlan: int | None) -> HostAddressing:
    gateway = plan.gateway
    position = [nic.mac for nic in server.nics].index(server.mac)
    return HostAddressing(
        interface=f"enp{position + 1}s0",  # as a q35 server counts its slots
        mac=server.mac,
        address=str(server.address),
        prefix=gateway.network.prefixlen,
        gateway=str(gateway.ip),
        dns=(str(gateway.ip),),
        vlan=vlan,
        mtu=plan.cluster.mtu,
    )
