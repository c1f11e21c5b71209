"""TaskService: work that goes on after its request was answered, for who asked for that (`Prefer: respond-async`)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rackless.bmc.redfish.messages import Json, Refusal, message, missing
from rackless.bmc.redfish.resource import ROOT, Accepted, Answer, Resource, Scope, collection, link, status
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.errors import RacklessError

_SERVICE = f"{ROOT}/TaskService"
_TASKS = f"{_SERVICE}/Tasks"
_MONITORS = f"{_SERVICE}/TaskMonitors"
_MOST = 32


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

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> Accepted:
        task = Task(str(next(self._numbers)), name, asyncio.create_task(work), datetime.now(UTC))
        task.work.add_done_callback(lambda _: setattr(task, "ended", datetime.now(UTC)))
        self.by_id[task.id] = task
        for old in [one for one in self.by_id.values() if one.work.done()][: max(0, len(self.by_id) - _MOST)]:
            del self.by_id[old.id]
        return Accepted(f"{_MONITORS}/{task.id}", render(task))

    async def close(self) -> None:
        works = [task.work for task in self.by_id.values()]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)


def service(scope: Scope) -> Json:
    return {
        "@odata.id": _SERVICE,
        "@odata.type": SCHEMAS["TaskService"],
        "Id": "TaskService",
        "Name": "Task Service",
        "ServiceEnabled": True,
        "DateTime": datetime.now(UTC).isoformat(timespec="seconds"),
        "CompletedTaskOverWritePolicy": "Oldest",
        "LifeCycleEventOnTaskStateChange": False,
        "Status": status(),
        "Tasks": link(_TASKS),
    }


def tasks(scope: Scope) -> Json:
    return collection(_TASKS, "TaskCollection", "Tasks", (f"{_TASKS}/{id}" for id in scope.service.tasks.by_id))


def render(task: Task) -> Json:
    refusal = task.refusal
    value: Json = {
        "@odata.id": f"{_TASKS}/{task.id}",
        "@odata.type": SCHEMAS["Task"],
        "Id": task.id,
        "Name": task.name,
        "TaskState": task.state,
        "TaskStatus": "Warning" if refusal else "OK",
        "StartTime": task.started.isoformat(timespec="seconds"),
        "Messages": list(refusal.messages) if refusal else [],
    }
    if task.ended is not None:
        value["EndTime"] = task.ended.isoformat(timespec="seconds")
    else:
        value["TaskMonitor"] = f"{_MONITORS}/{task.id}"
    return value


def _one(scope: Scope) -> Task:
    found = scope.service.tasks.by_id.get(scope.names[0])
    if found is None:
        raise missing(scope.path)
    return found


def task(scope: Scope) -> Json:
    return render(_one(scope))


def monitor(scope: Scope) -> Json | Accepted:
    found = _one(scope)
    if not found.work.done():
        return Accepted(scope.path, render(found))
    if refusal := found.refusal:
        raise refusal
    return render(found)


async def cancel(scope: Scope) -> Answer:
    found = _one(scope)
    found.work.cancel()
    await asyncio.wait([found.work])
    scope.service.tasks.by_id.pop(found.id, None)
    return None


RESOURCES = (
    Resource(_SERVICE, service),
    Resource(_TASKS, tasks),
    Resource(f"{_TASKS}/{{task}}", task, delete=cancel),
    Resource(f"{_MONITORS}/{{task}}", monitor, delete=cancel),
)
