"""What happens, as values: whoever works publishes events, screens and files subscribe to them.

Nothing below `cli/` prints. A *step* is a piece of work: whom it concerns (`subject`), what is done (`phase`), how it
ended and why (`outcome`, `cause`), with numbers beside it. A *note* is a remark about the step it was made in. Titles
and sentences are made from these at the edge (`cli/words.py`). Events cross the control socket as JSON objects
(`to_json`, `from_json`), so a terminal, a log file and a web page see the same stream.

A subject is a kind and a name, `host/ctrl-0`, `server/worker-1`; it is empty for the lab as a whole.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from rackless.codec import BadValue, decode, encode
from rackless.errors import known

Outcome = Literal["done", "unchanged", "failed", "cancelled"]
Level = Literal["progress", "info", "warning"]
Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class StepStarted:
    step: str
    parent: str | None
    subject: str
    phase: str
    at: float
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepFinished:
    step: str
    outcome: Outcome
    seconds: float
    detail: str
    at: float
    cause: str = ""
    """For a step that failed: the kind of error, `GaveUp` or `inspection error`."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth a line. `step` is the step it belongs to; `level` says who needs it.

    What programs may act on has a `code` with `values`, and no message: `cli/words.py` has the words for it. What others said, such
    as a failed command, is passed on as a message.
    """

    step: str | None
    message: str
    at: float
    level: Level = "info"
    subject: str = ""
    code: str = ""
    values: Mapping[str, Scalar] = field(default_factory=dict)


Event = StepStarted | StepFinished | Note
Subscriber = Callable[[Event], None]

_KINDS: dict[str, type[StepStarted] | type[StepFinished] | type[Note]] = {
    "step-started": StepStarted,
    "step-finished": StepFinished,
    "note": Note,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_json(event: Event) -> dict[str, object]:
    return {"event": _NAMES[type(event)], **encode(event)}


def from_json(value: Mapping[str, object]) -> Event:
    """Raises BadValue for what is no event, such as one of a newer rackless."""
    kind = _KINDS.get(str(value.get("event")))
    if kind is None:
        raise BadValue(f"{value.get('event')!r} is no kind of event")
    fields = dict(value)
    if "title" in fields and "phase" not in fields:  # a journal of before, whose steps had nothing but a title
        name, _, phase = str(fields["title"]).partition(": ")
        fields |= {"subject": f"host/{name}", "phase": phase} if phase else {"subject": "", "phase": name}
    return decode(kind, fields)


_current: ContextVar[str | None] = ContextVar("rackless_step", default=None)
_subject: ContextVar[str] = ContextVar("rackless_subject", default="")


def current_step() -> str | None:
    """The step that this task works in."""
    return _current.get()


@contextmanager
def inside(step: str | None) -> Iterator[None]:
    """Work that belongs to a step opened elsewhere, such as on the other side of the control socket."""
    token = _current.set(step)
    try:
        yield
    finally:
        _current.reset(token)


@dataclass
class Step:
    """The handle of a running step: say how it goes, and how it ended."""

    bus: Bus
    id: str
    subject: str = ""
    outcome: Outcome = "done"
    detail: str = ""
    cause: str = ""
    started: float = 0.0
    """By the monotonic clock."""

    def progress(self, message: str) -> None:
        """A passing remark, shown while the step runs."""
        self.bus.publish(Note(self.id, message, time.time(), "progress", self.subject))

    def failed(self, cause: str, detail: str) -> None:
        self.outcome, self.cause, self.detail = "failed", cause, detail

    def unchanged(self, detail: str = "") -> None:
        """There was nothing to do."""
        self.outcome, self.detail = "unchanged", detail

    def end(self) -> None:
        seconds = time.monotonic() - self.started
        self.bus.publish(StepFinished(self.id, self.outcome, seconds, self.detail, time.time(), self.cause))


@dataclass
class Bus:
    """Carries events from whoever does the work to whoever wants to know."""

    _subscribers: list[Subscriber] = field(default_factory=list)
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    prefix: str = "s"

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def publish(self, event: Event) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber(event)

    def tell(self, code: str, *, level: Level = "warning", subject: str = "", **values: Scalar) -> None:
        """A note that programs may act on."""
        self.publish(Note(_current.get(), "", time.time(), level, subject or _subject.get(), code, values))

    def info(self, message: str, *, subject: str = "") -> None:
        self.publish(Note(_current.get(), message, time.time(), "info", subject or _subject.get()))

    def warn(self, message: str, *, subject: str = "") -> None:
        self.publish(Note(_current.get(), message, time.time(), "warning", subject or _subject.get()))

    def begin(self, phase: str, *, subject: str = "", **numbers: float) -> Step:
        """A piece of work that somebody else does: it is seen to begin and, by `Step.end`, to end. Nothing is nested in it."""
        step = Step(self, f"{self.prefix}{next(self._ids)}", subject, started=time.monotonic())
        self.publish(StepStarted(step.id, _current.get(), subject, phase, time.time(), numbers))
        return step

    @contextmanager
    def step(self, phase: str, *, subject: str = "", **numbers: float) -> Iterator[Step]:
        """A piece of work. Steps opened inside it, in this task or its children, are nested in it."""
        step = self.begin(phase, subject=subject, **numbers)
        tokens = _current.set(step.id), _subject.set(subject or _subject.get())
        try:
            yield step
        except BaseException as error:
            if isinstance(error, Exception):
                step.failed(type(known(error) or error).__name__, str(error).partition("\n")[0])
            else:
                step.outcome, step.detail = "cancelled", str(error).partition("\n")[0]
            raise
        finally:
            _current.reset(tokens[0])
            _subject.reset(tokens[1])
            step.end()


def count(number: int, noun: str) -> str:
    """`1 server`, `4 servers`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
