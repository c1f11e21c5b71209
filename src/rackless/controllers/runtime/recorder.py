"""Kubernetes Events: what happened to an object, for `kubectl describe` and `kubectl get events`.

They are written beside the work, so that an API that is away holds nobody up; the same thing again counts up the
Event that is there.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rackless.controllers.runtime.controller import Happened
from rackless.errors import RacklessError
from rackless.ports.resources import Conflict, Record, Resources

WAITING = 1000
"""Events that may wait to be written; more are dropped, the oldest first, and counted."""
ALIKE = 4096
"""Events that are remembered, to count them up."""
LONGEST_MESSAGE = 1024
"""As upstream: longer ones are refused there."""

_Same = tuple[str, str, str, str]


def wall_clock() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Recorder:
    now: Callable[[], str] = wall_clock
    dropped: int = 0
    _written: OrderedDict[_Same, tuple[str, int]] = field(default_factory=OrderedDict)
    _queue: asyncio.Queue[tuple[Resources, str, Record, Happened, str]] = field(
        default_factory=lambda: asyncio.Queue(WAITING)
    )

    def tell(self, resources: Resources, source: str, about: Record, *happened: Happened) -> None:
        for one in happened:
            if self._queue.full():
                self._queue.get_nowait()
                self.dropped += 1
            self._queue.put_nowait((resources, source, about, one, self.now()))

    async def run(self) -> None:
        while True:
            resources, source, about, happened, at = await self._queue.get()
            try:
                await self._write(resources, source, about, happened, at)
            except (RacklessError, Conflict):
                self.dropped += 1  # an Event is a courtesy; what it tells stands in the status, too

    async def _write(self, resources: Resources, source: str, about: Record, happened: Happened, at: str) -> None:
        metadata = about["metadata"]
        namespace = metadata.get("namespace") or "default"
        message = happened.message[:LONGEST_MESSAGE]
        same = (metadata["uid"], happened.type, happened.reason, message)
        if (before := self._written.get(same)) is not None:
            name, count = before
            try:
                await resources.patch("Event", name, {"count": count + 1, "lastTimestamp": at}, namespace=namespace)
            except Conflict:  # it has expired
                del self._written[same]
            else:
                self._written[same] = (name, count + 1)
                return
        name = f"{metadata['name'][:200]}.{uuid.uuid4().hex[:16]}"
        await resources.create(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": {
                    "apiVersion": about["apiVersion"],
                    "kind": about["kind"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "resourceVersion": metadata["resourceVersion"],
                    **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
                },
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
