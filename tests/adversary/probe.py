"""Measures, inside the server's process, what other clients notice: the loop's longest turn, and memory.

A turn is one round of the loop, counted in processor time of its own thread, so that a busy machine does not make one
long; what other threads do meanwhile is not in it. What the tests before have left in this process is not in it either: the garbage
collector would walk through all of that in one turn, which a server of its own process does not have.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from types import TracebackType


class Turns:
    """`async with Turns() as turns: …` and then `turns.longest`, in seconds."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._ticking: asyncio.Task[None] | None = None
        self._memory = 0

    async def __aenter__(self) -> Turns:
        gc.freeze()
        await asyncio.sleep(0)
        self._memory = _peak()
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.sleep(0.01)
        assert self._ticking
        self._ticking.cancel()
        await asyncio.gather(self._ticking, return_exceptions=True)
        gc.unfreeze()

    async def _tick(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest = max(self.longest, now - last)
            last = now

    @property
    def grown(self) -> int:
        """By how many bytes the process' largest size has grown."""
        return _peak() - self._memory


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
