"""What a command does by itself, in the log of the lab that it does it for: preparing the computer, starting the daemon.

labd numbers the events of a lab and alone writes them while it runs. A command keeps its own until it asks labd for something, and
hands them over with the request. What is left when the command ends is handed over then; when no labd runs and none is about to,
the command writes it into the log itself: it has the lab's lock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from rackless.errors import RacklessError
from rackless.events import Bus, Event
from rackless.ports.drivers import Drivers
from rackless.protocol.client import ControlClient
from rackless.protocol.event_log import EventLog
from rackless.protocol.exchange import Nothing
from rackless.protocol.messages import TELL
from rackless.run.paths import LabPaths


@dataclass
class OwnEvents:
    bus: Bus
    """For the command's own steps and notes; what labd does is published elsewhere, for labd has written it already."""
    kept: list[Event] = field(default_factory=list)

    def take(self) -> tuple[Event, ...]:
        """What labd has not been told yet."""
        told, self.kept[:] = tuple(self.kept), []
        return told


@asynccontextmanager
async def own_events(shown: Bus, paths: LabPaths, drivers: Drivers) -> AsyncIterator[OwnEvents]:
    """They are shown as they happen, and are in the lab's log at the end: if there is a lab by then."""
    # ids of steps are unique in a lab's log, as those of labd are
    found = OwnEvents(Bus(prefix=f"u{drivers.processes.own}."))
    found.bus.subscribe(shown.publish)
    found.bus.subscribe(found.kept.append)
    try:
        yield found
    finally:
        with suppress(RacklessError, OSError):  # told, not kept at any price
            await _hand_over(found, paths, drivers)


async def _hand_over(own: OwnEvents, paths: LabPaths, drivers: Drivers) -> None:
    if not own.kept or not paths.state.exists():
        return
    client = ControlClient(paths.socket)
    if await client.alive():
        await client.work(TELL, Nothing(), Bus(), told=own.take())
    elif drivers.processes.find(paths.holder_pid) is None:
        log = EventLog(paths.events)
        for event in own.take():
            log.append(event)
