"""What `status` says of a lab, put together from what its parts saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackless.bmc.fleet import BmcState
from rackless.cluster.reference.etcd import Quorum
from rackless.cluster.reference.vip import Vip
from rackless.plan.model import LabPlan
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import read


def describe_servers(
    plan: LabPlan, power: Mapping[str, str | None], hosts: Sequence[Record], nodes: Mapping[str, bool]
) -> list[dict[str, Any]]:
    known = {record["metadata"]["name"]: read(record).status for record in hosts}
    return [
        {
            "name": server.name,
            "role": server.role.value,
            "address": str(server.address),
            "bmc": f"https://{server.bmc_address}",
            "power": power.get(server.name),
            "host": known[server.name].state.value if server.name in known else None,
            "error": known[server.name].error_message if server.name in known else "",
            "node": "up" if nodes.get(server.name) else None,
        }
        for server in plan.servers
    ]


def describe_quorum(quorum: Quorum | None) -> dict[str, Any] | None:
    if quorum is None:
        return None
    return {
        "healthy": quorum.healthy,
        "members": [
            {
                "name": member.server,
                "healthy": member.healthy,
                "leader": member.leader,
                "version": member.version,
                "problem": member.problem,
            }
            for member in quorum.members
        ],
        "leader": quorum.leader,
        "complete": quorum.complete,
        "detail": quorum.describe(),
    }


def describe_vip(vip: Vip | None) -> dict[str, Any] | None:
    if vip is None:
        return None
    return {
        "address": str(vip.address),
        "holders": list(vip.holders),
        "holder": vip.holder,
        "ready": vip.ready,
        "detail": vip.describe(),
    }


def describe_power(bmc: BmcState) -> str | None:
    if bmc.power is None:
        return None
    return "starting" if bmc.starting else bmc.power.value
