"""A run as a trace that Perfetto (ui.perfetto.dev) and Chrome open: Chrome's trace event format, as JSON.

A thread is a subject; where steps of one subject run side by side it has several threads.
"""

from __future__ import annotations

from typing import TypedDict

from rackless.diagnosis.runs import Run, StepSpan, by_subject, tracks
from rackless.events import Note, Scalar

_PID = 1
_MICROSECONDS = 1e6


class TraceEvent(TypedDict, total=False):
    name: str
    ph: str
    """`X` a span, `i` a moment, `M` what something is called."""
    pid: int
    tid: int
    ts: float
    dur: float
    cat: str
    s: str
    args: dict[str, Scalar]


class ChromeTrace(TypedDict):
    traceEvents: list[TraceEvent]
    displayTimeUnit: str


def chrome_trace(lab: str, run: Run, now: float) -> ChromeTrace:
    found: list[TraceEvent] = [_named("process_name", 0, f"lab {lab}, run {run.number}")]
    tid = 0
    for subject, spans in by_subject(run).items():
        for number, row in enumerate(tracks(spans, now)):
            tid += 1
            name = subject or "the lab"
            found.append(_named("thread_name", tid, name if number == 0 else f"{name} ({number + 1})"))
            found.append({"name": "thread_sort_index", "ph": "M", "pid": _PID, "tid": tid, "args": {"sort_index": tid}})
            found.extend(_span(span, tid, run.began, now) for span in row)
    found.extend(_moment(note, run.began) for note in run.notes)
    return {"traceEvents": found, "displayTimeUnit": "ms"}


def _named(what: str, tid: int, name: str) -> TraceEvent:
    return {"name": what, "ph": "M", "pid": _PID, "tid": tid, "args": {"name": name}}


def _span(span: StepSpan, tid: int, zero: float, now: float) -> TraceEvent:
    said = {"cause": span.cause, "detail": span.detail, "waited for": span.waits}
    return {
        "name": span.phase,
        "cat": span.subject.partition("/")[0] or "lab",
        "ph": "X",
        "pid": _PID,
        "tid": tid,
        "ts": _micro(span.began - zero),
        # of rounded ends: a step that follows another must not begin before its end, not by a microsecond
        "dur": _micro(span.began - zero + span.seconds(now)) - _micro(span.began - zero),
        "args": {"outcome": span.outcome, **{name: text for name, text in said.items() if text}},
    }


def _moment(note: Note, zero: float) -> TraceEvent:
    args: dict[str, Scalar] = {"subject": note.subject, **note.values}
    ts = _micro(note.at - zero)
    return {"name": note.code, "cat": note.level, "ph": "i", "s": "g", "pid": _PID, "tid": 0, "ts": ts, "args": args}


def _micro(seconds: float) -> float:
    return round(max(seconds, 0.0) * _MICROSECONDS)
