"""A command's own events in the lab's event log: preparing the computer, starting and stopping labd.

labd numbers the events of a lab and alone writes them while it runs. A command keeps its own until it asks labd for something, and
hands them over with the request. What is left when the command ends is handed over then; when no labd runs and none is about to,
the command writes it into the log itself: it has the lab's lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from rackless.errors import RacklessError
from rackless.events import Bus, Event
from rackless.operations.teardown import END_WITHIN
from rackless.ports.clock import Clock
from rackless.ports.drivers import Drivers
from rackless.protocol.client import ControlClient
from rackless.protocol.event_log import EventLog
from rackless.protocol.exchange import Nothing
from rackless.protocol.messages import TELL
from rackless.run.paths import LabPaths

ANSWER_WITHIN = 2.0
"""Seconds for a labd that is about to be ended to write down why: one that hangs does not hold up `destroy`."""

TELL_EVERY_SECONDS = 5.0


@dataclass
class OwnEvents:
    bus: Bus
    """For the command's own steps and notes. labd's events are published on the other bus: labd has written them already."""
    kept: list[Event] = field(default_factory=list)

    def take(self) -> tuple[Event, ...]:
        """The events that labd has not been given yet."""
        told, self.kept[:] = tuple(self.kept), []
        return told

    async def tell(self, paths: LabPaths) -> None:
        """Hand the events to labd if labd answers now; otherwise keep them."""
        with suppress(RacklessError, OSError, TimeoutError):
            async with asyncio.timeout(ANSWER_WITHIN):
                client = ControlClient(paths.socket)
                if await client.alive():
                    await client.work(TELL, Nothing(), Bus(), told=self.take())

    @asynccontextmanager
    async def telling(self, paths: LabPaths, clock: Clock) -> AsyncIterator[None]:
        """While this lasts, hand the events to labd every few seconds: people watch a long command before it is over."""

        async def tell_on() -> None:
            while True:
                await clock.sleep(TELL_EVERY_SECONDS)
                if self.kept:
                    await self.tell(paths)

        telling = asyncio.create_task(tell_on())
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)


@asynccontextmanager
async def own_events(shown: Bus, paths: LabPaths, drivers: Drivers) -> AsyncIterator[OwnEvents]:
    """A command's events are shown as they happen, and are in the lab's event log at the end, if there is a lab by then."""
    # ids of steps are unique in a lab's log, as those of labd are
    found = OwnEvents(Bus(prefix=f"u{drivers.processes.own}."))
    found.bus.subscribe(shown.publish)
    found.bus.subscribe(found.kept.append)
    try:
        yield found
    finally:
        with suppress(RacklessError, OSError):  # an event log that cannot be written fails no command
            await _hand_over(found, paths, drivers)


async def _hand_over(own: OwnEvents, paths: LabPaths, drivers: Drivers) -> None:
    if not own.kept or not paths.state.exists():
        return
    if drivers.processes.find(paths.holder_pid) is not None:
        client = ControlClient(paths.socket)
        if await client.alive():
            await client.work(TELL, Nothing(), Bus(), told=own.take())
        return
    if (labd := drivers.processes.find(paths.labd_pid)) is not None:  # without its holder it ends within seconds
        await drivers.processes.end(labd, within=END_WITHIN)
    log = EventLog(paths.events)
    for event in own.take():
        log.append(event)
