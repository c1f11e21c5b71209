"""`rackless events`: what happened to the lab, and, followed, what happens."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from rackless.cli.options import json_option, lab_name, named_lab
from rackless.cli.words import message, title, to_json
from rackless.events import Note, StepFinished, StepStarted
from rackless.operations.lab_events import lab_events
from rackless.operations.lab_registry import require_lab
from rackless.protocol.event_log import Missed, Numbered
from rackless.protocol.event_stream import EventsWanted
from rackless.run.paths import LabPaths, Roots

_BEFORE = 2000
"""Events read before the first one shown, to know the titles of steps that began earlier."""


@dataclass(frozen=True, slots=True)
class Moment:
    at: float
    """Seconds since the epoch."""


class Since(click.ParamType[int | Moment]):
    """The number of an event, or a moment: some time ago, or by the clock of this computer."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | Moment:
        if isinstance(value, int | Moment):
            return value
        if value.isdigit():
            return int(value)
        if (ago := re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", value)) is not None:
            return Moment(time.time() - float(ago[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[ago[2]])
        try:
            return Moment(datetime.fromisoformat(value).timestamp())
        except ValueError:
            self.fail(f"{value!r} is neither a number, nor a time like 10m or 2026-01-31T12:00", param, ctx)


@click.command()
@named_lab
@click.option("--follow", "following", is_flag=True, help="Go on with what happens from now on; Ctrl-C ends it.")
@click.option("-n", "--lines", default=200, show_default=True, help="How many of the last events.")
@click.option(
    "--since",
    type=Since(),
    metavar="SEQ|AGO|TIME",
    help="All events after the one with this number instead; or since then: 90s, 10m, 2h, 3d, or 2026-01-31T12:00.",
)
@click.option(
    "--hear", multiple=True, metavar="SUBJECT", help="Only about this: host/ctrl-0, host/*, server/*; repeat it."
)
@json_option("JSON lines, with the numbers of the events (seq).")
def events(
    file: Path | None,
    name: str | None,
    following: bool,
    lines: int,
    since: int | Moment | None,
    hear: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the lab's events: every step with its outcome and time, and every warning.

    Events are numbered. Whoever follows goes on by itself when the lab's daemon is started again, without losing one; a program
    that was away goes on with --since and the last number it has.
    """
    paths = require_lab(lab_name(file, name), Roots.from_environment())
    asyncio.run(_show(paths, following, lines, since, hear or ("*",), as_json))


async def _show(
    paths: LabPaths, following: bool, lines: int, since: int | Moment | None, hear: tuple[str, ...], as_json: bool
) -> None:
    shown = _Shown(as_json)
    moment = since.at if isinstance(since, Moment) else 0.0
    everything = (since is None and "*" not in hear) or isinstance(since, Moment)  # they may be anywhere in the log
    start = 0 if everything else since if isinstance(since, int) else -(lines + _BEFORE)
    told: deque[str] = deque(maxlen=lines if since is None else None)
    last = start
    async for one in lab_events(paths, EventsWanted(start, hear, follow=False)):
        last = one.seq if isinstance(one, Numbered) else one.before - 1
        if (line := shown.line(one)) is None:
            continue
        if (isinstance(one, Numbered) and one.event.at >= moment) or isinstance(since, int):
            told.append(line)
    for line in told:
        click.echo(line)
    if following:
        async for one in lab_events(paths, EventsWanted(max(last, 0), hear)):
            if (line := shown.line(one)) is not None:
                click.echo(line)


class _Shown:
    """Events as lines. A step is printed when it ends; until then its title is remembered."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._titles: dict[str, str] = {}

    def line(self, one: Numbered | Missed) -> str | None:
        if isinstance(one, Missed):
            missed = f"events {one.after + 1} to {one.before - 1} are no longer kept"
            return json.dumps({"missed": {"after": one.after, "before": one.before}}) if self._as_json else missed
        if self._as_json:
            return json.dumps({"seq": one.seq, **to_json(one.event)})
        return self._words(one)

    def _words(self, one: Numbered) -> str | None:
        event = one.event
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at))
        match event:
            case StepStarted():
                self._titles[event.step] = title(event)
            case StepFinished():
                detail = f"  {event.detail}" if event.detail else ""
                known = self._titles.pop(event.step, event.step)
                return f"{at}  {event.outcome:<9}  {known}  {event.seconds:.1f} s{detail}"
            case Note() if event.level != "progress":
                return f"{at}  {event.level:<9}  {message(event)}"
        return None
