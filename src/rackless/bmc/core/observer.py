"""Follows the hypervisor's events into every chassis: one subscription for all BMCs.

While the hypervisor does not answer, every chassis says so, until all servers have been observed again: a wrong power state
is worse than none. All servers are also observed from time to time, for changes that no event announced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from rackless.bmc.core.chassis import Chassis
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.hypervisor import Hypervisor, NoSuchServer, ServerChange, ServerEvent, ServerState, Unreachable

log = logging.getLogger(__name__)

_PATIENCE = 3
"""So often in a row may the hypervisor refuse to show its servers before we call ourselves blind."""

_FEW = 8

Seen = Callable[[Chassis, ServerState], None]


class FleetObserver:
    def __init__(
        self,
        hypervisor: Hypervisor,
        chassis: Mapping[str, Chassis],
        bus: Bus,
        seen: Seen,
        all_seen: Callable[[], None],
        *,
        retry_seconds: float,
        resync_seconds: float,
    ) -> None:
        self._hypervisor = hypervisor
        self._chassis = chassis
        self._bus = bus
        self._seen = seen
        self._all_seen = all_seen
        self._retry_seconds = retry_seconds
        self._resync_seconds = resync_seconds
        self._following: asyncio.Task[None] | None = None
        self._reactions: set[asyncio.Task[None]] = set()
        self._blind = False
        self._looked = asyncio.Event()

    async def start(self) -> None:
        """Returns when the servers were seen, or cannot be for now."""
        self._following = asyncio.create_task(self._follow())
        await self._looked.wait()

    async def stop(self) -> None:
        tasks = [*self._reactions, *([self._following] if self._following else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def see_all(self) -> None:
        before = {name: chassis.glances for name, chassis in self._chassis.items()}
        servers = {server.name: server for server in await self._hypervisor.servers()}
        self._blind = False
        for name, chassis in self._chassis.items():
            server = servers.get(name)
            if chassis.glances == before.get(name):  # otherwise it was looked at meanwhile, and that is newer
                chassis.saw(server)
            if server is not None:
                self._seen(chassis, server)
        self._all_seen()

    async def see(self, names: Iterable[str]) -> None:
        """Look at these, one by one when they are few."""
        wanted = [self._chassis[name] for name in names]
        if len(wanted) > _FEW:
            await self.see_all()
            return
        for chassis in wanted:
            await chassis.look()
            if (server := chassis.present()) is not None:
                self._seen(chassis, server)

    async def _follow(self) -> None:
        """Keep every chassis true, for ever."""
        failures = 0
        while True:
            try:
                await self._listen()
            except Unreachable as error:
                self._lose(error)
            except RacklessError as error:  # a server that vanishes while it is looked at, say
                failures += 1
                if failures >= _PATIENCE:
                    self._lose(error)
            except Exception as error:  # whatever it is, the BMCs must not go on telling what they saw before it
                log.exception("looking at the servers failed")
                self._lose(error)
            else:
                failures = 0
            self._looked.set()
            await asyncio.sleep(self._retry_seconds)

    def _lose(self, error: Exception) -> None:
        for chassis in self._chassis.values():
            chassis.lost_sight()
        if not self._blind:
            self._blind = True
            self._bus.tell("bmcs-blind", why=str(error))

    async def _listen(self) -> None:
        events = aiter(self._hypervisor.events())
        coming = asyncio.ensure_future(anext(events))
        clock = asyncio.get_running_loop()
        try:
            await asyncio.sleep(0)  # be listening before looking, so that nothing falls between
            await self.see_all()
            self._looked.set()
            looked = clock.time()
            while True:
                await asyncio.wait({coming}, timeout=self._retry_seconds)
                if coming.done():
                    try:
                        self._react(coming.result())
                    except StopAsyncIteration:
                        raise Unreachable("the hypervisor tells nothing any more") from None
                    coming = asyncio.ensure_future(anext(events))
                age = clock.time() - looked
                if age > self._resync_seconds or (age > self._retry_seconds and self._some_blind()):
                    await self.see_all()
                    looked = clock.time()
        finally:
            coming.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration, RacklessError):
                await coming

    def _some_blind(self) -> bool:
        """A command of one BMC may have met a hypervisor that did not answer, though events still come."""
        return any(chassis.blind for chassis in self._chassis.values())

    def _react(self, event: ServerEvent) -> None:
        chassis = self._chassis.get(event.name)
        if chassis is not None:
            task = asyncio.create_task(self._tell(chassis, event.change))
            self._reactions.add(task)
            task.add_done_callback(self._reactions.discard)

    async def _tell(self, chassis: Chassis, change: ServerChange) -> None:
        try:
            await chassis.changed(change)
            if (server := chassis.present()) is not None:
                self._seen(chassis, server)
        except (Unreachable, NoSuchServer):
            pass  # the first is told by `_follow`, the second seen by the next look
        except RacklessError as error:
            name = chassis.name
            self._bus.tell(
                "bmc-change-missed", subject=f"server/{name}", server=name, change=change.value, why=str(error)
            )
