"""What types alone cannot say: rules between the fields of a lab. Pure; returns every problem it finds."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.errors import Problem
from rackless.spec.lab import LabSpec, Role

FIRST_SERVER = 20
"""Servers start at this address of their network; below it are the gateway, the VIPs and the bootstrap."""


def find_problems(spec: LabSpec) -> Iterator[Problem]:
    yield from _networks(spec)
    yield from _servers(spec)


def _networks(spec: LabSpec) -> Iterator[Problem]:
    cluster, bmc = spec.networks.cluster.cidr, spec.networks.bmc.cidr
    if cluster.overlaps(bmc):
        yield Problem("networks.bmc.cidr", f"{bmc} overlaps networks.cluster.cidr {cluster}", hint="give each its own")
    servers = sum(group.count for group in spec.servers.values())
    for name, cidr in (("cluster", cluster), ("bmc", bmc)):
        room = cidr.num_addresses - 1 - FIRST_SERVER
        if room < max(servers, 1):
            yield Problem(
                f"networks.{name}.cidr",
                f"{cidr} has room for {max(room, 0)} servers, the lab has {servers}",
                hint=f"servers start at the {FIRST_SERVER}th address; use a larger network",
            )


def _servers(spec: LabSpec) -> Iterator[Problem]:
    control_planes = sum(group.count for group in spec.servers.values() if group.role is Role.CONTROL_PLANE)
    if control_planes not in (0, 1, 3, 5):
        yield Problem(
            "servers",
            f"{control_planes} control planes cannot form a quorum that survives a loss",
            hint="use 1, 3 or 5, or none",
        )
    for name, group in spec.servers.items():
        longest = f"{name}-{max(group.count - 1, 0)}.{spec.name}.{spec.domain}"
        if len(longest) > 64:
            yield Problem(
                f"servers.{name}",
                f"the host name {longest} has {len(longest)} characters; Linux takes 64",
                hint="shorten the group, the lab or the domain",
            )
