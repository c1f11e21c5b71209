"""Objects beside a host that nobody here acts on: refused with what to do instead, never kept and ignored.

What is there already may be changed and deleted, as long as it does not ask for more.
"""

from __future__ import annotations

from collections.abc import Callable

from rackless.api.kinds.kind import Writing
from rackless.api.status import Cause, Json, forbidden_field

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


COMPANIONS = {
    "hostfirmwaresettings.metal3.io": _refuse(
        "settings", "firmware settings are not applied here: PATCH Bios/Settings at the host's BMC by Redfish"
    ),
    "hostfirmwarecomponents.metal3.io": _refuse("updates", "firmware is not flashed here: servers of a lab have none"),
    "hostupdatepolicies.metal3.io": _refuse(
        "", "firmware is not changed here, so there is no time for it to be changed"
    ),
    "dataimages.metal3.io": _refuse("", "images are not attached here: use InsertMedia at the host's BMC by Redfish"),
    "bmceventsubscriptions.metal3.io": _refuse(
        "", "BMCs are not subscribed to here: POST to EventService/Subscriptions at the host's BMC by Redfish"
    ),
}
"""By definition."""
