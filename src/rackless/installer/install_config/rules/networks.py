"""networking: the machine, cluster and service networks, each for itself and against the others."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from rackless.installer.install_config.config import OVN, Config, Networking, PodNetwork
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import doubt_rule, load_rule
from rackless.installer.install_config.values import Cidr, overlap

_OVN_INSIDE = (
    ("join", ("100.64.0.0/16", "fd98::/64")),
    ("transit", ("100.88.0.0/16", "fd97::/64")),
    ("masquerade", ("169.254.0.0/17", "fd69::/112")),
)
_DOCKER = ip_network("172.17.0.0/16")


def network_type(config: Config) -> Iterator[RuleProblem]:
    kind = config.networking.type
    if kind.lower() in ("openshiftsdn", "kuryr"):
        yield RuleProblem("networking.networkType", f"{kind} is not supported any more", f"use {OVN}")


def well_formed(config: Config) -> Iterator[RuleProblem]:
    for path, cidr in _all(config.networking):
        reason = _malformed(cidr)
        if not reason and path.startswith("networking.serviceNetwork"):
            reason = _bad_service_size(cidr)
        if reason:
            yield RuleProblem(path, reason, f"write {cidr.network}" if cidr.has_host_bits else "choose another network")


def _malformed(cidr: Cidr) -> str:
    if cidr.address.is_unspecified:
        return f"{cidr} has no address"
    if cidr.has_host_bits:
        return f"{cidr} has bits set beyond its prefix; the network is {cidr.network}"
    return ""


def _bad_service_size(cidr: Cidr) -> str:
    if cidr.version == 4 and cidr.prefix < 12:
        return "an IPv4 service network must be /12 or smaller (/16 is usual)"
    if cidr.version == 6 and cidr.prefix < 108:
        return "an IPv6 service network should be /112"
    return ""


def overlaps(config: Config) -> Iterator[RuleProblem]:
    networks = [(path, cidr) for path, cidr in _all(config.networking) if not _malformed(cidr)]
    for index, (path, cidr) in enumerate(networks):
        for other_path, other in networks[:index]:
            if overlap(cidr, other):
                yield RuleProblem(
                    path, f"{cidr} overlaps {_kind(other_path)} network {other}", "choose networks that do not overlap"
                )


def ovn_inside(config: Config) -> Iterator[RuleProblem]:
    """OVN-Kubernetes uses networks of its own, which nothing else may touch."""
    networking = config.networking
    if networking.type.lower() != OVN.lower():
        return
    for path, cidr in _all(networking):
        if _malformed(cidr):
            continue
        for name, defaults in _OVN_INSIDE:
            inside = ip_network(defaults[cidr.version == 6])
            if name == "join" and cidr.version == 4 and networking.join:
                continue
            if cidr.network.overlaps(inside):
                yield RuleProblem(
                    path, f"{cidr} overlaps {inside}, which {OVN} uses inside ({name})", "choose another network"
                )


def host_prefix(config: Config) -> Iterator[RuleProblem]:
    networking = config.networking
    for index, entry in enumerate(networking.cluster):
        if entry.cidr is None or _malformed(entry.cidr):
            continue
        if networking.type != OVN and entry.host_prefix == 0:
            continue
        reason = _bad_prefix(entry, networking.cluster[:index])
        if reason:
            yield RuleProblem(
                f"networking.clusterNetwork[{index}].hostPrefix",
                reason,
                f"write {64 if entry.cidr.version == 6 else 23}",
                at=f"networking.clusterNetwork[{index}]",
            )


def _bad_prefix(entry: PodNetwork, before: tuple[PodNetwork, ...]) -> str:
    prefix, cidr = entry.host_prefix, entry.cidr
    assert cidr is not None
    if prefix < 0:
        return "hostPrefix must be positive"
    if prefix < cidr.prefix:
        return f"/{prefix} for each host is larger than the whole network {cidr}" if prefix else "hostPrefix is missing"
    if cidr.version == 6 and prefix != 64:
        return "hostPrefix must be 64 in an IPv6 network"
    same = [one for one in before if one.cidr and one.cidr.version == 4]
    if cidr.version == 4 and any(one.host_prefix != prefix for one in same):
        return "hostPrefix must be the same in all IPv4 networks"
    return ""


def mtu(config: Config) -> Iterator[RuleProblem]:
    if config.networking.mtu and config.platform != "aws":
        yield RuleProblem("networking.clusterNetworkMTU", "the MTU can be set only on AWS", "remove it")


def ovn_config(config: Config) -> Iterator[RuleProblem]:
    networking = config.networking
    if not networking.ovn:
        return
    if networking.type.lower() != OVN.lower():
        yield RuleProblem(
            "networking.networkType",
            f"ovnKubernetesConfig goes only with {OVN}",
            f"use {OVN} or remove ovnKubernetesConfig",
        )
    join, path = networking.join, "networking.ovnKubernetesConfig.ipv4.internalJoinSubnet"
    if join is None:
        return
    reason = _malformed(join)
    if reason:
        yield RuleProblem(path, reason, "write a network address")
        return
    for other_path, other in _all(networking):
        if overlap(join, other):
            yield RuleProblem(path, f"{join} overlaps {_kind(other_path)} network {other}", "choose another network")
    v4 = [one for one in networking.cluster if one.cidr and one.cidr.version == 4]
    nodes = sum(
        2 ** min(one.host_prefix - one.cidr.prefix, 64) for one in v4 if one.cidr and one.host_prefix >= one.cidr.prefix
    )
    if join.version == 4 and nodes >= 2 ** (32 - join.prefix) - 3:
        yield RuleProblem(
            path,
            f"{join} has too few addresses for the {nodes} nodes the cluster network allows",
            "choose a larger network",
        )


def observability(config: Config) -> Iterator[RuleProblem]:
    for parent, prefix in ((config.values, ""), (config.values.get("networking"), "networking.")):
        block = parent.get("networkObservability") if isinstance(parent, dict) else None
        if isinstance(block, dict) and block.get("installationPolicy") not in ("InstallAndEnable", "NoAction"):
            yield RuleProblem(
                f"{prefix}networkObservability.installationPolicy",
                "it must be InstallAndEnable or NoAction",
                "write one of the two",
                at=f"{prefix}networkObservability",
            )


def docker_bridge(config: Config) -> Iterator[RuleProblem]:
    for path, cidr in _all(config.networking):
        if cidr.version == 4 and cidr.network.overlaps(_DOCKER):
            yield RuleProblem(
                path,
                f"{cidr} overlaps {_DOCKER}, the usual network of Docker's bridge",
                "fine where no Docker is about",
            )


def _all(networking: Networking) -> Iterator[tuple[str, Cidr]]:
    """Every network with its path, in the order in which the installer compares them."""
    for index, one in enumerate(networking.machine):
        if one:
            yield f"networking.machineNetwork[{index}]", one
    for index, one in enumerate(networking.service):
        if one:
            yield f"networking.serviceNetwork[{index}]", one
    for index, entry in enumerate(networking.cluster):
        if entry.cidr:
            yield f"networking.clusterNetwork[{index}].cidr", entry.cidr


def _kind(path: str) -> str:
    return path.removeprefix("networking.").partition("Network")[0]


RULES = (
    load_rule("network-type", network_type, since=Release(4, 15)),
    load_rule("network-form", well_formed),
    load_rule("network-overlap", overlaps),
    load_rule("network-ovn-inside", ovn_inside, since=Release(4, 19)),
    load_rule("host-prefix", host_prefix),
    load_rule("cluster-network-mtu", mtu),
    load_rule("ovn-config", ovn_config),
    load_rule("network-observability", observability),
    doubt_rule("docker-bridge", docker_bridge),
)
