"""How long each phase of each host took, read from the lab's events.

A phase counts from its first beginning to its end: when labd was started again, or the phase failed and was tried again,
that is part of it. What is told is the last way of a host through its phases, from its last registration on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Phase:
    name: str
    began: float
    """Seconds since the epoch."""
    seconds: float | None = None
    """None while it goes on."""
    outcome: str = "running"
    tries: int = 1


def read_timeline(journal: Path, hosts: Collection[str]) -> dict[str, list[Phase]]:
    try:
        with journal.open(encoding="utf-8", errors="replace") as lines:
            return timeline(lines, hosts)
    except FileNotFoundError:
        return {host: [] for host in hosts}


def timeline(lines: Iterable[str], hosts: Collection[str]) -> dict[str, list[Phase]]:
    found: dict[str, list[Phase]] = {host: [] for host in hosts}
    open_steps: dict[str, Phase] = {}
    for line in lines:
        try:
            event: dict[str, Any] = json.loads(line)
        except ValueError:  # cut short by a crash
            continue
        match event["event"]:
            case "step-started":
                host, _, name = event["title"].partition(": ")
                if host in found and name:
                    open_steps[event["step"]] = _begin(found[host], name, event["at"])
            case "step-finished" if event["step"] in open_steps:
                phase = open_steps.pop(event["step"])
                phase.seconds, phase.outcome = event["at"] - phase.began, event["outcome"]
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


def to_json(found: dict[str, list[Phase]]) -> dict[str, list[dict[str, Any]]]:
    return {host: [asdict(phase) for phase in phases] for host, phases in found.items()}
