"""Three quarters of an hour in which nobody asks anything of a lab: it takes no more of its machine than after ten minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.conftest import PretendHost
from tests.real.footprint import Sample, sample
from tests.real.growth import grown

pytestmark = [pytest.mark.real, pytest.mark.long]

MINUTES = 45
SETTLED_MINUTES = 10
"""After which nothing may grow any more."""


def test_a_lab_nobody_asks_anything_of_does_not_grow(
    host: PretendHost, record_property: Callable[[str, object], None]
) -> None:
    host.rackless("up", timeout=3600)
    samples = stand_still(host, MINUTES)
    told = "\n".join(map(describe, samples))
    record_property("samples", told)
    assert grown(samples[SETTLED_MINUTES:]) == [], told
    assert host.status()["vip"]["ready"]


def stand_still(host: PretendHost, minutes: int) -> list[Sample]:
    """What the lab takes, now and at the end of every minute."""
    folders = (host.folder / "state", host.folder / "run")
    samples: list[Sample] = []
    began = time.monotonic()
    for minute in range(minutes + 1):
        time.sleep(max(0.0, began + 60 * minute - time.monotonic()))
        samples.append(sample(Path(host.pin()), folders, time.monotonic() - began))
    return samples


def describe(seen: Sample) -> str:
    parts = [
        f"{name} {usage.cpu:.1f}s {usage.pss >> 20}M {usage.descriptors}fd {usage.threads}t"
        for name, usage in sorted(seen.processes.items())
    ]
    return f"{seen.at / 60:5.1f} min, {seen.files} files, {seen.stored >> 20}M: {', '.join(parts)}"
