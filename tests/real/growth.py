"""Whether a lab that stands still grows: judged from samples of what it takes, in a way that noise does not fail.

Something has grown when the least of the last minutes is more than the most of the first ones: a steady leak, however slow,
gets there; what goes up and down does not. Memory has an allowance, because pages come and go with what the kernel
caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.real.footprint import Sample, Usage

SPAN = 1 / 4
"""Of the samples: the first quarter is compared with the last."""
MEMORY_ALLOWANCE = 4 << 20
"""Bytes by which a program's memory may differ."""
SERVER_ALLOWANCE = 0.02
"""Part of a server's memory: a guest's caches, and QEMU's of its translated code, fill up for as long as it runs."""
STORED_ALLOWANCE = 16 << 20
"""Bytes: what the guests' journals and logs may add to their disks."""


def grown(samples: Sequence[Sample]) -> list[str]:
    """What has grown, in words; empty when all is well."""
    count = max(2, round(len(samples) * SPAN))
    first, last = samples[:count], samples[-count:]
    found: list[str] = []

    def compare(what: str, of: Callable[[Sample], float], allowed: float = 0.0) -> None:
        most, least = max(map(of, first)), min(map(of, last))
        if least > most + allowed:
            found.append(f"{what}: at most {most:g} at first, at least {least:g} at last")

    def compare_program(name: str, now: Usage) -> None:
        allowed = now.pss * SERVER_ALLOWANCE if now.server else MEMORY_ALLOWANCE
        compare(f"{name}, memory", lambda sample: sample.processes[name].pss, allowed)
        compare(f"{name}, descriptors", lambda sample: sample.processes[name].descriptors)
        compare(f"{name}, threads", lambda sample: sample.processes[name].threads)

    compare("files", lambda sample: sample.files)
    compare("bytes stored", lambda sample: sample.stored, STORED_ALLOWANCE)
    for name, now in sorted(last[-1].processes.items()):
        if all(name in sample.processes for sample in samples):
            compare_program(name, now)
        else:
            found.append(f"{name}: was not there all the time")
    return found
