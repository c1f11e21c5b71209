"""What a server does when power comes back: for a lab, when it is up again after `rackless down`. Pure."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from rackless.bmc.core.state import BmcMemory

_KEY = "power_restore"


class Restore(StrEnum):
    """In Redfish's words."""

    ALWAYS_OFF = "AlwaysOff"
    LAST_STATE = "LastState"
    ALWAYS_ON = "AlwaysOn"


def policy(memory: BmcMemory) -> Restore:
    return Restore(memory.settings.get(_KEY, Restore.LAST_STATE))


def with_policy(memory: BmcMemory, wanted: Restore) -> BmcMemory:
    return replace(memory, settings={**memory.settings, _KEY: wanted.value})


def starts(memory: BmcMemory, *, was_on: bool) -> bool:
    match policy(memory):
        case Restore.ALWAYS_OFF:
            return False
        case Restore.LAST_STATE:
            return was_on
        case Restore.ALWAYS_ON:
            return True
