"""A process that labd keeps running (libvirtd, Ironic, the API), as `rackless status` shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    running: bool
    pid: int | None
    restarts: int
    reason: str
    """Why labd restarted the process, or why it is not running."""
    log: str
    up_seconds: float | None = None
    """Seconds since the process was last started; None when it is not running, or when that is not known."""
