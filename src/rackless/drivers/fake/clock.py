"""A clock whose time passes only when everyone waits: an hour takes milliseconds."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_SETTLE = 50
"""Turns of the event loop after which every task that can go on has gone on."""


class VirtualClock:
    """`ports.clock.Clock`. `run` runs something on it, which may wait for this clock only and for nothing outside."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + max(seconds, 0.0), next(self._order), woken))
        await woken

    async def run(self, work: Coroutine[Any, Any, T], *, within: float = 1e6) -> T:
        """Run to the end, letting time pass; TimeoutError when it would take longer than `within` virtual seconds."""
        task = asyncio.create_task(work)
        limit = self._now + within
        try:
            while not await self._settled(task):
                self._advance(limit)
            return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _settled(self, task: asyncio.Task[T]) -> bool:
        for _ in range(_SETTLE):
            if task.done():
                return True
            await asyncio.sleep(0)
            if _everyone_waits(asyncio.get_running_loop()):
                break
        return task.done()

    def _advance(self, limit: float) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        if not self._sleepers:
            raise TimeoutError("everyone waits, and nobody for time")
        at, _, woken = heapq.heappop(self._sleepers)
        if at > limit:
            raise TimeoutError(f"not done within {limit} s")
        self._now = max(self._now, at)
        woken.set_result(None)


def _everyone_waits(loop: Any) -> bool:
    """Whether no task can go on, and no socket or thread can wake one: the loop listens to nothing but its own pipe."""
    return not loop._ready and loop._default_executor is None and len(loop._selector.get_map()) <= 1
