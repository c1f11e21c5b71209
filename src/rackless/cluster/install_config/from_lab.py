"""A planned lab → `ClusterInput`. Sees names and addresses, as any site would tell them; never servers or drivers.

A lab as planned now has no provisioning network, so its hosts are driven by virtual media.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rackless.cluster.install_config.cluster_input import BootstrapInput, ClusterInput, HostInput
from rackless.cluster.install_config.release import NEWEST, Release
from rackless.plan.addressing import LabPlan, PlannedServer
from rackless.spec.lab import Role

_ROLES = {Role.CONTROL_PLANE: "master", Role.WORKER: "worker"}


@dataclass(frozen=True, slots=True)
class BmcAccount:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Options:
    """What the lab's spec does not say."""

    release: Release = NEWEST
    scheme: str = "redfish-virtualmedia+https"
    verify_certificate: bool = False
    """A lab's BMCs have certificates of the lab's own CA, which the installer's pods do not know."""
    static_bootstrap: bool = False


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
    if options.static_bootstrap:
        gateway = str(plan.gateway.ip)
        bootstrap = BootstrapInput(bootstrap.bridge, bootstrap.mac, str(plan.bootstrap_address), gateway, gateway)
    return ClusterInput(
        name=plan.name,
        base_domain=plan.domain.removeprefix(f"{plan.name}."),
        machine_networks=(str(network),),
        api_vips=(str(plan.api_vip),),
        ingress_vips=(str(plan.ingress_vip),),
        hosts=tuple(_host(server, accounts[server.name], options) for server in plan.servers if server.role in _ROLES),
        pull_secret=pull_secret,
        ssh_key=ssh_key,
        release=options.release,
        bootstrap=bootstrap,
    )


def _host(server: PlannedServer, account: BmcAccount, options: Options) -> HostInput:
    path = "/redfish/v1/Systems/1" if "redfish" in options.scheme else ""
    return HostInput(
        name=server.name,
        role=_ROLES[server.role],
        boot_mac=server.mac,
        bmc_address=f"{options.scheme}://{server.bmc_address}{path}",
        bmc_username=account.username,
        bmc_password=account.password,
        verify_certificate=options.verify_certificate,
    )
