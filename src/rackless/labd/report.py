"""What `status` says of a lab, put together from what its parts saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rackless.bmc.fleet import BmcState
from rackless.plan.model import LabPlan
from rackless.ports.nodes import Quorum, Vip
from rackless.ports.resources import Record
from rackless.protocol.messages import EtcdMember, EtcdStatus, ServerStatus, VipStatus
from rackless.provisioning.baremetalhost import read


def describe_servers(
    plan: LabPlan, power: Mapping[str, str | None], hosts: Sequence[Record], nodes: Mapping[str, bool]
) -> tuple[ServerStatus, ...]:
    known = {record["metadata"]["name"]: read(record).status for record in hosts}
    return tuple(
        ServerStatus(
            name=server.name,
            role=server.role.value,
            address=str(server.address),
            bmc=server.bmc_origin,
            power=power.get(server.name),
            host=known[server.name].state.value if server.name in known else None,
            error=known[server.name].error_message if server.name in known else "",
            node="up" if nodes.get(server.name) else None,
        )
        for server in plan.servers
    )


def describe_quorum(quorum: Quorum | None) -> EtcdStatus | None:
    if quorum is None:
        return None
    return EtcdStatus(
        healthy=quorum.healthy,
        members=tuple(
            EtcdMember(member.server, member.healthy, member.leader, member.version, member.problem)
            for member in quorum.members
        ),
        leader=quorum.leader,
        complete=quorum.complete,
        detail=quorum.describe(),
    )


def describe_vip(vip: Vip | None) -> VipStatus | None:
    if vip is None:
        return None
    return VipStatus(str(vip.address), tuple(vip.holders), vip.holder, vip.ready, vip.describe())


def describe_power(bmc: BmcState) -> str | None:
    if bmc.power is None:
        return None
    return "starting" if bmc.starting else bmc.power.value
