"""The hypervisor's capacity: memory, CPUs, free disk, how fast fsync is. Changes nothing."""

from __future__ import annotations

from pathlib import Path

from rackless.plan.budget import Capacity
from rackless.ports.computer import Computer


def observe_capacity(
    computer: Computer, folder: Path, *, kvm: bool | None = None, promised: int = 0, syncs: bool = False
) -> Capacity:
    """`folder` is where the disks will be; it need not exist yet."""
    memory = computer.memory()
    return Capacity(
        memory=memory.total,
        available=memory.available,
        cpus=computer.cpus(),
        free_disk=computer.free_bytes(folder),
        kvm=kvm,
        fsync=computer.fsync_seconds(folder) if syncs else None,
        promised=promised,
    )
