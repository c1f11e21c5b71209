"""Kubernetes Events: what happened to an object, for `kubectl describe` and `kubectl get events`.

They are written in the background, so that an API that does not answer delays no controller; a repeated Event increments the
count of the existing one.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from zlib import crc32

from rackless.controllers.runtime.controller import Happened
from rackless.errors import RacklessError
from rackless.ports.resources import Conflict, Record, Resources

log = logging.getLogger(__name__)

WAITING = 20_000
"""Events that may wait to be written, for a burst of a thousand hosts; more are dropped, the oldest first, and counted."""
WRITERS = 4
"""Events that are written at a time; those about one object in their order, by one writer."""
ALIKE = 4096
"""Events that are remembered, to count them up."""
LONGEST_MESSAGE = 1024
"""As upstream: longer ones are refused there."""

_Same = tuple[str, str, str, str]


def wall_clock() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class _Told:
    """One Event that waits; of the object only what names it, so that thousands can wait."""

    resources: Resources
    source: str
    about: Record
    happened: Happened
    at: str


@dataclass
class Recorder:
    now: Callable[[], str] = wall_clock
    most: int = WAITING
    dropped: int = 0
    _written: OrderedDict[_Same, tuple[str, int]] = field(default_factory=OrderedDict)
    _queues: list[asyncio.Queue[_Told]] = field(default_factory=lambda: [asyncio.Queue() for _ in range(WRITERS)])

    @property
    def waiting(self) -> int:
        return sum(queue.qsize() for queue in self._queues)

    def tell(self, resources: Resources, source: str, about: Record, *happened: Happened) -> None:
        if not happened:
            return
        reference, at = _reference(about), self.now()
        queue = self._queues[crc32(reference["uid"].encode()) % WRITERS]
        for one in happened:
            if self.waiting >= self.most:
                max(self._queues, key=asyncio.Queue.qsize).get_nowait()
                self.dropped += 1
            queue.put_nowait(_Told(resources, source, reference, one, at))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for queue in self._queues:
                group.create_task(self._write_all(queue))

    async def _write_all(self, queue: asyncio.Queue[_Told]) -> None:
        while True:
            told = await queue.get()
            try:
                await self._write(told)
            except (RacklessError, Conflict):
                self.dropped += 1  # an Event is a courtesy; what it tells stands in the status, too
            except Exception:  # one Event that nobody foresaw must not end the controllers beside this task
                self.dropped += 1
                log.exception("an Event about %s %s could not be written", told.about["kind"], told.about["name"])

    async def _write(self, told: _Told) -> None:
        resources, source, about, happened, at = told.resources, told.source, told.about, told.happened, told.at
        namespace = about.get("namespace") or "default"
        message = happened.message[:LONGEST_MESSAGE]
        same = (about["uid"], happened.type, happened.reason, message)
        if (before := self._written.get(same)) is not None:
            name, count = before
            try:
                await resources.patch("Event", name, {"count": count + 1, "lastTimestamp": at}, namespace=namespace)
            except Conflict:  # it has expired
                self._written.pop(same, None)  # another writer may have made room meanwhile
            else:
                self._written[same] = (name, count + 1)
                return
        name = f"{about['name'][:200]}.{uuid.uuid4().hex[:16]}"
        await resources.create(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": about,
                "type": happened.type,
                "reason": happened.reason,
                "message": message,
                "source": {"component": source},
                "reportingComponent": source,
                "firstTimestamp": at,
                "lastTimestamp": at,
                "count": 1,
            }
        )
        self._written[same] = (name, 1)
        if len(self._written) > ALIKE:
            self._written.popitem(last=False)


def _reference(record: Record) -> Record:
    metadata = record["metadata"]
    return {
        "apiVersion": record["apiVersion"],
        "kind": record["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
        **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
    }
