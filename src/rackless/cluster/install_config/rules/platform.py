"""platform: exactly one, and the simple fields of bare metal."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.cluster.install_config.config import DISABLED, MANAGED, METAL, UNMANAGED, Config
from rackless.cluster.install_config.findings import Problem, doubt_rule, load_rule
from rackless.cluster.install_config.release import Release
from rackless.cluster.install_config.values import parse_ip

_SLIPS_THROUGH = ("none", "external")
"""Platforms whose presence beside another nobody in the installer looks at."""


def one_platform(config: Config) -> Iterator[Problem]:
    if not config.platform:
        yield Problem("platform", "no platform is given", "write platform.baremetal")
    for name in config.platforms:
        if name != config.platform and name not in _SLIPS_THROUGH:
            yield Problem(
                "platform",
                f"{config.platform} and {name} are both given; there can be only one platform",
                f"remove {name}",
                at=f"platform.{name}",
            )


def other_platform(config: Config) -> Iterator[Problem]:
    if config.platform not in ("", "baremetal"):
        yield Problem(
            f"platform.{config.platform}",
            f"only the rules of bare metal are known here, not those of {config.platform}",
            "nothing below this platform was checked",
        )


def provisioning_mode(config: Config) -> Iterator[Problem]:
    if config.metal and config.metal.provisioning not in (MANAGED, UNMANAGED, DISABLED):
        yield Problem(
            f"{METAL}.provisioningNetwork",
            f"{config.metal.provisioning!r} is not Managed, Unmanaged or Disabled",
            "write one of the three, in this spelling",
        )


def provisioning_addresses(config: Config) -> Iterator[Problem]:
    metal = config.metal
    if metal is None:
        return
    for name, value in (
        ("bootstrapProvisioningIP", metal.bootstrap_ip),
        ("clusterProvisioningIP", metal.cluster_ip),
        ("provisioningNetworkGateway", metal.gateway),
    ):
        if value and parse_ip(value) is None:
            yield Problem(f"{METAL}.{name}", f"{value!r} is not an IP address", "write an IP address")


def load_balancer(config: Config) -> Iterator[Problem]:
    metal = config.metal
    if (
        metal
        and metal.load_balancer is not None
        and metal.load_balancer not in ("OpenShiftManagedDefault", "UserManaged")
    ):
        yield Problem(
            f"{METAL}.loadBalancer.type",
            f"{metal.load_balancer!r} is not OpenShiftManagedDefault or UserManaged",
            "write one of the two",
            at=f"{METAL}.loadBalancer",
        )


def dns_records(config: Config) -> Iterator[Problem]:
    metal = config.metal
    if metal is None:
        return
    if metal.dns_records == "External" and not metal.user_managed:
        yield Problem(
            f"{METAL}.dnsRecordsType",
            "External goes only with a load balancer of yours",
            "add loadBalancer.type: UserManaged, or remove it",
        )


def single_node(config: Config) -> Iterator[Problem]:
    if config.platform == "baremetal" and "bootstrapInPlace" in config.values and config.control_plane.replicas == 1:
        yield Problem(
            "bootstrapInPlace",
            "a single node cannot be installed this way on the baremetal platform",
            "use platform none, or the agent-based installer",
        )


RULES = (
    load_rule("one-platform", one_platform),
    doubt_rule("other-platform", other_platform),
    load_rule("provisioning-mode", provisioning_mode),
    load_rule("provisioning-addresses", provisioning_addresses),
    load_rule("load-balancer", load_balancer),
    load_rule("dns-records", dns_records),
    load_rule("single-node", single_node, since=Release(4, 23)),
)
