"""Work that would hold up the loop, done in threads, in turn for each caller.

Small work runs where it is asked for: a thread would cost more. Work that is large, was slow the last time, or raises
`NeedsThread` waits for a thread: one at a time per caller, callers in turn. So a client with heavy requests waits for its
own, and every other client for at most a switch of the interpreter's lock.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from rackless.api.status import too_many

T = TypeVar("T")

SMALL = 32 * 1024
"""Bytes that are parsed, checked and written on the loop: about a millisecond of it."""
SLOW = 0.02
"""Seconds of processor time after which the same work is done in a thread from then on."""
_FORGET_AFTER = 300.0
_MOST_SLOW = 1000
_MOST_WAITING = 32
_ALONE, _TOGETHER = 0.005, 0.001
"""Seconds after which a thread must let another run: while heavy work is done the loop gets its turn sooner."""
_MOST_WAITING_OF_ALL = 256


class NeedsThread(Exception):
    """Raised by work that finds that it is too heavy for the loop: it is begun anew in a thread."""


def leave_loop() -> None:
    """For work that has become heavy: raises NeedsThread on the loop, does nothing in a thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise NeedsThread


class Offload:
    def __init__(self, threads: int = 3) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        self._running: dict[str, int] = {}
        self._slow: dict[Hashable, float] = {}
        self._suspected: set[Hashable] = set()
        self.done = 0
        self.refused = 0

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def running(self) -> int:
        return sum(self._running.values())

    async def run(self, who: str, weight: int, work: Callable[[], T], kind: Hashable = None) -> T:
        """`work`'s result. `weight` is about how many bytes it handles, `kind` what its slowness is remembered by."""
        if weight > SMALL or (self._slow and self._is_slow(kind)):
            return await self._in_thread(who, work)
        try:
            if kind is None:
                return work()
            return self._timed(work, kind)
        except NeedsThread:
            return await self._in_thread(who, work)

    def _timed(self, work: Callable[[], T], kind: Hashable) -> T:
        """Work whose slowness is remembered. A busy computer makes anything slow: who is suspected is measured in
        processor time the next time, which costs more to ask for.
        """
        clock = time.thread_time if kind in self._suspected else time.perf_counter
        begun = clock()
        try:
            return work()
        finally:
            if clock() - begun > SLOW:
                if kind in self._suspected:
                    self._remember(kind)
                else:
                    self._suspected.add(kind)
            elif self._suspected:
                self._suspected.discard(kind)

    def _is_slow(self, kind: Hashable) -> bool:
        since = self._slow.get(kind)
        if since is None:
            return False
        if time.monotonic() - since > _FORGET_AFTER:
            del self._slow[kind]
            return False
        return True

    def _remember(self, kind: Hashable) -> None:
        if len(self._slow) >= _MOST_SLOW:
            self._slow.clear()
        self._slow[kind] = time.monotonic()
        self._suspected.discard(kind)

    async def _in_thread(self, who: str, work: Callable[[], T]) -> T:
        loop = self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        queue = self._waiting.setdefault(who, deque())
        if len(queue) >= _MOST_WAITING or self.waiting >= _MOST_WAITING_OF_ALL:
            self.refused += 1
            raise too_many()
        done: asyncio.Future[T] = loop.create_future()

        def start() -> None:
            if done.cancelled():
                self._finished(who)
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="api-heavy")
            found = self._pool.submit(work)
            found.add_done_callback(lambda future: loop.call_soon_threadsafe(self._settle, who, done, future))

        queue.append(start)
        self._start_next()
        return await done

    def _settle(self, who: str, done: asyncio.Future[Any], future: Future[Any]) -> None:
        self.done += 1
        if not done.cancelled():
            if (error := future.exception()) is not None:
                done.set_exception(error)
            else:
                done.set_result(future.result())
        self._finished(who)

    def _finished(self, who: str) -> None:
        self._running[who] -= 1
        if not self._running[who]:
            del self._running[who]
        if not self._running:
            sys.setswitchinterval(_ALONE)
        self._start_next()

    def _start_next(self) -> None:
        """The caller that has waited longest for its turn, unless it has one already; then it goes to the end."""
        for who in tuple(self._waiting):
            if self.running >= self._threads:
                return
            queue = self._waiting.pop(who)
            if who in self._running:
                self._waiting[who] = queue
                continue
            if queue:
                start = queue.popleft()
                if queue:
                    self._waiting[who] = queue
                if not self._running:
                    sys.setswitchinterval(_TOGETHER)
                self._running[who] = 1
                start()

    def on_loop(self, function: Callable[..., T]) -> Callable[..., T]:
        """A function that reads what belongs to the loop: called from a thread it runs on the loop all the same."""

        def called(*arguments: Any) -> T:
            loop = self._loop
            if loop is None or threading.get_ident() == self._loop_thread:
                return function(*arguments)
            answer: Future[T] = Future()

            def there() -> None:
                try:
                    answer.set_result(function(*arguments))
                except BaseException as error:
                    answer.set_exception(error)

            loop.call_soon_threadsafe(there)
            return answer.result(timeout=60)

        return called

    async def close(self) -> None:
        for queue in self._waiting.values():
            queue.clear()
        if self._pool:
            pool = self._pool
            await asyncio.to_thread(pool.shutdown, True, cancel_futures=True)
