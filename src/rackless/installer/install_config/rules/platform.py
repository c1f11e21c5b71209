"""platform: exactly one, and the simple fields of bare metal."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.installer.install_config.config import DISABLED, MANAGED, METAL, UNMANAGED, Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import doubt_rule, load_rule
from rackless.installer.install_config.values import parse_ip

_SLIPS_THROUGH = ("none", "external")
"""Platforms whose presence beside another nobody in the installer looks at."""


def one_platform(config: Config) -> Iterator[RuleProblem]:
    if not config.platform:
        yield RuleProblem("platform", "no platform is given", "write platform.baremetal")
    for name in config.platforms:
        if name != config.platform and name not in _SLIPS_THROUGH:
            yield RuleProblem(
                "platform",
                f"{config.platform} and {name} are both given; there can be only one platform",
                f"remove {name}",
                at=f"platform.{name}",
            )


def other_platform(config: Config) -> Iterator[RuleProblem]:
    if config.platform not in ("", "baremetal"):
        yield RuleProblem(
            f"platform.{config.platform}",
            f"only the rules of bare metal are known here, not those of {config.platform}",
            "nothing below this platform was checked",
        )


def provisioning_mode(config: Config) -> Iterator[RuleProblem]:
    if config.metal and config.metal.provisioning not in (MANAGED, UNMANAGED, DISABLED):
        yield RuleProblem(
            f"{METAL}.provisioningNetwork",
            f"{config.metal.provisioning!r} is not Managed, Unmanaged or Disabled",
            "write one of the three, in this spelling",
        )


def provisioning_addresses(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    for name, value in (
        ("bootstrapProvisioningIP", metal.bootstrap_ip),
        ("clusterProvisioningIP", metal.cluster_ip),
        ("provisioningNetworkGateway", metal.gateway),
    ):
        if value and parse_ip(value) is None:
            yield RuleProblem(f"{METAL}.{name}", f"{value!r} is not an IP address", "write an IP address")


def load_balancer(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if (
        metal
        and metal.load_balancer is not None
        and metal.load_balancer not in ("OpenShiftManagedDefault", "UserManaged")
    ):
        yield RuleProblem(
            f"{METAL}.loadBalancer.type",
            f"{metal.load_balancer!r} is not OpenShiftManagedDefault or UserManaged",
            "write one of the two",
            at=f"{METAL}.loadBalancer",
        )


def dns_records(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    if metal.dns_records == "External" and not metal.user_managed:
        yield RuleProblem(
            f"{METAL}.dnsRecordsType",
            "External goes only with a load balancer of yours",
            "add loadBalancer.type: UserManaged, or remove it",
        )


def single_node(config: Config) -> Iterator[RuleProblem]:
    if config.platform == "baremetal" and "bootstrapInPlace" in config.values and config.control_plane.replicas == 1:
        yield RuleProblem(
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
