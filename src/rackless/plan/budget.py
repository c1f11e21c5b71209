"""What a lab needs of its machine, held against what the machine has. Pure: both come in as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rackless.plan.model import LabPlan, PlannedServer
from rackless.spec.lab import GIB, MIB, LabSpec, Role
from rackless.spec.units import render_size

DAEMONS = 700 * MIB
"""labd, Ironic, libvirtd and what they cache."""
USED_DISK = 1 * GIB
"""What a thin system disk of the reference cluster really takes."""
SPARE_DISK = 2 * GIB
"""Kept free on the machine."""
SLOW_FSYNC = 0.010
"""etcd's own advice: 99 of 100 syncs of its log within 10 ms."""

OPENSHIFT = {Role.CONTROL_PLANE: (12 * GIB, 4), Role.WORKER: (8 * GIB, 2)}
"""The least a role needs for OpenShift: memory, virtual CPUs."""
RECOMMENDED = {Role.CONTROL_PLANE: (16 * GIB, 4), Role.WORKER: (8 * GIB, 2)}
"""What its documentation asks for."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The hypervisor as observed."""

    memory: int
    available: int
    cpus: int
    free_disk: int
    kvm: bool | None = None
    fsync: float | None = None
    """Seconds of a slow sync (the 99th of 100); None when it was not measured."""
    promised: int = 0
    """Memory of other labs' servers that run or may be started."""


@dataclass(frozen=True, slots=True)
class Finding:
    level: Literal["error", "warning", "info"]
    about: str
    says: str
    fix: str = ""


def check_budget(spec: LabSpec, plan: LabPlan, machine: Machine) -> list[Finding]:
    return [*_memory(spec, plan, machine), *_cpus(plan, machine), *_disk(plan, machine), *_openshift(plan)]


def _started(plan: LabPlan) -> list[PlannedServer]:
    """Spare servers cost nothing until somebody starts them."""
    return [server for server in plan.servers if server.role is not Role.SPARE]


def _memory(spec: LabSpec, plan: LabPlan, machine: Machine) -> Iterator[Finding]:
    needed = sum(server.memory_mib for server in _started(plan)) * MIB
    total = needed + DAEMONS + machine.promised
    words = f"the servers have {_round(needed)}, the daemons take {_round(DAEMONS)}" + (
        f", other labs {_round(machine.promised)}" if machine.promised else ""
    )
    if total > machine.memory:
        yield Finding(
            "warning" if spec.memory_overcommit else "error",
            "memory",
            f"{words}: more than the {_round(machine.memory)} of this machine",
            "make the servers smaller or fewer, stop other labs, or say memory_overcommit: true",
        )
    elif needed + DAEMONS > machine.available:
        yield Finding(
            "warning", "memory", f"{words}; {_round(machine.available)} of {_round(machine.memory)} are available now"
        )


def _cpus(plan: LabPlan, machine: Machine) -> Iterator[Finding]:
    wanted = sum(server.vcpus for server in _started(plan))
    if wanted > machine.cpus:
        yield Finding("info", "cpu", f"{wanted} virtual CPUs share {machine.cpus} real ones; that is slower, and works")


def _disk(plan: LabPlan, machine: Machine) -> Iterator[Finding]:
    promised = sum(sum(server.disks) for server in plan.servers)
    started = _started(plan)
    likely = len(started) * USED_DISK
    if likely + SPARE_DISK > machine.free_disk:
        yield Finding(
            "error",
            "disk",
            f"{len(started)} servers take about {_round(likely)}, and {_round(machine.free_disk)} are free",
            "free some space, or put the disks elsewhere with storage:",
        )
    elif promised > machine.free_disk:
        yield Finding(
            "info",
            "disk",
            f"the disks may grow to {_round(promised)}, and {_round(machine.free_disk)} are free; they are thin",
        )
    if machine.fsync is not None and machine.fsync > SLOW_FSYNC:
        yield Finding(
            "warning",
            "disk",
            f"a sync of the disk takes {machine.fsync * 1000:.0f} ms; etcd wants {SLOW_FSYNC * 1000:.0f} ms",
            "put the disks on faster storage with storage:, or expect elections under load",
        )


def _openshift(plan: LabPlan) -> Iterator[Finding]:
    for role, least in OPENSHIFT.items():
        small = [s for s in plan.servers if s.role is role and not _has(s, least)]
        if small:
            yield Finding(
                "info",
                "openshift",
                f"{_some(small)}: enough for the reference cluster; as a {role} of OpenShift it needs {_both(least)}",
            )
        modest = [s for s in plan.servers if s.role is role and _has(s, least) and not _has(s, RECOMMENDED[role])]
        if modest:
            yield Finding(
                "info",
                "openshift",
                f"{_some(modest)}: the least for a {role} of OpenShift; {_both(RECOMMENDED[role])} are recommended",
            )


def _has(server: PlannedServer, size: tuple[int, int]) -> bool:
    return server.memory_mib * MIB >= size[0] and server.vcpus >= size[1]


def _both(size: tuple[int, int]) -> str:
    return f"{render_size(size[0])} and {size[1]} virtual CPUs"


def _some(servers: list[PlannedServer]) -> str:
    return ", ".join(server.name for server in servers[:3]) + (" …" if len(servers) > 3 else "")


def _round(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size // MIB} MiB"
