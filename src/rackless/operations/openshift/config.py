"""The install-config of a lab with `method: openshift`: a person's own, which must be the lab's, or one written of the lab."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.cluster.reference.keys import Keys
from rackless.errors import InputError
from rackless.installer.install_config.checking import read_config
from rackless.installer.install_config.config import Config
from rackless.installer.install_config.from_lab import BmcAccount, from_lab
from rackless.installer.install_config.values import parse_mac
from rackless.installer.install_config.writing import write
from rackless.operations.install.lab import NO_PULL_SECRET
from rackless.operations.rehearsal.rehearse import read_source
from rackless.plan.model import LabPlan, PlannedServer
from rackless.run.paths import LabPaths
from rackless.spec.cluster import OpenshiftSpec
from rackless.trust.bmc_passwords import secret_of
from rackless.trust.identity import USERNAME, Identity


def lab_config(wanted: OpenshiftSpec, plan: LabPlan, paths: LabPaths) -> str:
    """Raises InputError, also for an install-config of another site than the lab."""
    if wanted.install_config is None:
        key = Keys(paths.cluster_keys).ensure_admin(plan.name).public
        accounts = {server.name: _account(server, paths) for server in plan.servers}
        return write(from_lab(plan, accounts, NO_PULL_SECRET, key))
    text = read_source(wanted.install_config)
    config = read_config(text)
    if config is not None and (wrong := list(_differences(config, plan))):
        raise InputError(
            f"{wanted.install_config.name} is not for the lab {plan.name}",
            why="; ".join(wrong),
            hint=f"`rackless init --from {wanted.install_config.name}` writes the lab that fits it",
        )
    return text


def _account(server: PlannedServer, paths: LabPaths) -> BmcAccount:
    own = paths.secrets / f"{secret_of(server.name)}.password"
    identity = Identity(paths)
    if server.bmc is not None and own.exists():
        return BmcAccount(server.bmc.username, identity.password(secret_of(server.name)))
    return BmcAccount(server.bmc.username if server.bmc is not None else USERNAME, identity.password("bmc"))


def _differences(config: Config, plan: LabPlan) -> Iterator[str]:
    """What the installer would look for in vain in this lab."""
    metal = config.metal
    if metal is None:
        return  # said better by the rules
    pairs = (
        ("the cluster", f"{config.name}.{config.base_domain}".rstrip("."), plan.domain),
        ("the API VIP", next(iter(metal.api_vips), ""), str(plan.api_vip)),
        ("the ingress VIP", next(iter(metal.ingress_vips), ""), str(plan.ingress_vip)),
        ("the bridge of the bootstrap machine", metal.external_bridge, plan.baremetal.name),
    )
    for what, given, planned in pairs:
        if given and given != planned:
            yield f"{what} is {given} there and {planned} in the lab"
    macs = {nic.mac for server in plan.servers for nic in server.nics}
    for host in config.hosts:
        if parse_mac(host.boot_mac) is not None and host.boot_mac.lower() not in macs:
            yield f"the lab has no server with the boot MAC {host.boot_mac} of {host.name}"
