"""Annotations of a BareMetalHost that act beside its provisioning states: a status or hardware details given with it, and
`detached`.

`baremetalhost.metal3.io/status`: a host that was moved from another API, or restored from a backup, goes on from this status.
`inspect.metal3.io/hardwaredetails`: its hardware, where inspection is disabled.
`baremetalhost.metal3.io/detached`: Ironic forgets it; its system keeps running, and its power is not managed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rackless.controllers.runtime.controller import Happened, Result
from rackless.ports.provisioner import Done, ErrorKind, Failed, HostAccess, Provisioner
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import BadRecord, Host, Operational, State, read, status_record
from rackless.provisioning.settle import stamped

STATUS = "baremetalhost.metal3.io/status"
HARDWARE = "inspect.metal3.io/hardwaredetails"
DETACHED = "baremetalhost.metal3.io/detached"
DETACHABLE = (State.PROVISIONED, State.EXTERNALLY_PROVISIONED, State.AVAILABLE)
DETACHED_POLL = 600.0
TRY_AGAIN = 10.0


FILLED: Mapping[str, Any] = {
    "errorCount": 0,
    "errorMessage": "",
    "operationalStatus": "",
    "poweredOn": False,
    "provisioningFailCount": 0,
}
"""What a status must have; a backup, or a person, may have left it out."""


def brought_along(record: Record, host: Host, now: str) -> Result | None:
    """Take over the status or hardware of an annotation, for a host that has none yet; None when there is nothing to do."""
    if STATUS in host.annotations:
        return None if host.deleting and awaits_status(record) else _status(record, host, now)
    if HARDWARE in host.annotations:
        return _hardware(host)
    return None


def awaits_status(record: Record) -> bool:
    """Whether a host is to go on from the status in its annotation, which was not taken over yet.

    Until then nothing may be done with it: it may be running something, and a host without a status is inspected and cleaned.
    """
    annotations = record["metadata"].get("annotations") or {}
    return STATUS in annotations and not (record.get("status") or {}).get("lastUpdated")


def held(host: Host, why: str) -> Mapping[str, Any]:
    """The status of a host whose annotation cannot be taken over; without a time, so that it still has none of its own."""
    failed = replace(
        host.status,
        operational=Operational.ERROR,
        error_type=ErrorKind.REGISTRATION,
        error_message=why,
        last_updated="",
    )
    return status_record(failed, host.spec.credentials_name)


def _status(record: Record, host: Host, now: str) -> Result:
    gone = {"metadata": {"annotations": {STATUS: None}}}
    if not awaits_status(record):
        return Result(0.0, change=gone)  # it has one of its own, which is newer
    found = _json(host.annotations[STATUS])
    try:
        if found is None:
            raise BadRecord("it is no JSON object")
        read({**record, "status": found})
    except BadRecord as error:
        why = f"the annotation {STATUS} cannot be read: {error}. Nothing is done with the host until it is mended or taken away"
        if host.status.error_message == why:
            return Result()
        return Result(status=held(host, why), events=(Happened("InvalidAnnotationValue", why, "Warning"),))
    provisioning = {"ID": "", "state": "", **(found.get("provisioning") or {})}
    status = {"lastUpdated": now, **FILLED, **found, "provisioning": provisioning}
    told = Happened("StatusRestored", f"it goes on from {provisioning['state'] or 'the beginning'}")
    return Result(0.0, status=status, change=gone, events=(told,))


def _hardware(host: Host) -> Result | None:
    gone = {"metadata": {"annotations": {HARDWARE: None}}}
    if host.status.hardware is not None and host.spec.inspect:
        return Result(0.0, change=gone)  # somebody has looked
    found = _json(host.annotations[HARDWARE])
    if found is None:
        told = Happened("InvalidAnnotationValue", f"{HARDWARE}: it is no JSON object", "Warning")
        return Result(0.0, change=gone, events=(told,))
    status = status_record(replace(host.status, hardware=found), host.spec.credentials_name)
    return Result(
        0.0, status=status, change=gone, events=(Happened("UpdateHardwareDetails", "as the annotation says"),)
    )


def wants_detached(host: Host) -> bool:
    """Whether the host is to be detached, and is in a state in which it can be."""
    if DETACHED not in host.annotations:
        return False
    return (
        host.status.operational is Operational.DETACHED
        or host.status.state in DETACHABLE
        or _asks(host, "force") is True
    )


async def detach(host: Host, access: HostAccess, provisioner: Provisioner, now: str) -> Result:
    if host.deleting and _asks(host, "deleteAction") == "delay":
        return Result(DETACHED_POLL)  # until the annotation is taken away
    if host.status.operational is Operational.DETACHED:
        return Result(DETACHED_POLL)
    if (still := await forget(access, provisioner)) is not None:
        return still
    status = replace(
        host.status,
        operational=Operational.DETACHED,
        error_type=None,
        error_message="",
        error_count=0,
    )
    told = Happened("Detached", "the provisioner has forgotten it; what runs there runs on")
    record = status_record(stamped(status, now), host.spec.credentials_name)
    return Result(DETACHED_POLL, status=record, events=(told,))


async def forget(access: HostAccess, provisioner: Provisioner) -> Result | None:
    """Have the provisioner forget a host whose system runs on; None when it has."""
    outcome = await provisioner.delete(access)
    if isinstance(outcome, Failed):
        return Result(TRY_AGAIN, events=(Happened("DetachError", outcome.message, "Warning"),))
    return None if isinstance(outcome, Done) else Result(TRY_AGAIN)


def waits_with_its_end(host: Host) -> bool:
    return DETACHED in host.annotations and _asks(host, "deleteAction") == "delay"


def _asks(host: Host, name: str) -> Any:
    return (_json(host.annotations.get(DETACHED, "")) or {}).get(name)


def _json(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return dict(found) if isinstance(found, Mapping) else None
