"""Limits how many servers of a lab start at the same time.

An installer switches all its servers on together; on a small hypervisor all of them would then exceed somebody's time-out.
A start takes a slot and gives it back when the server's processor time has calmed down, after a settle time at the latest.
A start without a free slot waits in line, but never longer than a cap: a wrong guess about load must not keep a server off.
BMCs say `PoweringOn` meanwhile. This module knows time and names, no servers.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rackless.errors import RacklessError
from rackless.ports.clock import Clock

ProcessorSeconds = Callable[[str], Awaitable[float]]


def default_limit() -> int:
    return max(os.cpu_count() or 1, 3)


@dataclass(frozen=True, slots=True)
class Pace:
    settle_seconds: float = 30.0
    """A server that was started so long ago no longer counts as starting."""
    longest_wait: float = 120.0
    look_seconds: float = 2.0
    busy_seconds: float = 6.0
    """Firmware sleeps now and then: a server is not called calm before this."""
    calm: float = 0.25
    """Processors in use, on average between two looks, below which a server has started."""


class Starts:
    def __init__(
        self, limit: int, clock: Clock, processor_seconds: ProcessorSeconds | None = None, pace: Pace | None = None
    ) -> None:
        self.limit = limit
        self._clock = clock
        self._processor_seconds = processor_seconds
        self._pace = pace or Pace()
        self._holders: set[str] = set()
        self._line: deque[tuple[str, asyncio.Future[None]]] = deque()
        self._settling: dict[str, asyncio.Task[None]] = {}

    @property
    def starting(self) -> frozenset[str]:
        return frozenset(self._holders)

    @property
    def waiting(self) -> list[str]:
        return [name for name, turn in self._line if not turn.done()]

    def take(self, name: str) -> bool:
        """A slot at once, or none."""
        if name not in self._holders and (self._line or len(self._holders) >= self.limit):
            return False
        self._hold(name)
        return True

    async def wait(self, name: str) -> None:
        """Wait in line for a slot; one over the limit is given to who waited too long."""
        if self.take(name):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((name, turn))
        alarm = asyncio.ensure_future(self._clock.sleep(self._pace.longest_wait))
        try:
            await asyncio.wait({turn, alarm}, return_when=asyncio.FIRST_COMPLETED)
            self._hold(name)
        except asyncio.CancelledError:
            if turn.done():
                self.release(name)
            raise
        finally:
            alarm.cancel()
            turn.cancel()
            self._line = deque(one for one in self._line if one[1] is not turn)

    def started(self, name: str) -> None:
        """The server runs now: its slot is free as soon as it is calm."""
        if name in self._holders:
            self._settling[name] = asyncio.create_task(self._settle(name))

    def stopped(self, name: str) -> None:
        """The server is off: whatever it did after its start is over."""
        if name in self._settling:
            self.release(name)

    def release(self, name: str) -> None:
        self._forget(name)
        self._holders.discard(name)
        while self._line and len(self._holders) < self.limit:
            next_name, turn = self._line.popleft()
            if not turn.done():
                self._holders.add(next_name)
                turn.set_result(None)

    async def close(self) -> None:
        tasks = list(self._settling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _hold(self, name: str) -> None:
        self._forget(name)
        self._holders.add(name)

    def _forget(self, name: str) -> None:
        task = self._settling.pop(name, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _settle(self, name: str) -> None:
        began = self._clock.now()
        await self._clock.sleep(min(self._pace.busy_seconds, self._pace.settle_seconds))
        while (left := began + self._pace.settle_seconds - self._clock.now()) > 0:
            pause = min(self._pace.look_seconds, left)
            before = await self._used(name)
            await self._clock.sleep(pause)
            after = await self._used(name)
            if before is not None and after is not None:
                if (after - before) / pause < self._pace.calm:
                    break
        self.release(name)

    async def _used(self, name: str) -> float | None:
        if self._processor_seconds is None:
            return None
        try:
            return await self._processor_seconds(name)
        except RacklessError:
            return None
