"""What happens, as values: the engine publishes events, screens and files subscribe to them.

Nothing below `cli/` prints. A *step* is a piece of work with a name, a parent and a duration; a *note* is a line
about the step it was said in. Events cross the control socket as JSON objects (`to_json`, `from_json`), so a terminal,
a log file and a web page see the same stream.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Outcome = Literal["done", "unchanged", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class StepStarted:
    step: str
    parent: str | None
    title: str
    at: float


@dataclass(frozen=True, slots=True)
class StepFinished:
    step: str
    outcome: Outcome
    seconds: float
    detail: str
    at: float


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth a line. `step` is the step it belongs to; `level` says who needs it."""

    step: str | None
    message: str
    at: float
    level: Literal["progress", "info", "warning"] = "info"


Event = StepStarted | StepFinished | Note
Subscriber = Callable[[Event], None]

_KINDS: dict[str, type[StepStarted] | type[StepFinished] | type[Note]] = {
    "step-started": StepStarted,
    "step-finished": StepFinished,
    "note": Note,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_json(event: Event) -> dict[str, Any]:
    return {"event": _NAMES[type(event)], **asdict(event)}


def from_json(value: dict[str, Any]) -> Event:
    fields = dict(value)
    return _KINDS[fields.pop("event")](**fields)


_current: ContextVar[str | None] = ContextVar("rackless_step", default=None)


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
    outcome: Outcome = "done"
    detail: str = ""

    def progress(self, message: str) -> None:
        """A passing remark, shown while the step runs."""
        self.bus.publish(Note(self.id, message, time.time(), "progress"))

    def unchanged(self, detail: str = "") -> None:
        """There was nothing to do."""
        self.outcome, self.detail = "unchanged", detail


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

    def info(self, message: str) -> None:
        self.publish(Note(_current.get(), message, time.time(), "info"))

    def warn(self, message: str) -> None:
        self.publish(Note(_current.get(), message, time.time(), "warning"))

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """A named piece of work. Steps opened inside it, in this task or its children, are nested in it."""
        step = Step(self, f"{self.prefix}{next(self._ids)}")
        started = time.monotonic()
        self.publish(StepStarted(step.id, _current.get(), title, time.time()))
        token = _current.set(step.id)
        try:
            yield step
        except BaseException as error:
            step.outcome = "failed" if isinstance(error, Exception) else "cancelled"
            step.detail = str(error).partition("\n")[0]
            raise
        finally:
            _current.reset(token)
            self.publish(StepFinished(step.id, step.outcome, time.monotonic() - started, step.detail, time.time()))


def count(number: int, noun: str) -> str:
    """`1 server`, `4 servers`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
