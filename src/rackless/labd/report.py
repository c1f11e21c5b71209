"""The answer of `rackless status`, put together from the observations of the lab's parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypedDict

from rackless.bmc.fleet import BmcState
from rackless.plan.model import LabPlan
from rackless.ports.nodes import Quorum, Vip
from rackless.ports.resources import Record
from rackless.protocol.messages import BmcSeen, BootTarget, EtcdMember, EtcdStatus, MetalStatus, ServerStatus, VipStatus
from rackless.provisioning.baremetalhost import NOT_TAKEN, PAUSED, read


class BootFields(TypedDict):
    boot: BootTarget | None
    boot_once: bool
    media: str | None


def describe_servers(
    plan: LabPlan,
    power: Mapping[str, str | None],
    hosts: Sequence[Record],
    nodes: Mapping[str, bool],
    bmcs: Iterable[BmcSeen] = (),
    machines: Mapping[str, str] = MappingProxyType({}),
) -> tuple[ServerStatus, ...]:
    """`machines` are the phases of Machines, by name."""
    known = {record["metadata"]["name"]: read(record).status for record in hosts}
    held = {record["metadata"]["name"]: machines.get(_holder(record)) for record in hosts}
    seen = {bmc.server: bmc for bmc in bmcs}
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
            machine=held.get(server.name),
            **_boot(seen.get(server.name)),
        )
        for server in plan.servers
    )


def describe_metal(
    plan: LabPlan, hosts: Sequence[Record], nodes: Mapping[str, bool], machines: Mapping[str, str]
) -> tuple[MetalStatus, ...]:
    """Of metal the lab knows what the records of its hosts say."""
    records = {record["metadata"]["name"]: record for record in hosts}
    found = []
    for name, metal in plan.metal.items():
        record = records.get(name)
        host = read(record) if record is not None else None
        taken = host is not None and host.annotations.get(PAUSED) != NOT_TAKEN
        found.append(
            MetalStatus(
                name=name,
                bmc=metal.bmc,
                mac=metal.mac,
                taken=taken,
                power=("on" if host.status.powered_on else "off") if host is not None and taken else None,
                host=host.status.state.value if host is not None else None,
                error=host.status.error_message if host is not None else "",
                node="up" if nodes.get(name) else None,
                machine=machines.get(_holder(record)) if record is not None else None,
            )
        )
    return tuple(found)


def _holder(record: Record) -> str:
    """The consumer of a host: a Machine, or another object."""
    return str(((record.get("spec") or {}).get("consumerRef") or {}).get("name") or "")


def _boot(bmc: BmcSeen | None) -> BootFields:
    if bmc is None:
        return {"boot": None, "boot_once": False, "media": None}
    asked = bmc.boot != "none"
    return {"boot": bmc.boot if asked else bmc.first, "boot_once": asked and bmc.once, "media": bmc.media}


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
