"""How long each phase of each host took, read from the lab's events.

A phase counts from its first beginning to its end: when labd was started again, or the phase failed and was tried again,
that is part of it. What is told is the last way of a host through its phases, from its last registration on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rackless.codec import encode
from rackless.diagnosis.estimates import Estimates, phase_key
from rackless.diagnosis.install_steps import SeenStep
from rackless.events import Event, Note, StepFinished, StepStarted


@dataclass(slots=True)
class Phase:
    name: str
    began: float
    """Seconds since the epoch."""
    seconds: float | None = None
    """None while it goes on."""
    outcome: str = "running"
    tries: int = 1
    waits: str = ""
    """What it said last of what it waits for."""


def timeline(told: Iterable[Event], hosts: Collection[str]) -> dict[str, list[Phase]]:
    found: dict[str, list[Phase]] = {host: [] for host in hosts}
    open_steps: dict[str, Phase] = {}
    for event in told:
        match event:
            case StepStarted():
                kind, _, host = event.subject.partition("/")
                if kind == "host" and host in found:
                    open_steps[event.step] = _begin(found[host], event.phase, event.at)
            case Note(level="progress") if event.step in open_steps:
                open_steps[event.step].waits = event.message
            case StepFinished() if event.step in open_steps:
                phase = open_steps.pop(event.step)
                phase.seconds, phase.outcome = event.at - phase.began, event.outcome
    return found


def _begin(phases: list[Phase], name: str, at: float) -> Phase:
    if phases and phases[-1].name == name:
        last = phases[-1]
        last.seconds, last.outcome, last.tries = None, "running", last.tries + 1
        return last
    if name == "registering":
        phases.clear()
    phases.append(Phase(name, at))
    return phases[-1]


def to_json(
    found: dict[str, list[Phase]], known: Estimates, install: Sequence[SeenStep] = ()
) -> dict[str, list[dict[str, Any]]]:
    """Every phase with what is usual for it on this computer (`usual`), or null. The steps of an install (`install`) have the
    numbers that they have in the design of bare-metal IPI (`design`) and in an installer's lab (`lab`)."""
    hosts = {
        host: [asdict(phase) | {"usual": encode(known.usual(phase_key(phase.name)))} for phase in phases]
        for host, phases in found.items()
    }
    if not install:
        return hosts
    return hosts | {"install": [_step_to_json(each) for each in install]}


def _step_to_json(seen: SeenStep) -> dict[str, Any]:
    phase = Phase(seen.step.name, seen.began, seen.seconds, seen.outcome, seen.tries)
    return asdict(phase) | {"usual": None, "design": seen.step.design, "lab": seen.step.lab}
