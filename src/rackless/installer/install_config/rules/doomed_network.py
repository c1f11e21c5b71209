"""Addresses and networks that the installer accepts and that cannot work."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.installer.install_config import bmc_address
from rackless.installer.install_config.config import METAL, Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.rule import doubt_rule, fatal_rule
from rackless.installer.install_config.rules.provisioning import dhcp_bounds
from rackless.installer.install_config.rules.vips import fields, place
from rackless.installer.install_config.values import Address, edge_of, parse_ip


def _vips(config: Config) -> Iterator[tuple[str, str, str, Address]]:
    """(what for, field, place in the file, address)"""
    metal = config.metal
    if metal is None:
        return
    api, ingress = fields(config)
    for what, field, vips in (("API", api, metal.api_vips), ("ingress", ingress, metal.ingress_vips)):
        for index, vip in enumerate(vips):
            address = parse_ip(vip)
            if address:
                yield what, field, place(config, field, index), address


def vip_at_the_edge(config: Config) -> Iterator[RuleProblem]:
    for what, field, at, address in _vips(config):
        for cidr in config.networking.machine_cidrs:
            edge = edge_of(cidr.network, address) if address in cidr else ""
            if edge:
                yield RuleProblem(
                    field,
                    f"the {what} VIP {address} is the {edge} address of {cidr}: no host can hold it",
                    "take another address",
                    at=at,
                )


def vip_of_somebody_else(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None or metal.user_managed:
        return
    taken: dict[Address, str] = {}
    others = [
        ("bootstrapExternalStaticIP", metal.static_ip),
        ("bootstrapExternalStaticGateway", metal.static_gateway),
        ("bootstrapExternalStaticDNS", metal.static_dns),
        ("bootstrapProvisioningIP", metal.bootstrap_ip),
        ("clusterProvisioningIP", metal.cluster_ip),
        ("provisioningNetworkGateway", metal.gateway),
    ]
    for host in config.hosts:
        try:
            others.append((f"the BMC of {host.name}", bmc_address.parse(host.bmc_address).host))
        except bmc_address.BmcAddressError:
            continue
    for name, value in others:
        address = parse_ip(value) if value else None
        if address:
            taken.setdefault(address, name)
    for what, field, at, address in _vips(config):
        if address in taken:
            yield RuleProblem(
                field,
                f"the {what} VIP {address} is also {taken[address]}",
                "a VIP must be an address nobody else has",
                at=at,
            )


def ranges(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None or metal.disabled:
        return
    bounds = dhcp_bounds(metal)
    if bounds and bounds[0] > bounds[1]:  # type: ignore[operator]
        yield RuleProblem(
            f"{METAL}.provisioningDHCPRange",
            f"the range {metal.dhcp_range} runs backwards: the DHCP server will serve nobody",
            f"write {bounds[1]},{bounds[0]}",
        )


def provisioning_twins(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    bootstrap, cluster, gateway = parse_ip(metal.bootstrap_ip), parse_ip(metal.cluster_ip), parse_ip(metal.gateway)
    if bootstrap and bootstrap == cluster:
        yield RuleProblem(
            f"{METAL}.clusterProvisioningIP",
            f"{cluster} is also bootstrapProvisioningIP; both are up at the same time",
            "use two addresses",
        )
    if bootstrap and bootstrap == gateway:
        yield RuleProblem(
            f"{METAL}.provisioningNetworkGateway", f"{gateway} is also bootstrapProvisioningIP", "use two addresses"
        )
    for name, address in (("bootstrapProvisioningIP", bootstrap), ("clusterProvisioningIP", cluster)):
        if metal.cidr and address and address in metal.cidr and edge_of(metal.cidr.network, address):
            edge = edge_of(metal.cidr.network, address)
            yield RuleProblem(
                f"{METAL}.{name}",
                f"{address} is the {edge} address of {metal.cidr}: no host can hold it",
                "take another address",
            )


def provisioning_overlap(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None or metal.cidr is None or metal.disabled:
        return
    inside = [("cluster", one) for one in config.networking.cluster_cidrs] + [
        ("service", one) for one in config.networking.service_cidrs
    ]
    for name, other in inside:
        if metal.cidr.version == other.version and metal.cidr.network.overlaps(other.network):
            yield RuleProblem(
                f"{METAL}.provisioningNetworkCIDR",
                f"{metal.cidr} overlaps the {name} network {other}: hosts and pods will not find each other",
                "choose another provisioning network",
            )


def pods_per_host(config: Config) -> Iterator[RuleProblem]:
    """A node needs a gateway, a management port and room for pods in its part of the cluster network."""
    for index, entry in enumerate(config.networking.cluster):
        if entry.cidr and entry.cidr.version == 4 and entry.host_prefix > 28:
            usable = max(0, 2 ** (32 - min(entry.host_prefix, 32)) - 3)
            yield RuleProblem(
                f"networking.clusterNetwork[{index}].hostPrefix",
                f"/{entry.host_prefix} leaves a host {usable} addresses for pods",
                "write 23 (510 pods)",
            )


def nodes_per_network(config: Config) -> Iterator[RuleProblem]:
    v4 = [one for one in config.networking.cluster if one.cidr and one.cidr.version == 4]
    parts = sum(
        2 ** min(one.host_prefix - one.cidr.prefix, 32) for one in v4 if one.cidr and one.host_prefix >= one.cidr.prefix
    )
    pools = [config.control_plane, *config.compute, *([config.arbiter] if config.arbiter else [])]
    nodes = sum(max(0, pool.replicas) for pool in pools)
    if v4 and parts and parts < nodes:
        yield RuleProblem(
            "networking.clusterNetwork",
            f"the cluster network has room for {parts} nodes, {nodes} are wanted",
            "use a larger network or a longer hostPrefix",
        )


def few_pods(config: Config) -> Iterator[RuleProblem]:
    for index, entry in enumerate(config.networking.cluster):
        if entry.cidr and entry.cidr.version == 4 and 24 < entry.host_prefix <= 28:
            yield RuleProblem(
                f"networking.clusterNetwork[{index}].hostPrefix",
                f"/{entry.host_prefix} leaves a host only {2 ** (32 - entry.host_prefix) - 3} pods; the kubelet "
                "allows 250",
                "write 23 (510 pods)",
            )


RULES = (
    fatal_rule("vip-edge", vip_at_the_edge),
    fatal_rule("vip-taken", vip_of_somebody_else),
    fatal_rule("dhcp-range-reversed", ranges),
    fatal_rule("provisioning-twins", provisioning_twins),
    fatal_rule("provisioning-overlap", provisioning_overlap),
    fatal_rule("pods-per-host", pods_per_host),
    fatal_rule("nodes-per-network", nodes_per_network),
    doubt_rule("few-pods", few_pods),
)
