"""The loop of one controller: takes keys from its queue, reconciles a limited number in parallel, and writes the results."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from rackless.controllers.runtime.controller import Controller, Happened, Result, Wake
from rackless.controllers.runtime.queue import Queue
from rackless.controllers.runtime.recorder import Recorder
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.clock import Clock
from rackless.ports.resources import Conflict, Key, Record

log = logging.getLogger(__name__)

AT_ONCE = 64
CONFLICT_PAUSE = 0.05
"""Seconds to wait after a Conflict, until the watch has delivered the other client's write; the watch wakes the key when that
concerns it."""
LONGEST_CONFLICT_PAUSE = 5.0
"""The pause doubles with every conflict in a row up to this: while a watch hangs, each reconciliation would end with one."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait after the n-th unexpected error in a row: `first` × 2ⁿ⁻¹, at most `longest`, half left to chance."""

    first: float = 1.0
    longest: float = 300.0

    def after(self, failures: int, chance: float) -> float:
        return float(min(self.first * 2.0 ** min(failures - 1, 32), self.longest) * (0.5 + chance / 2))


BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Buckets of the histogram of reconciliation times, in seconds."""


@dataclass
class Counts:
    """For metrics: how often, how long, and how it ended."""

    looks: int = 0
    errors: int = 0
    conflicts: int = 0
    writes: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    def took(self, seconds: float) -> None:
        self.looks += 1
        self.seconds += seconds
        self.buckets[bisect_left(BUCKETS, seconds)] += 1


@dataclass
class Loop:
    controller: Controller
    clock: Clock
    bus: Bus
    recorder: Recorder
    patience: Patience = field(default_factory=Patience)
    at_once: int = AT_ONCE
    chance: Callable[[], float] = random.random
    counts: Counts = field(default_factory=Counts)
    queue: Queue = field(init=False)
    _failures: dict[Key, int] = field(default_factory=dict)
    _conflicts: dict[Key, int] = field(default_factory=dict)
    """Both in a row."""
    _contexts: dict[Key, contextvars.Context] = field(default_factory=dict)
    """All reconciliations of one object run in one contextvars context: a step that one opens can be closed by the next."""

    def __post_init__(self) -> None:
        self.queue = Queue(self.clock)
        for wake in self.controller.wakes:
            wake.cache.listen(partial(self._wake, wake))

    def _wake(self, wake: Wake, before: Record | None, after: Record | None) -> None:
        for key in wake.keys(before, after):
            self.queue.add(key)

    async def run(self) -> None:
        """Reconcile all objects until cancelled; begins when the needed caches are filled."""
        for wake in self.controller.wakes:
            if wake.needed:
                await wake.cache.synced.wait()
        slots = asyncio.Semaphore(self.at_once)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await slots.acquire()
                    key = await self.queue.get()
                    context = self._contexts.setdefault(key, contextvars.copy_context())
                    group.create_task(self._look(key, slots), name=f"{self.controller.name}: {key}", context=context)
        finally:
            self.queue.close()
            for key, context in self._contexts.items():
                context.run(self.controller.stopped, key)
            self._contexts.clear()

    async def _look(self, key: Key, slots: asyncio.Semaphore) -> None:
        record, after, begun = self.controller.cache.get(key), None, self.clock.now()
        try:
            result = await self.controller.reconcile(key, record)
            await self._write(record, result)
            after = result.after
            self._failures.pop(key, None)
            self._conflicts.pop(key, None)
        except Conflict:
            self.counts.conflicts += 1
            behind = self._conflicts[key] = self._conflicts.get(key, 0) + 1
            after = min(CONFLICT_PAUSE * 2.0 ** min(behind - 1, 32), LONGEST_CONFLICT_PAUSE)
        except Exception as error:
            after = await self._tell(key, record, error)
        finally:
            self.counts.took(self.clock.now() - begun)
            slots.release()
            self.queue.done(key, after)
            if record is None and after is None:
                self._contexts.pop(key, None)

    async def _write(self, record: Record | None, result: Result) -> None:
        if record is None:
            return
        cache = self.controller.cache
        if result.events:
            self.recorder.tell(cache.resources, self.controller.name, record, *result.events)
        name, version = record["metadata"]["name"], record["metadata"]["resourceVersion"]
        namespace = record["metadata"].get("namespace")
        if result.status is not None:
            self.counts.writes += 1
            record = await cache.resources.patch_status(
                cache.kind, name, result.status, namespace=namespace, resource_version=version
            )
            cache.put(record)
            version = record["metadata"]["resourceVersion"]
        if result.change is not None:
            self.counts.writes += 1
            cache.put(
                await cache.resources.patch(
                    cache.kind, name, result.change, namespace=namespace, resource_version=version
                )
            )

    async def _tell(self, key: Key, record: Record | None, error: Exception) -> float:
        """Report an unexpected error of one object: in its status, as an Event, in the metrics; other objects go on."""
        self.counts.errors += 1
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        what = str(error) if isinstance(error, RacklessError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, RacklessError):
            log.error("%s: looking at %s failed", self.controller.name, key, exc_info=error)
        if failures == 1:
            self.bus.tell("object-failed", kind=self.controller.name, name=key.name, why=what)
        if record is not None:
            try:
                status = self.controller.troubled(record, error)
                happened = Happened("ReconcileFailed", what, "Warning")
                await self._write(record, Result(status=status, events=(happened,)))
            except Exception as second:  # telling must not end what it tells of
                log.warning("%s: the trouble with %s could not be written down: %s", self.controller.name, key, second)
        return self.patience.after(failures, self.chance())
