"""Which user besides root may run commands inside a lab."""

from __future__ import annotations

from rackless.run.paths import LabPaths


def owner_of(paths: LabPaths) -> int | None:
    """The user who made the lab through sudo. None when root made it."""
    try:
        return int(paths.owner.read_text()) or None
    except (OSError, ValueError):
        return None
