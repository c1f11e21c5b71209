"""LogServices: what happened to the server (under the system) and to its BMC (under the manager)."""

from __future__ import annotations

from datetime import UTC, datetime

from rackless.bmc.core.log import Log, LogEntry
from rackless.bmc.redfish.messages import Json, missing
from rackless.bmc.redfish.resource import ROOT, Answer, Resource, Scope, collection, link, status
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.bmc.redfish.texts import RESOURCE_EVENT


def _log(scope: Scope) -> Log:
    """Of the system or of the manager, whichever the path is below."""
    if scope.path.startswith(f"{ROOT}/Systems/"):
        scope.chassis.server()
        return scope.chassis.log
    scope.chassis  # noqa: B018 - says 404 when there is no such manager
    return scope.service.log


def _parent(scope: Scope) -> str:
    return scope.path.partition("/LogServices")[0]


def services(scope: Scope) -> Json:
    _log(scope)
    return collection(scope.path, "LogServiceCollection", "Log Services", [f"{_parent(scope)}/LogServices/EventLog"])


def service(scope: Scope) -> Json:
    _log(scope)
    _only(scope)
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["LogService"],
        "Id": "EventLog",
        "Name": "Event Log",
        "LogEntryType": "Event",
        "OverWritePolicy": "WrapsWhenFull",
        "MaxNumberOfRecords": 256,
        "ServiceEnabled": True,
        "DateTime": datetime.now(UTC).isoformat(timespec="seconds"),
        "DateTimeLocalOffset": "+00:00",
        "Status": status(),
        "Entries": link(f"{scope.path}/Entries"),
        "Actions": {"#LogService.ClearLog": {"target": f"{scope.path}/Actions/LogService.ClearLog"}},
    }


def entries(scope: Scope) -> Json:
    found = _log(scope).entries()
    _only(scope)
    uris = [f"{scope.path}/{entry.number}" for entry in found]
    listed = collection(scope.path, "LogEntryCollection", "Log Entries", uris)
    # clients read a log in one go: DMTF wants the entries themselves here
    listed["Members"] = [_render(uri, entry, _parent(scope)) for uri, entry in zip(uris, found, strict=True)]
    return listed


def entry(scope: Scope) -> Json:
    _only(scope)
    found = next((one for one in _log(scope).entries() if str(one.number) == scope.names[2]), None)
    if found is None:
        raise missing(scope.path)
    return _render(scope.path, found, _parent(scope))


def _render(uri: str, found: LogEntry, parent: str) -> Json:
    return {
        "@odata.id": uri,
        "@odata.type": SCHEMAS["LogEntry"],
        "Id": str(found.number),
        "Name": f"Log Entry {found.number}",
        "EntryType": "Event",
        "Severity": "Warning" if found.warning else "OK",
        "Created": datetime.fromtimestamp(found.at, UTC).isoformat(timespec="seconds"),
        "Message": found.text,
        "MessageId": RESOURCE_EVENT.id(found.kind),
        "Links": {"OriginOfCondition": link(parent)},
    }


async def clear(scope: Scope, values: Json) -> Answer:
    _only(scope)
    _log(scope).clear()
    return None


def _only(scope: Scope) -> None:
    if scope.names[1] != "EventLog":
        raise missing(scope.path)


def _resources(parent: str) -> tuple[Resource, ...]:
    log = f"{parent}/LogServices/{{log}}"
    return (
        Resource(f"{parent}/LogServices", services),
        Resource(log, service),
        Resource(f"{log}/Entries", entries),
        Resource(f"{log}/Entries/{{entry}}", entry),
        Resource(
            f"{log}/Actions/LogService.ClearLog",
            post=clear,
            accepts={},
            action="LogService.ClearLog",
            privilege="ConfigureManager",
        ),
    )


RESOURCES = (*_resources(f"{ROOT}/Systems/{{system}}"), *_resources(f"{ROOT}/Managers/{{manager}}"))
