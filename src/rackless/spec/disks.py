"""How the disks of a lab are kept."""

from __future__ import annotations

from enum import StrEnum

from rackless.spec.change import Change, setting
from rackless.spec.value import Value


class DiskCache(StrEnum):
    UNSAFE = "unsafe"
    SAFE = "safe"


class DiskSpec(Value):
    """What all disks of the lab have in common."""

    cache: DiskCache = setting(
        "What a guest's sync is worth. `unsafe`: it returns at once and the host writes when it likes, so disks are as fast as "
        "memory and etcd never waits; a crash of the computer (not of a server, nor of rackless) may leave them damaged. "
        "`safe`: it returns when the data is on the host's disk, as on real hardware; etcd is then as slow as that disk.",
        Change.RESTART,
        default=DiskCache.UNSAFE,
    )
