"""Watches: each watcher gets every change that matches, in order, once, from the revision that it has seen.

The hub keeps the newest changes in memory and each watcher a queue; a watcher that starts further back gets the store's
history first. Changes are encoded once however many watch. Knows selectors, not HTTP.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rackless.api.encoding import decode
from rackless.api.selectors import FieldSelector, LabelSelector
from rackless.api.stores.memory import bucket_of
from rackless.api.stores.port import Compacted, Store, StoredChange

_WINDOW, _WINDOW_BYTES = 2000, 32 * 1024 * 1024
"""Of the newest changes, for watches that begin a little back; further back they read the store's history."""
_LONGEST_QUEUE = 20_000
_LARGEST_QUEUE = 32 * 1024 * 1024
"""Events and bytes that wait for a watcher; with more it must begin anew."""
_BATCH, _BATCH_BYTES = 500, 256 * 1024
"""What is looked at in one turn of the loop."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What a list or a watch wants of a bucket."""

    namespace: str = ""
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None

    def takes_key(self, key: str) -> bool:
        _, _, namespace, name = key.split("/", 3)
        if self.namespace and namespace != self.namespace:
            return False
        if self.fields is None:
            return True
        return self.fields.name in (None, name) and self.fields.namespace in (None, namespace)

    @property
    def looks_inside(self) -> bool:
        return self.labels is not None or bool(self.fields and self.fields.others)

    @property
    def weight(self) -> int:
        """What it costs to look into an object, in bytes that are decoded."""
        labels = len(self.labels.requirements) if self.labels else 0
        return 100 * (labels + (len(self.fields.others) if self.fields else 0))

    def takes(self, obj: Any) -> bool:
        if self.labels and not self.labels.matches(obj["metadata"].get("labels")):
            return False
        return self.fields is None or self.fields.matches(obj)


@dataclass(slots=True)
class WatchEvent:
    """A change as watchers are told of it; what is derived from it is kept for the next watcher."""

    change: StoredChange
    made: dict[Any, bytes] = field(default_factory=dict)
    _new: Any = None
    _old: Any = None

    def new(self) -> Any:
        if self._new is None:
            self._new = decode(self.change.data)
        return self._new

    def old(self) -> Any:
        if self._old is None and self.change.previous is not None:
            self._old = decode(self.change.previous)
        return self._old

    def type_for(self, wanted: Filter) -> str | None:
        """ADDED, MODIFIED or DELETED as this filter sees it, or None."""
        change = self.change
        if not wanted.takes_key(change.key):
            return None
        if not wanted.looks_inside:
            return "DELETED" if change.deleted else "ADDED" if change.previous is None else "MODIFIED"
        now = not change.deleted and wanted.takes(self.new())
        before = change.previous is not None and wanted.takes(self.old())
        if now:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None


class Overrun(Exception):
    """The watcher reads too slowly; it must start again from what it has."""


class Watcher:
    def __init__(self, bucket: str, wanted: Filter) -> None:
        self.bucket = bucket
        self.wanted = wanted
        self.queue: deque[WatchEvent] = deque()
        self.size = 0
        self._wake = asyncio.Event()
        self.overrun = False
        self.ended = False

    def end(self) -> None:
        """The server stops: clients come back to the next one."""
        self.ended = True
        self._wake.set()

    def offer(self, event: WatchEvent) -> None:
        if self.overrun:
            return
        self.size += len(event.change.data)
        if len(self.queue) >= _LONGEST_QUEUE or self.size > _LARGEST_QUEUE:
            self.overrun = True
            self.queue.clear()  # a watcher that reads so slowly is cut off and must list again
        else:
            self.queue.append(event)
        self._wake.set()

    async def batch(self, within: float) -> list[tuple[str, WatchEvent]]:
        """Some of what came since the last time; empty when nothing came in time, or nothing that is wanted."""
        if not self.queue and not self.ended and not self.overrun:
            self._wake.clear()
            try:
                async with asyncio.timeout(within):
                    await self._wake.wait()
            except TimeoutError:
                return []
        if self.overrun:
            raise Overrun
        found: list[tuple[str, WatchEvent]] = []
        looked = size = looking = 0
        while self.queue and looked < _BATCH and size + looking < _BATCH_BYTES:
            event = self.queue.popleft()
            looked += 1
            size += len(event.change.data)
            looking += 2 * self.wanted.weight  # as it is now, and as it was before
            if (kind := event.type_for(self.wanted)) is not None:
                found.append((kind, event))
        self.size -= size
        return found


class Hub:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._watchers: dict[str, dict[Watcher, None]] = {}
        """Those who came first hear first."""
        self._window: deque[WatchEvent] = deque()
        self._window_size = 0
        self._since = store.revision
        self.overruns = 0
        """How many watches ended because their client read too slowly."""
        store.subscribe(self._publish)
        store.on_gap(self._after_gap)

    @property
    def count(self) -> int:
        return sum(map(len, self._watchers.values()))

    def _publish(self, changes: Sequence[StoredChange]) -> None:
        for change in changes:
            event = WatchEvent(change)
            self._window.append(event)
            self._window_size += len(change.data)
            while len(self._window) > _WINDOW or self._window_size > _WINDOW_BYTES:
                gone = self._window.popleft().change
                self._since, self._window_size = gone.revision, self._window_size - len(gone.data)
            for watcher in self._watchers.get(bucket_of(change.key), ()):
                watcher.offer(event)

    def _after_gap(self) -> None:
        """The store's changes had a gap: all watches end, and one that resumes from before the gap gets 410 Gone."""
        for group in self._watchers.values():
            for watcher in group:
                watcher.queue.clear()
        self.close()
        self._window.clear()
        self._window_size = 0
        self._since = self._store.revision

    def close(self) -> None:
        """End every watch."""
        for group in self._watchers.values():
            for watcher in group:
                watcher.end()

    async def watch(self, bucket: str, wanted: Filter, after: int) -> tuple[Watcher, Callable[[], None]]:
        """A watcher of everything after a revision, and how to end it. Raises Compacted when that is too far back."""
        watcher = Watcher(bucket, wanted)
        group = self._watchers.setdefault(bucket, {})
        if after >= self._since:
            watcher.queue.extend(
                e for e in self._window if e.change.revision > after and bucket_of(e.change.key) == bucket
            )
            watcher.size = sum(len(event.change.data) for event in watcher.queue)
            group[watcher] = None
        else:
            group[watcher] = None
            try:
                older = await self._store.history(bucket, after, self._store.revision)
            except BaseException:
                group.pop(watcher, None)
                raise
            size = sum(len(change.data) for change in older)
            if len(older) > _LONGEST_QUEUE or size > _LARGEST_QUEUE:
                group.pop(watcher, None)
                raise Compacted(self._store.revision)  # a list is shorter than so much history
            watcher.size += size
            # What came while we read is in the queue already; the history must not repeat it.
            first = watcher.queue[0].change.revision if watcher.queue else None
            watcher.queue.extendleft(
                WatchEvent(change) for change in reversed(older) if first is None or change.revision < first
            )
        return watcher, lambda: group.pop(watcher, None)


async def batches(watcher: Watcher, deadline: float, tick: float) -> AsyncIterator[list[tuple[str, WatchEvent]]]:
    """Batches until the deadline of the loop's clock; an empty one at every tick without news."""
    loop = asyncio.get_running_loop()
    while (left := deadline - loop.time()) > 0 and not (watcher.ended and not watcher.queue):
        yield await watcher.batch(min(left, tick))
        if watcher.queue:
            await asyncio.sleep(0)  # others have their turn
