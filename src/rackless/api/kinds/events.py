"""Events, of the core group and of events.k8s.io: one stored object, two forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackless.api.kinds.kind import Column, Kind, Version, Writing
from rackless.api.kinds.shapes import INT, REFERENCE, TEXT, TIME, obj, root
from rackless.api.kinds.tables import NAME, age
from rackless.api.status import Cause, Json, invalid_value

_SOURCE = obj("", "", component=TEXT, host=TEXT)
_SERIES = obj("", "", count=INT, lastObservedTime=TIME)
_FIELDS = frozenset(
    [f"involvedObject.{f}" for f in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")]
    + ["reason", "reportingComponent", "source", "type"]
)


def _fields(event: Mapping[str, Any]) -> dict[str, str]:
    involved = event.get("involvedObject") or {}
    found = {f"involvedObject.{name}": str(value) for name, value in involved.items()}
    source = (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""
    return found | {
        "reason": event.get("reason") or "",
        "type": event.get("type") or "",
        "source": source,
        "reportingComponent": event.get("reportingComponent") or "",
    }


def _regarding_fields(event: Mapping[str, Any]) -> dict[str, str]:
    return {f"regarding.{name}": str(value) for name, value in (event.get("regarding") or {}).items()} | {
        "reason": event.get("reason") or "", "type": event.get("type") or "",
        "reportingController": event.get("reportingController") or "",
    }  # fmt: skip


def _problems(writing: Writing) -> list[Cause]:
    involved = writing.new.get("involvedObject") or {}
    namespace = writing.new["metadata"].get("namespace")
    if involved.get("namespace", namespace) not in (namespace, "") or (
        not involved.get("namespace") and namespace != "default"
    ):
        return [
            invalid_value("involvedObject.namespace", involved.get("namespace", ""), "does not match event.namespace")
        ]
    return []


def _object(reference: Any) -> str:
    reference = reference or {}
    return f"{str(reference.get('kind', '')).lower()}/{reference.get('name', '')}"


def _last_seen(event: Json) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    return age(series or event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp"))


def _first_seen(event: Json) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime"))


def _source(event: Json) -> str:
    source = event.get("source") or {}
    words = [source.get("component") or event.get("reportingComponent") or "", source.get("host") or ""]
    return ", ".join(word for word in words if word)


EVENT = Kind(
    "", "events", "Event",
    (
        Version(
            "v1",
            root(
                "Event is a report of an event somewhere in the cluster.",
                involvedObject=REFERENCE, related=REFERENCE, reason=TEXT, message=TEXT, source=_SOURCE,
                type=TEXT, count=INT,
                firstTimestamp=TIME, lastTimestamp=TIME, eventTime=TIME, series=_SERIES, action=TEXT,
                reportingComponent=TEXT, reportingInstance=TEXT,
            ),
            (
                Column("Last Seen", _last_seen, description="Time when this event was last observed"),
                Column("Type", lambda o: o.get("type") or ""),
                Column("Reason", lambda o: o.get("reason") or ""),
                Column("Object", lambda o: _object(o.get("involvedObject"))),
                Column("Subobject", lambda o: (o.get("involvedObject") or {}).get("fieldPath") or "", priority=1),
                Column("Source", _source, priority=1),
                Column("Message", lambda o: (o.get("message") or "").strip()),
                Column("First Seen", _first_seen, priority=1),
                Column("Count", lambda o: str((o.get("series") or {}).get("count") or o.get("count") or 1), priority=1),
                Column("Name", NAME.value, format="name", priority=1),
            ),
        ),
    ),
    short_names=("ev",), unconditional_update=True, create_on_update=True, problems=_problems,
    field_names=_FIELDS, fields=_fields,
)  # fmt: skip

_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "count": "deprecatedCount",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "reportingComponent": "reportingController",
}
_BACK = {new: old for old, new in _RENAMED.items()}


def from_core(event: Json) -> Json:
    return {_RENAMED.get(name, name): value for name, value in event.items()} | {"apiVersion": "events.k8s.io/v1"}


def to_core(event: Json) -> Json:
    return {_BACK.get(name, name): value for name, value in event.items()} | {"apiVersion": "v1"}


MODERN_EVENT = Kind(
    "events.k8s.io", "events", "Event",
    (
        Version(
            "v1",
            root(
                "Event is a report of an event somewhere in the cluster.",
                eventTime=TIME, series=_SERIES, reportingController=TEXT, reportingInstance=TEXT, action=TEXT,
                reason=TEXT,
                regarding=REFERENCE, related=REFERENCE, note=TEXT, type=TEXT, deprecatedSource=_SOURCE,
                deprecatedFirstTimestamp=TIME, deprecatedLastTimestamp=TIME, deprecatedCount=INT,
            ),
            tuple(
                Column(c.name, lambda o, value=c.value: value(to_core(o)), c.type, c.format, c.description, c.priority)  # type: ignore[misc]
                for c in EVENT.versions[0].columns
            ),
        ),
    ),
    short_names=("ev",), unconditional_update=True, create_on_update=True, stored_as=("", "events"),
    to_stored=to_core, from_stored=from_core,
    field_names=frozenset(["reason", "type", "reportingController", *(f"regarding.{f}" for f in ("kind",
    "namespace", "name", "uid", "apiVersion"))]),
    fields=_regarding_fields,
)  # fmt: skip
EVENTS = (EVENT, MODERN_EVENT)
