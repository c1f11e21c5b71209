"""Which objects a pivot moves, in which order, and how each is written in the target API. Pure.

An object gets a new UID there. References by UID are rewritten: ownerReferences, and the providerID of a Machine. All other
references between a Machine and its host are by name, and stay.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from rackless.controllers.event_subscriptions import KIND as SUBSCRIPTION
from rackless.controllers.machines.records import KIND as MACHINE
from rackless.controllers.machines.records import PROVIDER, SET
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import HARDWARE_DATA, secrets_of
from rackless.provisioning.baremetalhost import KIND as HOST
from rackless.provisioning.data_image import KIND as DATA_IMAGE
from rackless.provisioning.firmware import SETTINGS as FIRMWARE

HEALTH = "MachineHealthCheck"
SECRET = "Secret"
BESIDE = (FIRMWARE, DATA_IMAGE, SUBSCRIPTION)
"""Beside hosts; an API may not have these kinds."""
ORDER = (SECRET, HOST, HARDWARE_DATA, *BESIDE, SET, MACHINE, HEALTH)
"""Owners before what they own, and what is named before who names it."""
PAUSED_KINDS = (HEALTH, SET, MACHINE, HOST)
"""Kinds that have a controller, in the order in which they are paused: first those whose controllers make other objects."""
MOVE = "rackless.test/pivot"
"""Annotation on every moved object: the id of the pivot."""

Uids = Mapping[tuple[str, str], str]
"""UIDs of the objects that were written in the target API, by kind and name."""


def secrets_named(hosts: Iterable[Record], others: Iterable[Record], namespace: str) -> list[str]:
    """The Secrets of this namespace that hosts, subscriptions, Machines and sets name."""
    found = {name for host in hosts for name in secrets_of(host)}
    for record in others:
        spec = record.get("spec") or {}
        if headers := (spec.get("httpHeadersRef") or {}).get("name"):
            found.add(f"{namespace}/{headers}")
        template = ((spec.get("template") or {}).get("spec") or {}) if record["kind"] == SET else spec
        value = (template.get("providerSpec") or {}).get("value") or {}
        reference = value.get("userData") or {}
        if reference.get("name"):
            found.add(f"{reference.get('namespace') or namespace}/{reference['name']}")
    places = (name.partition("/") for name in found)
    return sorted(name for place, _, name in places if place == namespace)


def copy_of(record: Record, uids: Uids) -> Record:
    """The object as it is written in the target API; its status is written after it."""
    metadata = record["metadata"]
    kept = {
        name: copy.deepcopy(metadata[name])
        for name in ("name", "namespace", "labels", "annotations")
        if name in metadata
    }
    if record["kind"] != SECRET:
        owners = [_owner(each, uids) for each in metadata.get("ownerReferences") or ()]
        kept["ownerReferences"] = [each for each in owners if each is not None]
        kept["finalizers"] = list(metadata.get("finalizers") or ())
    wanted = {name: copy.deepcopy(value) for name, value in record.items() if name not in ("metadata", "status")}
    if record["kind"] == MACHINE and (provider := (wanted.get("spec") or {}).get("providerID")):
        wanted["spec"]["providerID"] = _provider(provider, uids)
    return {**wanted, "metadata": kept}


def same(one: Record, other: Record) -> bool:
    """Whether two Secrets have the same data."""
    return bool((one.get("data") or {}) == (other.get("data") or {}) and one.get("type") == other.get("type"))


def _owner(reference: Mapping[str, Any], uids: Uids) -> dict[str, Any] | None:
    """None for an owner that is not moved: with a reference to a missing owner the object would be garbage collected."""
    uid = uids.get((str(reference.get("kind")), str(reference.get("name"))))
    return {**reference, "uid": uid} if uid else None


def _provider(provider: str, uids: Uids) -> str:
    parts = provider.removeprefix(PROVIDER).split("/")
    if not provider.startswith(PROVIDER) or len(parts) != 3:
        return provider
    namespace, name, uid = parts
    return f"{PROVIDER}{namespace}/{name}/{uids.get((HOST, name), uid)}"
