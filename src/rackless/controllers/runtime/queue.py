"""The work queue of a controller: each key is in it once, and a key that is being reconciled is not handed out again."""

from __future__ import annotations

import asyncio
from collections import deque

from rackless.ports.clock import Clock
from rackless.ports.resources import Key


class Queue:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: deque[Key] = deque()
        self._waiting: set[Key] = set()
        """Those of `_ready`, to find them quickly."""
        self._looked_at: set[Key] = set()
        self._again: set[Key] = set()
        """Keys that are being reconciled and were added again meanwhile."""
        self._timers: dict[Key, asyncio.Task[None]] = {}
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def later(self) -> int:
        """How many keys wait for their time."""
        return len(self._timers)

    def add(self, key: Key) -> None:
        """Reconcile this key now; a later turn that it waited for is dropped."""
        if key in self._looked_at:
            self._again.add(key)
            return
        self._cancel(key)
        if key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._filled.set()

    async def get(self) -> Key:
        """The next key; give it back with `done`."""
        while not self._ready:
            self._filled.clear()
            await self._filled.wait()
        key = self._ready.popleft()
        self._waiting.remove(key)
        self._looked_at.add(key)
        return key

    def done(self, key: Key, after: float | None) -> None:
        """The reconciliation is over; the next one is in `after` seconds, or when the key is added again."""
        self._looked_at.remove(key)
        if key in self._again or after == 0.0:
            self._again.discard(key)
            self.add(key)
        elif after is not None:
            self._timers[key] = asyncio.create_task(self._later(key, after), name=f"look again at {key}")

    def close(self) -> None:
        for key in tuple(self._timers):
            self._cancel(key)

    async def _later(self, key: Key, after: float) -> None:
        await self._clock.sleep(after)
        del self._timers[key]
        self.add(key)

    def _cancel(self, key: Key) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
