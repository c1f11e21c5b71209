"""What a lab needs against what this machine has."""

from __future__ import annotations

from rackless.daemon.known import recorded_spec
from rackless.errors import MachineError
from rackless.events import Bus
from rackless.lab.machine import observe_machine
from rackless.plan.addressing import plan_lab
from rackless.plan.budget import Finding, check_budget
from rackless.run.paths import LabPaths, Roots
from rackless.spec.lab import LabSpec, Profile, Role


def budget(spec: LabSpec, roots: Roots, *, syncs: bool = False) -> list[Finding]:
    """What the lab needs against what the machine has; other labs that run count with all their servers."""
    others = [LabPaths(roots, name) for name in roots.labs() if name != spec.name]
    promised = sum(
        group.count * group.memory
        for other in others
        if other.netns.exists() and (known := recorded_spec(other)) is not None
        for group in known.servers.values()
        if group.role is not Role.SPARE
    )
    machine = observe_machine(spec.storage or roots.state, promised=promised, syncs=syncs)
    return check_budget(spec, plan_lab(spec), machine)


def choose_profile(profile: str | None, roots: Roots) -> tuple[Profile, str]:
    """The profile for this machine, and why: the one asked for, or the largest that fits."""
    machine = observe_machine(roots.state)
    size = f"this machine has {machine.memory >> 30} GiB and {machine.cpus} CPUs"
    if profile is not None:
        wanted = LabSpec.model_validate({"profile": profile})
        lacking = [f.says for f in check_budget(wanted, plan_lab(wanted), machine) if f.level == "error"]
        return Profile(profile), f"asked for; {size}" + (f", which is not enough: {lacking[0]}" if lacking else "")
    for candidate in (Profile.FULL, Profile.COMPACT):
        wanted = LabSpec.model_validate({"profile": candidate.value})
        cpus = sum(group.count * group.vcpus for group in wanted.servers.values())
        if cpus <= 2 * machine.cpus and not any(
            f.level == "error" for f in check_budget(wanted, plan_lab(wanted), machine)
        ):
            return candidate, size
    return Profile.TINY, size


def refuse_poverty(spec: LabSpec, roots: Roots, bus: Bus) -> None:
    findings = budget(spec, roots)
    for finding in findings:
        if finding.level == "warning":
            bus.warn(finding.says)
    if lacking := [finding for finding in findings if finding.level == "error"]:
        raise MachineError(
            "this machine has not enough for the lab",
            why="\n".join(finding.says for finding in lacking),
            hint="; ".join(finding.fix for finding in lacking),
        )
