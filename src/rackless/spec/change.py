"""What a changed field means for a lab that exists. Every field of the spec carries one of these."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field


class Change(StrEnum):
    LIVE = "live"
    """Takes effect at the next `up`; running servers do not notice."""
    RESTART = "restart"
    """Counts from the next start of the servers it concerns."""
    RECREATE = "recreate"
    """What it concerns is made anew, with empty disks; `up` does that only with --replace."""
    REFUSED = "refused"
    """Not possible for this lab; it would be another one."""


WORSE = (Change.LIVE, Change.RESTART, Change.RECREATE, Change.REFUSED)
"""From harmless to impossible."""


def setting(description: str, change: Change, **field: Any) -> Any:
    """A field with its story and its class of change."""
    return Field(description=description, json_schema_extra={"change": change.value}, **field)
