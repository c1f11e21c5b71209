"""Who besides root may go into a lab."""

from __future__ import annotations

from rackless.run.paths import LabPaths


def owner_of(paths: LabPaths) -> int | None:
    """The user who made the lab through sudo. Root needs nobody to let it in, so it is none."""
    try:
        return int(paths.owner.read_text()) or None
    except (OSError, ValueError):
        return None
