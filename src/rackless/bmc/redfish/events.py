"""EventService: subscriptions, a stream of server-sent events, and a test event."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

from yarl import URL

from rackless.bmc.core.log import LogEntry, LogKind
from rackless.bmc.redfish.body import Anything, Flag, ListOf, Needed, Number, OneOf, Shape, Text
from rackless.bmc.redfish.messages import Json, Refusal, message, missing, said
from rackless.bmc.redfish.resource import ROOT, Answer, Created, Resource, Scope, collection, link, status
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.bmc.redfish.subscriptions import (
    FOREVER,
    MOST,
    SUSPEND,
    TERMINATE,
    Crowded,
    Subscription,
    Wish,
    headers_of,
)
from rackless.bmc.redfish.texts import REGISTRIES, RESOURCE_EVENT

_SERVICE = f"{ROOT}/EventService"
_SUBSCRIPTIONS = f"{_SERVICE}/Subscriptions"
_STREAM = f"{_SERVICE}/SSE"
_PREFIXES = tuple(REGISTRIES)
_POLICY = OneOf((SUSPEND, TERMINATE, FOREVER))


_TYPES = {
    LogKind.TEST: "Alert",
    LogKind.CREATED: "ResourceAdded",
    LogKind.REMOVED: "ResourceRemoved",
    LogKind.CHANGED: "ResourceUpdated",
}
_ALL_TYPES = ("StatusChange", "ResourceUpdated", "ResourceAdded", "ResourceRemoved", "Alert")


def record(entry: LogEntry, origin: str, name: str) -> Json:
    """One happening, as a record of an Event."""
    template = RESOURCE_EVENT.messages[entry.kind]
    arguments = [name] if "%1" in template.text else []
    return {
        "EventType": _TYPES.get(entry.kind, "StatusChange"),
        "EventTimestamp": datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="seconds"),
        "MessageId": RESOURCE_EVENT.id(entry.kind),
        "Message": said(template, arguments),
        "MessageArgs": arguments,
        "MessageSeverity": "Warning" if entry.warning else "OK",
        "Severity": "Warning" if entry.warning else "OK",
        "OriginOfCondition": link(entry.origin or origin),
    }


def service(scope: Scope) -> Json:
    found = scope.service.subscriptions
    return {
        "@odata.id": _SERVICE,
        "@odata.type": SCHEMAS["EventService"],
        "Id": "EventService",
        "Name": "Event Service",
        "ServiceEnabled": True,
        "Status": status(),
        "DeliveryRetryAttempts": found.attempts,
        "DeliveryRetryIntervalSeconds": int(found.interval),
        "EventFormatTypes": ["Event"],
        "RegistryPrefixes": list(_PREFIXES),
        "EventTypesForSubscription": list(_ALL_TYPES),
        "ServerSentEventUri": _STREAM,
        "Subscriptions": link(_SUBSCRIPTIONS),
        "Actions": {"#EventService.SubmitTestEvent": {"target": f"{_SERVICE}/Actions/EventService.SubmitTestEvent"}},
    }


async def change(scope: Scope, values: Json) -> Answer:
    found = scope.service.subscriptions
    found.attempts = values.get("DeliveryRetryAttempts", found.attempts)
    found.interval = float(values.get("DeliveryRetryIntervalSeconds", found.interval))
    return None


def subscriptions(scope: Scope) -> Json:
    ids = scope.service.subscriptions.by_id
    return collection(
        _SUBSCRIPTIONS, "EventDestinationCollection", "Subscriptions", (f"{_SUBSCRIPTIONS}/{id}" for id in ids)
    )


def _one(scope: Scope) -> Subscription:
    found = scope.service.subscriptions.by_id.get(scope.names[0])
    if found is None:
        raise missing(scope.path)
    return found


def _render(one: Subscription) -> Json:
    return {
        "@odata.id": f"{_SUBSCRIPTIONS}/{one.id}",
        "@odata.type": SCHEMAS["EventDestination"],
        "Id": one.id,
        "Name": f"Subscription {one.id}",
        "Destination": one.wish.shown,
        "Context": one.wish.context,
        "Protocol": "Redfish",
        "SubscriptionType": "RedfishEvent" if one.wish.destination else "SSE",
        "EventFormatType": "Event",
        "RegistryPrefixes": list(one.wish.prefixes),
        "EventTypes": list(one.wish.types),
        "DeliveryRetryPolicy": one.wish.policy,
        "VerifyCertificate": one.wish.verify,
        "HttpHeaders": [],
        "Status": status("Disabled" if one.suspended else "Enabled"),
        "Actions": {
            "#EventDestination.ResumeSubscription": {
                "target": f"{_SUBSCRIPTIONS}/{one.id}/Actions/EventDestination.ResumeSubscription"
            }
        },
    }


def subscription(scope: Scope) -> Json:
    return _render(_one(scope))


def _crowded() -> Refusal:
    return Refusal(503, message("EventSubscriptionLimitExceeded"), headers={"Retry-After": "30"})


async def subscribe(scope: Scope, values: Json) -> Answer:
    if len(scope.service.subscriptions.by_id) >= MOST:
        raise _crowded()
    destination = values["Destination"]
    try:
        url = URL(destination)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise Refusal(400, message("PropertyValueFormatError", destination, "Destination", about=["#/Destination"]))
    headers = headers_of(values.get("HttpHeaders", []))
    if headers is None:
        raise Refusal(400, message("PropertyValueFormatError", "HttpHeaders", "HttpHeaders", about=["#/HttpHeaders"]))
    if not await scope.service.subscriptions.accepts(url.host):
        note = "The BMC tells nothing to an address of its own, to loopback or to link-local addresses."
        refused = message("PropertyValueError", "Destination", about=["#/Destination"], note=note)
        raise Refusal(400, refused)
    wish = Wish(
        destination,
        values.get("Context") or "",
        headers,
        values.get("DeliveryRetryPolicy", SUSPEND),
        tuple(values.get("RegistryPrefixes", ())),
        bool(values.get("VerifyCertificate", False)),
        tuple(values.get("EventTypes", ())),
    )
    try:
        one = await scope.service.subscriptions.add(wish)
    except Crowded:
        raise _crowded() from None
    return Created(f"{_SUBSCRIPTIONS}/{one.id}", _render(one))


async def amend(scope: Scope, values: Json) -> Answer:
    one = _one(scope)
    wish = replace(
        one.wish,
        context=values.get("Context", one.wish.context) or "",
        policy=values.get("DeliveryRetryPolicy", one.wish.policy),
        verify=values.get("VerifyCertificate", one.wish.verify),
    )
    await scope.service.subscriptions.replace(one.id, wish)
    return None


async def unsubscribe(scope: Scope) -> Answer:
    await scope.service.subscriptions.remove(_one(scope).id)
    return None


async def resume(scope: Scope, values: Json) -> Answer:
    scope.service.subscriptions.resume(_one(scope).id)
    return None


async def test(scope: Scope, values: Json) -> Answer:
    event = record(LogEntry(0, datetime.now(UTC).timestamp(), LogKind.TEST, ""), _SERVICE, "")
    given = {"EventTimestamp", "Message", "MessageArgs", "MessageId", "OriginOfCondition", "Severity"} & values.keys()
    event |= {name: values[name] for name in given}
    if isinstance(event["OriginOfCondition"], str):
        event["OriginOfCondition"] = link(event["OriginOfCondition"])
    scope.service.subscriptions.publish(event)
    return None


async def stream(scope: Scope) -> AsyncIterator[Json]:
    accounts, account, session = scope.service.accounts, scope.account, scope.session

    def valid() -> bool:
        """As long as a session's client listens it is used; a client without one is let in by its account."""
        return accounts.keep_alive(session.id) if session is not None else account in accounts.by_id.values()

    events = scope.service.subscriptions.stream(valid)
    try:
        async for event in events:
            yield event
    except Crowded:
        raise _crowded() from None
    finally:
        await events.aclose()  # type: ignore[attr-defined]


_SUBSCRIBE: Shape = {
    "Destination": Needed(Text(2048)),
    "Protocol": Needed(OneOf(("Redfish",))),
    "Context": Text(null=True),
    "SubscriptionType": OneOf(("RedfishEvent",)),
    "EventFormatType": OneOf(("Event",)),
    "EventTypes": ListOf(OneOf(_ALL_TYPES)),
    "RegistryPrefixes": ListOf(OneOf(_PREFIXES)),
    "DeliveryRetryPolicy": _POLICY,
    "HttpHeaders": ListOf(Anything()),
    "VerifyCertificate": Flag(),
}
_TEST: Shape = {
    "EventGroupId": Number(0, 2**31),
    "EventId": Text(),
    "EventTimestamp": Text(pattern=r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"),
    "EventType": OneOf(_ALL_TYPES),
    "Message": Text(1024),
    "MessageArgs": ListOf(Text()),
    "MessageId": Text(pattern=r"[A-Za-z0-9]+\.\d+\.\d+\.[A-Za-z0-9.]+"),
    "OriginOfCondition": Text(1024),
    "Severity": OneOf(("OK", "Warning", "Critical")),
    "MessageSeverity": OneOf(("OK", "Warning", "Critical")),
}

RESOURCES = (
    Resource(
        _SERVICE,
        service,
        patch=change,
        writable={"DeliveryRetryAttempts": Number(0, 100), "DeliveryRetryIntervalSeconds": Number(1, 3600)},
        privilege="ConfigureManager",
    ),
    Resource(_SUBSCRIPTIONS, subscriptions, post=subscribe, accepts=_SUBSCRIBE),
    Resource(
        f"{_SUBSCRIPTIONS}/{{subscription}}",
        subscription,
        patch=amend,
        writable={"Context": Text(null=True), "DeliveryRetryPolicy": _POLICY, "VerifyCertificate": Flag()},
        delete=unsubscribe,
    ),
    Resource(
        f"{_SUBSCRIPTIONS}/{{subscription}}/Actions/EventDestination.ResumeSubscription",
        post=resume,
        accepts={},
        action="EventDestination.ResumeSubscription",
    ),
    Resource(
        f"{_SERVICE}/Actions/EventService.SubmitTestEvent",
        post=test,
        accepts=_TEST,
        action="EventService.SubmitTestEvent",
        privilege="ConfigureManager",
    ),
    Resource(_STREAM, stream=stream),
)
