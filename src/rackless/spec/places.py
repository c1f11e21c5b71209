"""The default addresses and ports of a lab: the numbers of its servers, VIPs, gateway and bootstrap, the ports of its BMCs.

The rules of a description (`check`) and the plan that is made from it (`plan/addressing.py`) both read them here.
"""

from __future__ import annotations

from collections.abc import Iterator

from rackless.spec.address import Ip
from rackless.spec.lab import LabSpec
from rackless.spec.members import Member, MemberBmc
from rackless.spec.servers import BmcScheme

BMC_ROUTER = 2
INGRESS_VIP = 4
API_VIP = 5
BOOTSTRAP = 9
RANGE = (10, 19)
FIRST_SERVER = 20
"""Servers start at this address of their network; below it are the gateway, the VIPs and the bootstrap."""

INSTALLERS = (2, 3)
"""Of a provisioning network: what an installer takes for its bootstrap machine, and for the cluster."""


def numbers(spec: LabSpec) -> dict[str, int]:
    """The host number of every server by name: its address number in every network. A group may say where it begins.

    Servers that are made on demand come last: when a group becomes elastic, no server's address changes.
    """
    found: dict[str, int] = {}
    floating: list[str] = []
    last: list[str] = []
    for prefix, group in spec.servers.items():
        names, elastic = group.names(prefix), group.elastic_names(prefix)
        if group.first is not None:
            found |= {name: group.first + index for index, name in enumerate((*names, *elastic))}
        else:
            floating += names
            last += elastic
    claimed, following = set(found.values()), FIRST_SERVER
    for name in (*floating, *last):
        while following in claimed:
            following += 1
        found[name] = following
        following += 1
    return found


def members(spec: LabSpec) -> dict[str, Member]:
    """The servers that are described one by one, by name."""
    return {member.name: member for group in spec.servers.values() for member in group.members}


def gateway(spec: LabSpec) -> Ip:
    return spec.networks.cluster.gateway or spec.networks.cluster.cidr[1]


def each_member(spec: LabSpec) -> Iterator[tuple[str, Member]]:
    for prefix, group in spec.servers.items():
        for index, member in enumerate(group.members):
            yield f"servers.{prefix}.members.{index}", member


def bmc_port(scheme: BmcScheme, bmc: MemberBmc) -> int:
    return bmc.port or (623 if scheme is BmcScheme.IPMI else 80 if bmc.http else 443)
