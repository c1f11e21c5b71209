"""How long each phase of a host may take: by default, and as an annotation of the host says. Pure.

kubectl annotate bmh worker-0 rackless.test/deadlines=inspecting=45m,provisioning=2h
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackless.provisioning.baremetalhost import State

BY_DEFAULT: Mapping[State, float] = {
    State.REGISTERING: 600.0,
    State.INSPECTING: 1800.0,
    State.PREPARING: 1800.0,
    State.PROVISIONING: 3600.0,
    State.DEPROVISIONING: 3600.0,
}
"""Seconds a phase may take before it counts as failed; longer than the engine's own, which know better why …"""
OTHERWISE = 600.0
"""… and for all else that is waited for: power, adoption, letting go."""
_DURATION = re.compile(r"(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?")


class BadDeadlines(ValueError):
    """Says what of the annotation cannot be read."""


def read_deadlines(text: str) -> dict[State, float]:
    """Seconds by phase, as the annotation says; the others as they are by default. Raises BadDeadlines."""
    found = dict(BY_DEFAULT)
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = part.partition("=")
        state = next((each for each in BY_DEFAULT if each.value == name.strip()), None)
        if state is None:
            raise BadDeadlines(
                f"{name.strip()!r} is no phase: there are {', '.join(each.value for each in BY_DEFAULT)}"
            )
        matched = _DURATION.fullmatch(value.strip())
        hours, minutes, seconds = (int(each or 0) for each in matched.groups()) if matched else (0, 0, 0)
        if not hours and not minutes and not seconds:
            raise BadDeadlines(f"{value.strip()!r} is no time: write it as 90s, 45m or 1h30m")
        found[state] = hours * 3600.0 + minutes * 60.0 + seconds
    return found
