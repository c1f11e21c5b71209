"""A lab's events as one stream, past and new ones: asked of labd, and read from the lab's event log while labd does not run.

Events are numbered in the log, so a reader who goes on after the last number it has misses none and gets none twice, also when
labd is restarted in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from rackless.diagnosis.timeline import Phase, timeline
from rackless.errors import HypervisorError, LabError
from rackless.events import Event
from rackless.operations.lab_registry import recorded_spec, require_lab
from rackless.plan.addressing import plan_lab
from rackless.protocol.client import ControlClient
from rackless.protocol.event_log import Missed, Numbered, last_number, read_events, resolve
from rackless.protocol.event_stream import Began, EventsWanted
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots

ASK_AGAIN_SECONDS = 0.5


async def lab_events(paths: LabPaths, wanted: EventsWanted) -> AsyncGenerator[Numbered | Missed, None]:
    while True:
        try:
            async with aclosing(ControlClient(paths.socket).events(wanted)) as stream:
                async for one in stream:
                    wanted = replace(wanted, since=_after(one))
                    if not isinstance(one, Began):
                        yield one
        except (LabError, HypervisorError):  # labd does not run, or this user may not ask it
            wanted = replace(wanted, since=resolve(wanted.since, last_number(paths.events)))
            for one in read_events(paths.events, wanted.since, wanted.hear):
                wanted = replace(wanted, since=_after(one))
                yield one
        if not wanted.follow:
            return
        await asyncio.sleep(ASK_AGAIN_SECONDS)


def _after(one: Began | Numbered | Missed) -> int:
    match one:
        case Began():
            return one.since
        case Missed():
            return one.before - 1
    return one.seq


async def kept_events(paths: LabPaths, hear: Sequence[str]) -> list[Event]:
    """All events in the log about these subjects."""
    found = lab_events(paths, EventsWanted(hear=tuple(hear), follow=False))
    return [one.event async for one in found if isinstance(one, Numbered)]


async def host_timeline(name: str, roots: Roots) -> dict[str, list[Phase]]:
    """How long each phase of each host took, also while the daemon is away."""
    paths = require_lab(name, roots)
    spec = recorded_spec(paths)
    grown = [entry.id for entry in Ledger(paths.grown).entries()]
    hosts = [server.name for server in plan_lab(spec).grown(grown).servers] if spec else []
    return timeline(await kept_events(paths, ["host/*"]), hosts)
