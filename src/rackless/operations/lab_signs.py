"""Evidence for `rackless why` beside what labd tells: DHCP and DNS answers on the lab's networks, nodes' journals, consoles of
servers that are not up.

Read only, and collected in parallel; what does not answer is left out.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from rackless.codec import BadValue, decode
from rackless.diagnosis.evidence import read_start
from rackless.diagnosis.lab_evidence import CONSOLE, JOURNAL, LabEvidence, NameAnswer, Processors, Surroundings
from rackless.errors import RacklessError
from rackless.operations.access import inside_command, ssh_command
from rackless.operations.lab_registry import current_plan
from rackless.plan.model import LabPlan
from rackless.ports.drivers import Drivers
from rackless.protocol.messages import LabStatus
from rackless.run.paths import LabPaths

WITHIN = 20.0
JOURNAL_WITHIN = 90.0
"""Seconds; ssh to a node that is emulated takes 40 of them on a busy computer."""
JOURNAL_MINUTES = 10
_JOURNAL = (
    f"sudo -n journalctl -b --no-pager -o cat --since=-{JOURNAL_MINUTES}min -u etcd -u rackless-vip -u rackless-api"
)
_MOST_LINES = 2000


@dataclass(frozen=True, slots=True)
class LabSigns:
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    surroundings: Surroundings = field(default_factory=Surroundings)
    processors: Processors | None = None


async def look_for_signs(paths: LabPaths, status: LabStatus, drivers: Drivers) -> LabSigns:
    with suppress(RacklessError):
        plan = current_plan(paths)
        told, journals = await asyncio.gather(_around(plan, paths, drivers), _journals(paths, status, drivers))
        consoles = {CONSOLE + name: tuple(read_start(paths.console(name))) for name in absent(status)}
        return read_signs(told, {**journals, **consoles}, status, plan, drivers.computer.cpus())
    return LabSigns()


def absent(status: LabStatus) -> list[str]:
    return LabEvidence(status.lab, "running", status).absent_nodes()


def read_signs(
    told: Mapping[str, Any], logs: Mapping[str, tuple[str, ...]], status: LabStatus, plan: LabPlan, cpus: int
) -> LabSigns:
    on = {server.name for server in status.servers if server.power == "on"}
    promised = sum(server.vcpus for server in plan.servers if server.name in on)
    around = read_surroundings({**told, "dhcp_own": _dhcp_own(plan)})
    return LabSigns(logs, around, read_processors({**told, "cpus": cpus, "promised": promised}))


def read_surroundings(told: Mapping[str, Any]) -> Surroundings:
    """As the program that asks tells it, or an archive has it."""
    try:
        names = tuple(decode(NameAnswer, one) for one in told.get("names") or ())
        dhcp = {network: tuple(servers) for network, servers in (told.get("dhcp") or {}).items()}
    except BadValue:  # of another version
        return Surroundings()
    return Surroundings(names, dhcp, told.get("dhcp_own") or {})


def read_processors(told: Mapping[str, Any]) -> Processors | None:
    if told.get("waiting") is None or "cpus" not in told:
        return None
    return Processors(
        int(told["cpus"]), int(told["promised"]), float(told["waiting"]), float(told.get("stolen") or 0.0)
    )


def questions(plan: LabPlan) -> dict[str, Any]:
    """What the program is to ask: every name that the lab's DNS must know, and the addresses of those with a name of their own."""
    names: dict[str, list[str]] = {}
    backwards: dict[str, list[str]] = {}
    for record in plan.cluster.records:
        for name in record.names:
            plain = name.replace("*.", "any.", 1) if name.startswith("*.") else name
            names.setdefault(plain, []).append(str(record.address))
            if plain == name:
                backwards.setdefault(str(record.address), []).append(name)
    return {
        "dns": {"server": str(plan.gateway.ip), "names": {**names, **backwards}},
        "dhcp": {network.name: network.bridge for network in _served(plan)},
    }


def _served(plan: LabPlan) -> list[Any]:
    return [each for each in (plan.cluster, plan.provisioning_dhcp or plan.network_boot) if each is not None]


def _dhcp_own(plan: LabPlan) -> dict[str, str]:
    return {network.name: str(network.gateway.ip) for network in _served(plan)}


async def _around(plan: LabPlan, paths: LabPaths, drivers: Drivers) -> dict[str, Any]:
    program = [sys.executable, "-P", "-m", "rackless.drivers.nodes.surroundings", json.dumps(questions(plan))]
    try:
        command = inside_command(paths.name, program, paths.roots, drivers)
        done = await drivers.processes.run(command, check=False, within=WITHIN)
        found: dict[str, Any] = json.loads(done.stdout)
    except (RacklessError, ValueError):
        return {}
    return found


def suffers(status: LabStatus) -> bool:
    """Whether etcd or the API of a cluster that should answer is not well, at this look."""
    etcd, vip = status.etcd, status.vip
    unwell = (etcd is not None and not etcd.complete) or (vip is not None and not vip.ready)
    return status.reached == "cluster" and unwell


def better(first: LabStatus, again: LabStatus) -> LabStatus:
    """The later look, with what was well in the earlier one: a fault lasts, and what is slow is late now here, now there."""
    etcd, vip = again.etcd, again.vip
    if first.etcd is not None and etcd is not None:
        well = {one.name: one for one in first.etcd.members if one.healthy}
        members = tuple(well.get(one.name, one) for one in etcd.members)
        healthy = sum(one.healthy for one in members)
        etcd = replace(etcd, members=members, healthy=healthy, complete=etcd.complete or healthy == len(members))
    if first.vip is not None and first.vip.ready:
        vip = first.vip
    return replace(again, etcd=etcd, vip=vip)


async def _journals(paths: LabPaths, status: LabStatus, drivers: Drivers) -> dict[str, tuple[str, ...]]:
    """Of the control planes, where the cluster is not well: ssh to a node costs it something."""
    if not suffers(status):
        return {}
    asked = [server.name for server in status.servers if server.role == "control-plane" and server.power == "on"]
    told = await asyncio.gather(*(_journal(paths, name, drivers) for name in asked))
    return {JOURNAL + name: lines for name, lines in zip(asked, told, strict=True) if lines}


async def _journal(paths: LabPaths, name: str, drivers: Drivers) -> tuple[str, ...]:
    try:
        command = ssh_command(paths.name, name, [_JOURNAL], paths.roots)
        done = await drivers.processes.run(command, check=False, within=JOURNAL_WITHIN)
    except RacklessError:
        return ()
    return tuple(done.stdout.splitlines()[-_MOST_LINES:])
