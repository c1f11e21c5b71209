"""The steps of a lab's log as a swim-lane chart: a lane for the lab, one for each server, the steps of each as bars. Pure.

A server's lane has all that is done with it: its host's steps, its node's, and what its BMC was asked for. What is neither the lab
nor a server, such as the bootstrap or an image that is built, has a lane between them.

What is shown is the last run: all since the last two minutes in which nothing went on. Every step is given an estimate: what this
computer has learnt of it, or else the median of the same phase in this log, where it ended well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rackless.events import Event, Note, StepFinished, StepStarted

MOST_BARS = 4000
APART_SECONDS = 120.0
"""Between two runs; within one, something always goes on."""


@dataclass(slots=True)
class Bar:
    step: str
    phase: str
    subject: str
    depth: int
    began: float
    """Seconds since the epoch."""
    ended: float | None = None
    outcome: str = "running"
    detail: str = ""
    estimate: float | None = None
    """Seconds that it usually takes in all."""


Usual = Callable[[StepStarted], float | None]
"""Seconds that a step takes on this computer; None where nothing was learnt of it."""


def lanes(told: Iterable[Event], servers: Sequence[str], learnt: Usual = lambda _: None) -> dict[str, Any]:
    bars = _bars(told, learnt)
    usual = _usual(bars)
    run = _last_run(bars)[-MOST_BARS:]
    for bar in run:
        if bar.estimate is None:
            bar.estimate = usual.get(bar.phase)
    return {
        "lanes": [{"subject": subject, "bars": [asdict(bar) for bar in its]} for subject, its in _laid(run, servers)],
        "began": min((bar.began for bar in run), default=None),
        "ended": None if any(bar.ended is None for bar in run) else max((bar.ended or 0 for bar in run), default=None),
        "expected": _expected(run),
    }


def _laid(run: Sequence[Bar], servers: Sequence[str]) -> list[tuple[str, list[Bar]]]:
    """The bars of each lane, from the top: the lab, what is no server by when it began, the lab's servers, then hosts of metal."""
    known = {f"{kind}/{name}": f"host/{name}" for name in servers for kind in ("host", "node", "server")}
    found: dict[str, list[Bar]] = {"": []}
    metal: list[str] = []
    for bar in run:
        subject = known.get(bar.subject, bar.subject)
        found.setdefault(subject, []).append(bar)
        if subject.startswith("host/") and subject not in metal:
            metal.append(subject)
    ours = [f"host/{name}" for name in servers]
    others = [subject for subject in found if not subject.startswith("host/") and _has_work(found[subject])]
    order = [*others, *ours, *(subject for subject in metal if subject not in ours)]
    return [(subject, found[subject]) for subject in order if found.get(subject)]


def _has_work(bars: Sequence[Bar]) -> bool:
    """Whether a lane is worth its place: one of an image that was in the cache is not."""
    return any(bar.outcome != "unchanged" for bar in bars)


def _expected(run: Iterable[Bar]) -> float | None:
    """When what goes on now will probably have ended; None when nothing does, or nothing is known of it."""
    return max(
        (bar.began + bar.estimate for bar in run if bar.ended is None and bar.estimate is not None), default=None
    )


def _bars(told: Iterable[Event], learnt: Usual) -> list[Bar]:
    found: dict[str, Bar] = {}
    open_bars: dict[tuple[str, str], Bar] = {}
    done: list[Bar] = []
    for event in told:
        match event:
            case StepStarted():
                above = found.get(event.parent or "")
                depth = above.depth + 1 if above is not None and above.subject == event.subject else 0
                bar = Bar(event.step, event.phase, event.subject, depth, event.at, estimate=learnt(event))
                cut_off = open_bars.get((bar.subject, bar.phase))
                if cut_off is not None and cut_off.ended is None:  # whoever did it was killed, and it is begun again
                    cut_off.ended, cut_off.outcome = event.at, "cancelled"
                found[event.step] = open_bars[bar.subject, bar.phase] = bar
                done.append(bar)
            case StepFinished() if event.step in found:
                bar = found.pop(event.step)
                bar.ended, bar.outcome, bar.detail = event.at, event.outcome, event.detail
            case Note() if event.level == "progress" and event.step in found:
                found[event.step].detail = event.message
    return done


def _usual(bars: Iterable[Bar]) -> dict[str, float]:
    took: dict[str, list[float]] = {}
    for bar in bars:
        if bar.ended is not None and bar.outcome == "done":
            took.setdefault(bar.phase, []).append(bar.ended - bar.began)
    return {phase: median(seconds) for phase, seconds in took.items()}


def _last_run(bars: list[Bar]) -> list[Bar]:
    """From the last pause of more than `APART_SECONDS` in which nothing went on."""
    start, busy_until = 0, float("-inf")
    for number, bar in enumerate(bars):
        if bar.began > busy_until + APART_SECONDS:
            start = number
        busy_until = max(busy_until, bar.ended if bar.ended is not None else bar.began)
    return bars[start:]
