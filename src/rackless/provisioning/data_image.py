"""An image in a host's virtual CD drive (DataImage): what is wanted, and whether it is so. Pure.

As in Metal3, an image is inserted and ejected while its host is off, before it is switched on again, never under a running
system: a person who wants it at once reboots the host.
"""

from __future__ import annotations

from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import State

KIND = "DataImage"
FINALIZER = "dataimage.metal3.io"
PLACES = (State.PROVISIONED, State.EXTERNALLY_PROVISIONED)
"""Provisioning states in which a DataImage can be in the drive: before, Ironic uses the drive itself."""


def wanted(record: Record) -> str | None:
    if record["metadata"].get("deletionTimestamp"):
        return None
    return str((record.get("spec") or {}).get("url") or "") or None


def attached(record: Record) -> str | None:
    return str(((record.get("status") or {}).get("attachedImage") or {}).get("url") or "") or None


def failures(record: Record) -> int:
    return int(((record.get("status") or {}).get("error") or {}).get("count") or 0)


def holds_up(record: Record | None) -> bool:
    """Whether a host that is off waits for this image before it is switched on. One that cannot be fetched does not."""
    return record is not None and wanted(record) != attached(record) and not failures(record)
