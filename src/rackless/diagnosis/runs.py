"""A lab's events as runs, and a run as spans of time: what was done to what, from when to when. From typed events alone.

A run begins with the first step of a `rackless up` and lasts until the next one's; what labd does all that time belongs to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rackless.events import Event, Note, StepFinished, StepStarted

CUT_OFF = "cut off"
"""The outcome of a step whose process ended before it did."""


@dataclass(slots=True)
class StepSpan:
    step: str
    parent: str | None
    subject: str
    phase: str
    began: float
    """Seconds since the epoch."""
    ended: float | None = None
    outcome: str = "running"
    cause: str = ""
    detail: str = ""
    waits: str = ""
    """What it said last of what it waits for."""

    def seconds(self, now: float) -> float:
        return max((self.ended if self.ended is not None else now) - self.began, 0.0)


@dataclass(slots=True)
class Run:
    number: int
    """From 1, in the events that are kept."""
    began: float
    spans: list[StepSpan] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    """Those with a code: what programs may act on."""
    last: float = 0.0
    """When the last of its events was."""

    @property
    def seconds(self) -> float:
        """From its beginning to the end of the last step that ended."""
        return max((span.ended for span in self.spans if span.ended is not None), default=self.began) - self.began

    def leaves(self) -> list[StepSpan]:
        """Steps that were not made of others: where time is really spent."""
        parents = {span.parent for span in self.spans}
        return [span for span in self.spans if span.step not in parents]


def find_runs(told: Iterable[Event]) -> list[Run]:
    runs: list[Run] = []
    caller = ""
    open_spans: dict[str, StepSpan] = {}
    for event in told:
        if isinstance(event, StepStarted):
            process = event.step.rpartition(".")[0]
            if not runs or (process.startswith("u") and process != caller):
                runs.append(Run(len(runs) + 1, event.at))
            caller = process if process.startswith("u") else caller
            _cut_off(open_spans, process, event.at)
            span = StepSpan(event.step, event.parent, event.subject, event.phase, event.at)
            open_spans[event.step] = span
            runs[-1].spans.append(span)
        elif isinstance(event, StepFinished):
            if (ending := open_spans.pop(event.step, None)) is not None:
                ending.ended, ending.outcome = max(event.at, ending.began), event.outcome  # a clock may be set back
                ending.cause, ending.detail = event.cause, event.detail
        elif event.level == "progress":
            if event.step in open_spans:
                open_spans[event.step].waits = event.message
        elif event.code and runs:
            runs[-1].notes.append(event)
        if runs:
            runs[-1].last = event.at
    return runs


def _cut_off(open_spans: dict[str, StepSpan], process: str, at: float) -> None:
    """A process of the same kind came: the one before it is gone, and what it was at was cut off."""
    for step, span in list(open_spans.items()):
        other = step.rpartition(".")[0]
        if other != process and other[:1] == process[:1]:
            span.ended, span.outcome = max(at, span.began), CUT_OFF
            del open_spans[step]


def tracks(spans: Sequence[StepSpan], now: float) -> list[list[StepSpan]]:
    """Spans laid out in as few rows as are needed for any two in a row to be apart, or one inside the other."""
    rows: list[tuple[list[StepSpan], list[float]]] = []
    for span in sorted(spans, key=lambda one: (one.began, -one.seconds(now))):
        end = span.began + span.seconds(now)
        for row, ends in rows:
            while ends and ends[-1] <= span.began:
                ends.pop()
            if not ends or end <= ends[-1]:
                row.append(span)
                ends.append(end)
                break
        else:
            rows.append(([span], [end]))
    return [row for row, _ in rows]


def levels(row: Sequence[StepSpan], now: float) -> list[list[StepSpan]]:
    """The spans of a row of `tracks` by how deep they lie inside each other, the outermost first."""
    found: list[list[StepSpan]] = []
    ends: list[float] = []
    for span in row:
        while ends and ends[-1] <= span.began:
            ends.pop()
        if len(ends) == len(found):
            found.append([])
        found[len(ends)].append(span)
        ends.append(span.began + span.seconds(now))
    return found


def by_subject(run: Run) -> dict[str, list[StepSpan]]:
    """The lab as a whole (an empty subject) first, then in the order in which they came."""
    found: dict[str, list[StepSpan]] = {"": []}
    for span in run.spans:
        found.setdefault(span.subject, []).append(span)
    return {subject: spans for subject, spans in found.items() if spans}
