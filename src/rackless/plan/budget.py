"""Memory, CPUs and disk that a lab needs, compared with what the hypervisor has. Pure: both come in as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rackless.plan.model import LabPlan, PlannedServer
from rackless.spec.disks import DiskCache
from rackless.spec.lab import GIB, MIB, LabSpec, Role
from rackless.spec.units import render_size

DAEMONS = 700 * MIB
"""labd, Ironic, libvirtd and what they cache."""
USED_DISK = 1 * GIB
"""What a thin system disk of the reference cluster really takes."""
SPARE_DISK = 2 * GIB
"""Kept free on the computer."""
SLOW_FSYNC = 0.010
"""etcd's own advice: 99 of 100 syncs of its log within 10 ms."""

OPENSHIFT = {Role.CONTROL_PLANE: (12 * GIB, 4), Role.WORKER: (8 * GIB, 2)}
"""The least a role needs for OpenShift: memory, virtual CPUs."""
RECOMMENDED = {Role.CONTROL_PLANE: (16 * GIB, 4), Role.WORKER: (8 * GIB, 2)}
"""What its documentation asks for."""


@dataclass(frozen=True, slots=True)
class Capacity:
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
class BudgetFinding:
    level: Literal["error", "warning", "info"]
    about: str
    says: str
    fix: str = ""


def check_budget(spec: LabSpec, plan: LabPlan, capacity: Capacity) -> list[BudgetFinding]:
    return [*_memory(spec, plan, capacity), *_cpus(plan, capacity), *_disk(spec, plan, capacity), *_openshift(plan)]


def _started(plan: LabPlan) -> list[PlannedServer]:
    """Spare servers cost nothing until somebody starts them."""
    return [server for server in plan.servers if server.role is not Role.SPARE]


def _memory(spec: LabSpec, plan: LabPlan, capacity: Capacity) -> Iterator[BudgetFinding]:
    needed = sum(server.memory_mib for server in _started(plan)) * MIB
    total = needed + DAEMONS + capacity.promised
    words = f"the servers have {_round(needed)}, the daemons take {_round(DAEMONS)}" + (
        f", other labs {_round(capacity.promised)}" if capacity.promised else ""
    )
    if total > capacity.memory:
        yield BudgetFinding(
            "warning" if spec.memory_overcommit else "error",
            "memory",
            f"{words}: more than the {_round(capacity.memory)} of this computer",
            "make the servers smaller or fewer, stop other labs, or say memory_overcommit: true",
        )
    elif total + (more := sum(server.memory_mib for server in plan.elastic) * MIB) > capacity.memory:
        yield BudgetFinding(
            "warning",
            "memory",
            f"{words}; with all servers on demand {_round(more)} more: that is more than the {_round(capacity.memory)} of "
            "this computer",
            "make elastic.max of the groups smaller",
        )
    elif needed + DAEMONS > capacity.available:
        yield BudgetFinding(
            "warning", "memory", f"{words}; {_round(capacity.available)} of {_round(capacity.memory)} are available now"
        )


def _cpus(plan: LabPlan, capacity: Capacity) -> Iterator[BudgetFinding]:
    wanted = sum(server.vcpus for server in _started(plan))
    if wanted > capacity.cpus:
        yield BudgetFinding(
            "info", "cpu", f"{wanted} virtual CPUs share {capacity.cpus} real ones; that is slower, and works"
        )


def _disk(spec: LabSpec, plan: LabPlan, capacity: Capacity) -> Iterator[BudgetFinding]:
    promised = sum(sum(server.disks) for server in plan.places)
    started = _started(plan)
    likely = len(started) * USED_DISK
    if likely + SPARE_DISK > capacity.free_disk:
        yield BudgetFinding(
            "error",
            "disk",
            f"{len(started)} servers take about {_round(likely)}, and {_round(capacity.free_disk)} are free",
            "free some space, or put the disks elsewhere with storage:",
        )
    elif promised > capacity.free_disk:
        yield BudgetFinding(
            "info",
            "disk",
            f"the disks may grow to {_round(promised)}, and {_round(capacity.free_disk)} are free; they are thin",
        )
    if capacity.fsync is not None and capacity.fsync > SLOW_FSYNC:
        yield _slow_disk(spec.disk.cache, capacity.fsync)


def _slow_disk(cache: DiskCache, fsync: float) -> BudgetFinding:
    """A warning about a slow disk; only where guests' fsyncs reach it."""
    words = f"a sync of the disk takes {fsync * 1000:.0f} ms"
    if cache is DiskCache.UNSAFE:
        says = f"{words}; servers do not wait for it (disk.cache is unsafe), and a crash of the computer may damage their disks"
        return BudgetFinding("info", "disk", says)
    return BudgetFinding(
        "warning",
        "disk",
        f"{words}; etcd wants {SLOW_FSYNC * 1000:.0f} ms",
        "put the disks on faster storage with storage:, say disk.cache: unsafe, or expect elections under load",
    )


def _openshift(plan: LabPlan) -> Iterator[BudgetFinding]:
    for role, least in OPENSHIFT.items():
        small = [s for s in plan.servers if s.role is role and not _has(s, least)]
        if small:
            yield BudgetFinding(
                "info",
                "openshift",
                f"{_some(small)}: enough for the reference cluster; as a {role} of OpenShift it needs {_both(least)}",
            )
        modest = [s for s in plan.servers if s.role is role and _has(s, least) and not _has(s, RECOMMENDED[role])]
        if modest:
            yield BudgetFinding(
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
