"""Validation beyond the schema of Metal3's objects beside a BareMetalHost.

Kinds for which rackless has no controller are refused with what to do instead, not stored and ignored; existing objects may be
changed and deleted, as long as they do not ask for more.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from rackless.api.kinds.kind import Writing
from rackless.api.status import Cause, Json, forbidden_field, invalid_value

Rule = Callable[[Writing], list[Cause]]


def _refuse(field: str, why: str) -> Rule:
    """Unless `field` of the spec is empty, or was there before; without a field nothing new is taken."""

    def problems(writing: Writing) -> list[Cause]:
        if writing.subresource:
            return []
        before, after = _asked(writing.old, field), _asked(writing.new, field)
        if writing.old is not None and before == after:
            return []
        if field and not after:
            return []
        return [forbidden_field(f"spec.{field}" if field else "spec", why)]

    return problems


def _asked(record: Json | None, field: str) -> object:
    spec = (record or {}).get("spec") or {}
    return spec.get(field) if field else spec


def _data_image(writing: Writing) -> list[Cause]:
    """An image is fetched by the engine and put into the drive of the host of the same name."""
    url = str(((writing.new.get("spec") or {}).get("url")) or "")
    if writing.subresource or urlsplit(url).scheme in ("http", "https"):
        return []
    return [invalid_value("spec.url", url, "must be an http or https URL")]


def _subscription(writing: Writing) -> list[Cause]:
    """A subscription cannot be changed: make another one instead."""
    spec = writing.new.get("spec") or {}
    if writing.subresource:
        return []
    if writing.old is not None and (writing.old.get("spec") or {}) != spec:
        return [forbidden_field("spec", "subscriptions cannot be updated, please recreate it")]
    found = [
        invalid_value(f"spec.{field}", "", f"{field} cannot be empty")
        for field in ("hostName", "destination")
        if not spec.get(field)
    ]
    destination = str(spec.get("destination") or "")
    parts = urlsplit(destination)
    if destination and (parts.scheme not in ("http", "https") or not parts.netloc):
        found.append(invalid_value("spec.destination", destination, "must be an http or https URL"))
    elif destination and not parts.path:
        found.append(
            invalid_value("spec.destination", destination, "hostname-only destination must have a trailing slash")
        )
    namespace = (spec.get("httpHeadersRef") or {}).get("namespace")
    if namespace not in (None, "", writing.new["metadata"].get("namespace", "")):
        found.append(
            invalid_value("spec.httpHeadersRef.namespace", namespace, "must be the namespace of the subscription")
        )
    return found


COMPANIONS: dict[str, Rule] = {
    "hostfirmwarecomponents.metal3.io": _refuse("updates", "firmware is not flashed here: servers of a lab have none"),
    "hostupdatepolicies.metal3.io": _refuse(
        "", "firmware settings are given here when a host is prepared, and at no other time"
    ),
    "preprovisioningimages.metal3.io": _refuse(
        "", "no ramdisk is built for one host here: addresses go by the host's preprovisioningNetworkDataName"
    ),
    "dataimages.metal3.io": _data_image,
    "bmceventsubscriptions.metal3.io": _subscription,
}
"""By definition."""
