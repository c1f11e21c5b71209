"""A bridge or NIC of the hypervisor that a lab's cluster network uses as its wire."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from rackless.spec.change import Change, setting
from rackless.spec.units import DeviceName
from rackless.spec.value import Value


class AttachSpec(Value):
    """`attach: br0` is short for a mapping with that device."""

    device: DeviceName = setting(
        "A bridge or a NIC of the hypervisor. A bridge gets one more port, a cable into the lab. A NIC moves into the lab, "
        "and the hypervisor does not see it meanwhile.",
        Change.LIVE,
    )
    in_use: bool = setting(
        "Take a NIC although it has addresses, carries a default route or belongs to a bridge or bond. The hypervisor is "
        "cut off from it until the lab gives it back.",
        Change.LIVE,
        default=False,
    )

    @model_validator(mode="before")
    @classmethod
    def _take_the_short_form(cls, given: Any) -> Any:
        return {"device": given} if isinstance(given, str) else given
