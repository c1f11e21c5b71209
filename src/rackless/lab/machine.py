"""The hypervisor as it is: memory, CPUs, free disk, how fast a sync is. Only looks."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rackless.plan.budget import Machine

_SYNCS = 40
_LONGEST = 0.3
"""Seconds: a disk that is slow is known by then."""
_BLOCK = b"\0" * 2300
"""About what etcd writes for one entry of its log."""


def observe_machine(folder: Path, *, kvm: bool | None = None, promised: int = 0, syncs: bool = False) -> Machine:
    """`folder` is where the disks will be; it need not exist yet."""
    place = _existing(folder)
    memory = _memory()
    return Machine(
        memory=memory["MemTotal"],
        available=memory["MemAvailable"],
        cpus=len(os.sched_getaffinity(0)),
        free_disk=free_bytes(folder),
        kvm=kvm,
        fsync=measure_fsync(place) if syncs else None,
        promised=promised,
    )


def free_bytes(folder: Path) -> int:
    space = os.statvfs(_existing(folder))
    return space.f_bavail * space.f_frsize


def measure_fsync(folder: Path) -> float | None:
    """The slowest but one of forty small writes with a sync, as etcd makes them. The file has no name and leaves nothing.

    None where we may not write, or the file system has no such files.
    """
    try:
        handle = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:
        return None
    times: list[float] = []
    try:
        while len(times) < _SYNCS and sum(times) < _LONGEST:
            os.write(handle, _BLOCK)
            started = time.perf_counter()
            os.fdatasync(handle)
            times.append(time.perf_counter() - started)
    finally:
        os.close(handle)
    return sorted(times)[-2 if len(times) == _SYNCS else -1]


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def _memory() -> dict[str, int]:
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        found[name] = int(rest.split()[0]) * 1024
    return found
