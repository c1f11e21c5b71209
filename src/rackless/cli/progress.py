"""Events as a person reads them: nested steps with their times, live on a terminal, line by line elsewhere."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rackless.cli import words
from rackless.cli.durations import spent, usually
from rackless.cli.words import title
from rackless.diagnosis.estimates import Usual
from rackless.errors import Interrupted
from rackless.events import Bus, Event, Note, StepFinished, StepStarted

_MARKS = {"done": ("✓", "green"), "unchanged": ("·", "dim"), "failed": ("✗", "bold red"), "cancelled": ("–", "yellow")}

WORTH_TELLING = 3.0
"""Seconds below which no duration is estimated or called slow."""


@dataclass
class _Running:
    title: str
    depth: int
    started: float
    usual: Usual | None = None
    note: str = ""
    announced: bool = False


@dataclass
class ProgressPrinter:
    """Prints every finished step below the one it belongs to; on a terminal, what runs now is drawn beneath."""

    console: Console
    usual: Callable[[StepStarted], Usual | None] = lambda _: None
    """How long a step usually takes on this computer, where that is known."""
    running: dict[str, _Running] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    live: Live | None = None

    def __call__(self, event: Event) -> None:
        match event:
            case StepStarted():
                # a step whose parent we never saw began before we listened: it belongs to the step that runs now
                parent = event.parent if event.parent in self.running else self._outermost()
                depth = self.running[parent].depth + 1 if parent else 0
                self.parents[event.step] = parent
                self.running[event.step] = _Running(title(event), depth, event.at, self.usual(event))
            case Note(level="progress"):
                if event.step in self.running:
                    self.running[event.step].note = words.message(event)
            case Note():
                style = "yellow" if event.level == "warning" else ""
                indent = "  " * (self.running[event.step].depth + 1 if event.step in self.running else 0)
                self._print(Text.assemble(indent, ("! " if style else "", style), (words.message(event), style)))
            case StepFinished():
                self._finish(event)
        self._draw()

    def __rich__(self) -> Group:
        now = time.time()
        leaves = [step for step in self.running if step not in self.parents.values() or not self._has_child(step)]
        lines = []
        for step in leaves:
            run = self.running[step]
            indent = "  " * run.depth
            usual = f", {usually(run.usual)}" if run.usual is not None and run.usual.median >= WORTH_TELLING else ""
            note = f"  {run.note}" if run.note else ""
            lines.append(
                Text.assemble(
                    indent,
                    ("▸ ", "cyan"),
                    run.title,
                    (f"  {now - run.started:.0f} s{usual}", "dim"),
                    (note, "dim"),
                    overflow="ellipsis",
                    no_wrap=True,
                )
            )
        return Group(*lines[-12:])

    def _outermost(self) -> str | None:
        return next((step for step, run in self.running.items() if run.depth == 0), None)

    def _has_child(self, step: str) -> bool:
        return any(parent == step for child, parent in self.parents.items() if child in self.running)

    def _finish(self, event: StepFinished) -> None:
        run = self.running.pop(event.step, None)
        parent = self.parents.pop(event.step, None)
        if run is None:
            return
        if parent is not None:
            self._announce(parent)
        if run.announced and event.outcome == "unchanged":
            event = replace(event, outcome="done")
        mark, style = _MARKS[event.outcome]
        took = "" if event.outcome == "unchanged" else f"  {spent(event.seconds)}"
        slow = f" ({usually(run.usual)})" if run.usual is not None and _slow(event, run.usual) else ""
        detail = f"  {event.detail}" if event.detail else ""
        self._print(
            Text.assemble(
                "  " * run.depth,
                (f"{mark} ", style),
                (run.title, "bold" if run.depth == 0 else ""),
                (took, "dim"),
                (slow, "yellow"),
                (detail, "dim" if event.outcome != "failed" else "red"),
            )
        )

    def _announce(self, step: str) -> None:
        """A step with finished children is shown above them, once."""
        run = self.running.get(step)
        if run is None or run.announced:
            return
        parent = self.parents.get(step)
        if parent is not None:
            self._announce(parent)
        run.announced = True
        self._print(Text.assemble("  " * run.depth, ("▾ ", "cyan"), (run.title, "bold" if run.depth == 0 else "")))

    def _print(self, text: Text) -> None:
        self.console.print(text, soft_wrap=True)

    def _draw(self) -> None:
        if self.live is not None:
            self.live.update(self)


def _slow(event: StepFinished, usual: Usual) -> bool:
    """Whether it took much longer than it usually does, and long enough to be noticed."""
    return event.outcome == "done" and event.seconds > 2 * usual.high and event.seconds > usual.high + WORTH_TELLING


@contextmanager
def shown(
    bus: Bus,
    *,
    as_json: bool = False,
    quiet: bool = False,
    usual: Callable[[StepStarted], Usual | None] = lambda _: None,
) -> Iterator[None]:
    """Shows the bus's events while the work runs; `usual` knows how long its steps took before."""
    if as_json:
        unsubscribe = bus.subscribe(lambda event: click_echo(json.dumps(words.to_json(event))))
        try:
            yield
        finally:
            unsubscribe()
        return
    if quiet:
        yield
        return
    console = Console(highlight=False)
    progress = ProgressPrinter(console, usual)
    unsubscribe = bus.subscribe(progress)
    try:
        if console.is_terminal:
            with Live(progress, console=console, refresh_per_second=8, transient=True) as live:
                progress.live = live
                yield
        else:
            yield
    finally:
        unsubscribe()


@contextmanager
def interruptible(left: Callable[[], str], lab: str) -> Iterator[None]:
    """On Ctrl-C, or a SIGTERM such as of `timeout` or a service manager, says what stays and how to go on."""
    before = signal.getsignal(signal.SIGTERM)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # in a script's background it is ignored
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(
            "stopped",
            why=left(),
            hint=f"`rackless up --name {lab}` goes on where it was, `rackless destroy --name {lab}` takes it away",
        ) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def click_echo(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
