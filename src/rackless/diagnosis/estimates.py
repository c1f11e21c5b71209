"""How long a step usually takes on this computer, learnt from earlier runs: a small file beside the images that labs share.

A step counts when it was done whole: one that failed, or in which something was there already, says nothing about the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from rackless.events import Event, StepFinished, StepStarted
from rackless.run.files import write

KEPT = 20
"""Durations of each step, the latest: a computer that became faster is believed after ten runs."""
_MOST_STEPS = 500
_EACH = frozenset({"host", "server"})
"""Kinds of which one is like the other: what is learnt of one counts for all."""


@dataclass(frozen=True, slots=True)
class Usual:
    """Seconds, over some runs. Half of the runs were between `low` and `high`."""

    median: float
    low: float
    high: float
    runs: int


def step_key(event: StepStarted, servers: int) -> str:
    """Under which a step's durations are kept. Those of the lab as a whole depend on how many servers it has."""
    numbers = "".join(f" {name}={number:g}" for name, number in sorted(event.numbers.items()))
    if not event.subject:
        return f"{event.phase}{numbers or f' servers={servers}'}"
    kind = event.subject.partition("/")[0]
    return f"{kind if kind in _EACH else event.subject}: {event.phase}{numbers}"


def phase_key(phase: str) -> str:
    """Of a host's phase."""
    return f"host: {phase}"


@dataclass
class Estimates:
    durations: dict[str, list[float]] = field(default_factory=dict)
    """Seconds by `step_key`, the latest last."""

    def usual(self, key: str) -> Usual | None:
        known = self.durations.get(key)
        if not known:
            return None
        low, _, high = quantiles(known, n=4, method="inclusive") if len(known) > 1 else known * 3
        return Usual(median(known), low, high, len(known))

    def learn(self, learnt: Mapping[str, list[float]]) -> None:
        for key, seconds in learnt.items():
            kept = (self.durations.pop(key, []) + seconds)[-KEPT:]
            self.durations[key] = kept  # those that were learnt last stand last
        for key in list(self.durations)[:-_MOST_STEPS]:
            del self.durations[key]


def load(path: Path) -> Estimates:
    """Nothing is known where there is no file, or one that cannot be read: it is a help, and never in the way."""
    try:
        told = json.loads(path.read_text())["seconds"]
        return Estimates({str(key): [float(one) for one in known] for key, known in told.items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Estimates()


def save(path: Path, estimates: Estimates) -> None:
    known = {key: [round(one, 3) for one in seconds] for key, seconds in estimates.durations.items()}
    write(path, json.dumps({"version": 1, "seconds": known}, indent=0) + "\n")


@dataclass
class Learner:
    """Hears the events of a run, and hands over what was learnt whenever an outermost step ends."""

    servers: int
    keep: Callable[[Mapping[str, list[float]]], None]
    _open: dict[str, StepStarted] = field(default_factory=dict)
    _partial: set[str] = field(default_factory=set)
    """Steps in which something was there already."""
    _learnt: dict[str, list[float]] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        match event:
            case StepStarted():
                self._open[event.step] = event
            case StepFinished() if event.step in self._open:
                began = self._open.pop(event.step)
                whole = event.step not in self._partial
                self._partial.discard(event.step)
                if event.outcome == "done" and whole:
                    self._learnt.setdefault(step_key(began, self.servers), []).append(event.seconds)
                elif began.parent is not None:
                    self._partial.add(began.parent)
                if began.parent is None:
                    self.flush()

    def flush(self) -> None:
        if self._learnt:
            learnt, self._learnt = self._learnt, {}
            self.keep(learnt)
