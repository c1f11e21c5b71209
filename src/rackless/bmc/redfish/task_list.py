"""The newest tasks of one service, in memory: work that continues after its request was answered.

`tasks` renders them; this module knows no URIs.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rackless.bmc.redfish.messages import Refusal, message, unavailable
from rackless.errors import RacklessError

_MOST = 32
_MOST_RUNNING = 8


@dataclass
class Task:
    id: str
    name: str
    work: asyncio.Task[Any]
    started: datetime
    ended: datetime | None = None

    @property
    def refusal(self) -> Refusal | None:
        if not self.work.done() or self.work.cancelled():
            return None
        error = self.work.exception()
        if error is None or isinstance(error, Refusal):
            return error
        note = error.what if isinstance(error, RacklessError) else ""
        return Refusal(500, message("InternalError", note=note))

    @property
    def state(self) -> str:
        if not self.work.done():
            return "Running"
        if self.work.cancelled():
            return "Cancelled"
        return "Exception" if self.refusal else "Completed"


@dataclass
class Tasks:
    """The newest tasks of one service, in memory."""

    by_id: dict[str, Task] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> Task:
        if sum(not task.work.done() for task in self.by_id.values()) >= _MOST_RUNNING:
            work.close()
            raise unavailable(10)
        task = Task(str(next(self._numbers)), name, asyncio.create_task(work), datetime.now(UTC))
        task.work.add_done_callback(lambda _: setattr(task, "ended", datetime.now(UTC)))
        self.by_id[task.id] = task
        for old in [one for one in self.by_id.values() if one.work.done()][: max(0, len(self.by_id) - _MOST)]:
            del self.by_id[old.id]
        return task

    async def close(self) -> None:
        works = [task.work for task in self.by_id.values()]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
