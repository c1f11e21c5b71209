"""What a lab needs against what this computer has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rackless.drivers import open_drivers
from rackless.errors import HypervisorError
from rackless.events import Bus
from rackless.lab.acceleration import remembered_kvm
from rackless.lab.capacity import observe_capacity
from rackless.operations.lab_registry import spec_of_other
from rackless.plan.actions import Action, Verb
from rackless.plan.addressing import plan_lab
from rackless.plan.budget import BudgetFinding, check_budget
from rackless.plan.networks import impairment
from rackless.ports.computer import Computer
from rackless.run.paths import LabPaths, Roots
from rackless.spec.cluster import Method
from rackless.spec.lab import LabSpec, Profile, Role


def budget(
    spec: LabSpec, roots: Roots, actions: Sequence[Action], computer: Computer | None = None
) -> list[BudgetFinding]:
    """What the lab needs against what the computer has; other labs that run count with all their servers.

    How fast the disk syncs is measured when control planes are to be made, whose etcd will depend on it.
    """
    planned = plan_lab(spec)
    syncs = any(f"server/{server.name}" in _made(actions) for server in planned.control_planes)
    others = [LabPaths(roots, name) for name in roots.labs() if name != spec.name]
    promised = sum(
        group.count * group.memory
        for other in others
        if other.netns.exists() and (known := spec_of_other(other)) is not None
        for group in known.servers.values()
        if group.role is not Role.SPARE
    )
    capacity = observe_capacity(
        computer or open_drivers().computer, spec.storage or roots.state, promised=promised, syncs=syncs
    )
    return check_budget(spec, planned, capacity)


def choose_profile(profile: str | None, roots: Roots) -> tuple[Profile, str]:
    """The profile for this computer, and why: the one asked for, or the largest that fits."""
    capacity = observe_capacity(open_drivers().computer, roots.state)
    size = f"this computer has {capacity.memory >> 30} GiB and {capacity.cpus} CPUs"
    if profile is not None:
        wanted = LabSpec.model_validate({"profile": profile})
        lacking = [f.says for f in check_budget(wanted, plan_lab(wanted), capacity) if f.level == "error"]
        return Profile(profile), f"asked for; {size}" + (f", which is not enough: {lacking[0]}" if lacking else "")
    for candidate in (Profile.FULL, Profile.COMPACT):
        wanted = LabSpec.model_validate({"profile": candidate.value})
        cpus = sum(group.count * group.vcpus for group in wanted.servers.values())
        if cpus <= 2 * capacity.cpus and not any(
            f.level == "error" for f in check_budget(wanted, plan_lab(wanted), capacity)
        ):
            return candidate, size
    return Profile.TINY, size


def choose_method(roots: Roots, computer: Computer | None = None) -> tuple[Method, str]:
    """How the cluster is made, and why: by a bootstrap, as on metal, where a guest was seen to run on the processor itself."""
    known = remembered_kvm(roots.cache, computer or open_drivers().computer)
    if known is None:
        return Method.DIRECT, "whether servers can run without emulation was not tried yet: `rackless prepare` does"
    kvm, says = known
    return (Method.IPI if kvm else Method.DIRECT), says


def refuse_poverty(spec: LabSpec, roots: Roots, actions: Sequence[Action], bus: Bus, computer: Computer) -> None:
    findings = budget(spec, roots, actions, computer)
    for finding in findings:
        if finding.level == "warning":
            bus.tell(
                "computer-small", about=finding.about, why=finding.says + (f"; {finding.fix}" if finding.fix else "")
            )
        elif finding.about == "cpu" and any(subject.startswith("server/") for subject in _made(actions)):
            bus.tell("computer-small", level="info", about=finding.about, why=finding.says)
    if lacking := [finding for finding in findings if finding.level == "error"]:
        raise HypervisorError(
            "this computer has not enough for the lab",
            why="\n".join(finding.says for finding in lacking),
            hint="; ".join(finding.fix for finding in lacking),
        )


async def refuse_kernel(spec: LabSpec, computer: Computer) -> None:
    """Refuse, before anything is made, a lab that needs what this kernel lacks (VLANs, slow and lossy links)."""
    tagged = [name for name, extra in spec.networks.extra.items() if extra.vlan is not None]
    if tagged and not await asyncio.to_thread(computer.can_tag):
        raise HypervisorError(
            f"this computer's kernel has no VLANs, and the network {tagged[0]} is one",
            why="its module 8021q is not there",
            hint="modprobe 8021q, or give the network no vlan",
        )
    wanted = impairment(spec)
    if wanted is not None and not await asyncio.to_thread(computer.can_impair, wanted):
        module, what = ("sch_tbf", "rate") if wanted.plain_rate else ("sch_netem", "delay and loss")
        raise HypervisorError(
            f"this computer's kernel cannot give a link a {what}, and networks.cluster.link asks for it",
            why=f"its module {module} is not there",
            hint=f"modprobe {module}, or take {what} out of networks.cluster.link",
        )


def _made(actions: Sequence[Action]) -> set[str]:
    return {action.subject for action in actions if action.verb in (Verb.CREATE, Verb.RECREATE)}
