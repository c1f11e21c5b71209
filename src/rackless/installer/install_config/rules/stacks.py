"""Single and dual stack: the service networks decide, the others must go along."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.installer.install_config.config import Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import load_rule

_V6_PRIMARY = Release(4, 13)


def families(config: Config) -> Iterator[RuleProblem]:
    networking = config.networking
    services = networking.service_cidrs
    if networking.dual_stack:
        if len(services) != 2:
            yield RuleProblem(
                "networking.serviceNetwork",
                f"dual stack needs two service networks, one of each family, not {len(services)}",
                "write one IPv4 and one IPv6 network",
            )
        for name, cidrs in (
            ("machineNetwork", networking.machine_cidrs),
            ("serviceNetwork", services),
            ("clusterNetwork", networking.cluster_cidrs),
        ):
            have = {one.version for one in cidrs}
            if have and have != {4, 6}:
                lacking = 6 if have == {4} else 4
                yield RuleProblem(
                    f"networking.{name}",
                    f"dual stack needs an IPv{lacking} network here too",
                    f"add an IPv{lacking} network",
                )
            elif cidrs and cidrs[0].version == 6 and config.release < _V6_PRIMARY:
                yield RuleProblem(
                    f"networking.{name}", f"IPv4 must come first before {_V6_PRIMARY}", "put the IPv4 network first"
                )
    elif networking.families == {4} and len(services) > 1:
        yield RuleProblem("networking.serviceNetwork", "there can be only one service network", "remove the others")


RULES = (load_rule("stacks", families),)
