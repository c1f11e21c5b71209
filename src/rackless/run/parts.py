"""A program that a lab keeps running, as its status tells of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    running: bool
    pid: int | None
    restarts: int
    reason: str
    """Why it was started again, or is not running."""
    log: str
    up_seconds: float | None = None
    """For how long it runs since it was last started; None when it does not, or nobody knows."""
