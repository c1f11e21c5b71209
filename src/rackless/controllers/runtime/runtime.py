"""Several controllers over shared caches, in one task: start it with `run`, end it by cancelling.

Hosts and Machines may live in one API and Nodes in another: a cache belongs to a connection, and controllers name the
caches they read. Where the two are one connection, they share its caches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from rackless.controllers.runtime.cache import Cache
from rackless.controllers.runtime.controller import Controller
from rackless.controllers.runtime.loop import Loop
from rackless.controllers.runtime.recorder import Recorder
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.clock import Clock
from rackless.ports.resources import Resources

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


@dataclass
class Runtime:
    clock: Clock
    bus: Bus
    recorder: Recorder = field(default_factory=Recorder)
    loops: list[Loop] = field(default_factory=list)
    _caches: dict[tuple[int, str, str | None, tuple[tuple[str, str], ...]], Cache] = field(default_factory=dict)

    def cache(
        self,
        resources: Resources,
        kind: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Cache:
        """The one cache of these records; made when it is asked for first, followed when the runtime runs."""
        key = (id(resources), kind, namespace, tuple(sorted((labels or {}).items())))
        if key not in self._caches:
            self._caches[key] = Cache(resources, kind, namespace=namespace, labels=labels)
        return self._caches[key]

    def add(self, controller: Controller) -> Loop:
        loop = Loop(controller, self.clock, self.bus, self.recorder)
        self.loops.append(loop)
        return loop

    def cached(self) -> dict[str, int]:
        """How many records of which kinds are kept."""
        found: dict[str, int] = {}
        for cache in self._caches.values():
            found[cache.kind] = found.get(cache.kind, 0) + len(cache)
        return found

    @property
    def lacking(self) -> list[str]:
        """Kinds that some controller waits for."""
        waited = {wake.cache for loop in self.loops for wake in loop.controller.wakes if wake.needed}
        return sorted({cache.kind for cache in waited if not cache.synced.is_set()})

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.recorder.run(), name="events")
            for loop in self.loops:
                group.create_task(loop.run(), name=loop.controller.name)
            for cache in self._caches.values():
                group.create_task(self._follow(cache), name=f"watch {cache.kind}")

    async def _follow(self, cache: Cache) -> None:
        """A refused watch is reported once and tried again: the permission may be granted later."""
        pause, told = FIRST_PAUSE, ""
        while True:
            try:
                await cache.follow()
            except RacklessError as error:
                if str(error) != told:
                    told = str(error)
                    self.bus.tell("changes-unheard", kind=cache.kind, why=told)
            except Exception:
                log.exception("the watch of %s ended", cache.kind)
            await self.clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
