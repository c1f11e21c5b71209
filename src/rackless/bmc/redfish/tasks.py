"""TaskService: requests that were answered before they were done, because the client asked for it
(`Prefer: respond-async`).
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from rackless.bmc.redfish.messages import Json, missing
from rackless.bmc.redfish.resource import ROOT, Accepted, Answer, Resource, Scope, collection, link, status
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.bmc.redfish.task_list import Task

_SERVICE = f"{ROOT}/TaskService"
_TASKS = f"{_SERVICE}/Tasks"
_MONITORS = f"{_SERVICE}/TaskMonitors"


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


def accept(task: Task) -> Accepted:
    """The answer to who started it."""
    return Accepted(f"{_MONITORS}/{task.id}", render(task))


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
