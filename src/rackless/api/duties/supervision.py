"""Supervised background tasks: an exception is logged, and the task is restarted after a growing pause.

`Supervisor.tend` keeps a task running; `Retries` gives a single object that could not be worked on another turn later,
so that one poisoned object holds up nobody else. Both are read by `/readyz` and `/metrics`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rackless.api.status import RequestRefused
from rackless.api.stores.port import StoreUnreachable

log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_LONG_ENOUGH = 120.0
"""Seconds after which a task that ran is taken to be well again."""
_OBJECT_FIRST_PAUSE, _OBJECT_LONGEST_PAUSE = 1.0, 300.0


@dataclass
class Tended:
    """One task: how often it was begun anew, and what it died of while it is not yet well again."""

    task: asyncio.Task[None] | None = None
    restarts: int = 0
    problem: str = ""


class Supervisor:
    def __init__(self, first_pause: float = _FIRST_PAUSE) -> None:
        self._first_pause = first_pause
        self.tasks: dict[str, Tended] = {}

    def tend(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` now, and again whenever it ends, until `stop`."""
        found = self.tasks[name] = Tended()
        found.task = asyncio.create_task(self._tend(name, work, found), name=name)

    async def _tend(self, name: str, work: Callable[[], Awaitable[None]], found: Tended) -> None:
        pause = self._first_pause
        while True:
            begun = time.monotonic()
            try:
                if found.problem:
                    asyncio.get_running_loop().call_later(pause, self._is_well, found, found.restarts)
                await work()
                found.problem = "it ended by itself"
                log.error("the background task %s ended by itself and is begun anew", name)
            except Exception as error:
                found.problem = f"{type(error).__name__}: {error}"
                log.exception("the background task %s failed and is begun anew", name)
            if time.monotonic() - begun > _LONG_ENOUGH:
                pause = self._first_pause
            await asyncio.sleep(pause)
            found.restarts += 1
            pause = min(pause * 2, _LONGEST_PAUSE)

    @staticmethod
    def _is_well(found: Tended, restarts: int) -> None:
        """It has run as long as it was paused before: then it is taken to be well."""
        if found.restarts == restarts:
            found.problem = ""

    def problems(self) -> dict[str, str]:
        return {name: found.problem for name, found in self.tasks.items() if found.problem}

    async def stop(self) -> None:
        tasks = [found.task for found in self.tasks.values() if found.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Retries:
    """Keys whose work failed: offered again after a pause of their own, that doubles with every failure."""

    def __init__(self, name: str, offer: Callable[[str], None]) -> None:
        self._name = name
        self._offer = offer
        self._failures: dict[str, tuple[int, str]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.count = 0

    async def attempt(self, key: str, work: Awaitable[None]) -> None:
        """Do an object's work; one that fails is tried again later, unless the object refuses it for good. Nothing is raised: an
        object's trouble is its own."""
        try:
            await work
        except RequestRefused as error:
            if error.code == 409 or error.code >= 500:
                self.failed(key, error, expected=True)
        except StoreUnreachable as error:
            self.failed(key, error, expected=True)
        except Exception as error:
            self.failed(key, error)
        else:
            self.succeeded(key)

    def failed(self, key: str, error: Exception, *, expected: bool = False) -> None:
        """Try it later; what is not expected is told."""
        times, before = self._failures.get(key, (0, ""))
        why = f"{type(error).__name__}: {error}"
        self._failures[key] = times + 1, why
        self.count += 1
        pause = min(_OBJECT_FIRST_PAUSE * 2**times, _OBJECT_LONGEST_PAUSE)
        if not expected and why != before:
            log.error("%s: %s cannot be worked on and is tried again: %s", self._name, key, why, exc_info=error)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(pause, self._again, key)

    def _again(self, key: str) -> None:
        self._timers.pop(key, None)
        self._offer(key)

    def succeeded(self, key: str) -> None:
        if self._failures:
            self._failures.pop(key, None)

    @property
    def waiting(self) -> dict[str, str]:
        """Keys that cannot be worked on, and why."""
        return {key: why for key, (_, why) in self._failures.items()}

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
