"""Chance and the wall clock of a simulated computer: while it lives, all that is random and all that is a date comes from it.

The package's modules ask Python's own `random`, `secrets`, `uuid`, `time` and `datetime`; so this is where those are replaced. Keys
of certificates are still made by OpenSSL: nothing decides by what is in them.
"""

from __future__ import annotations

import datetime as calendar
import os
import random
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

EPOCH = 1_800_000_000.0
"""What the wall clock says when a story begins."""


@dataclass
class WallClock:
    """It can jump; the clock by which is waited cannot."""

    elapsed: Callable[[], float] = lambda: 0.0
    jumped: float = 0.0

    def now(self) -> float:
        return EPOCH + self.elapsed() + self.jumped


@contextmanager
def seeded(chance: random.Random, wall: WallClock) -> Iterator[None]:
    before = random.getstate()
    random.seed(chance.getrandbits(64))
    with ExitStack() as swapped:
        for target, name, value in (
            (os, "urandom", chance.randbytes),
            (random, "_urandom", chance.randbytes),
            (time, "time", wall.now),
            (time, "monotonic", lambda: wall.elapsed()),
            (time, "perf_counter", lambda: wall.elapsed()),
        ):
            swapped.enter_context(patch.object(target, name, value))
        dates = _dates(wall)
        for module in [found for name, found in sys.modules.items() if name.startswith("rackless.")]:
            if getattr(module, "datetime", None) in (calendar, calendar.datetime):
                swapped.enter_context(
                    patch.object(module, "datetime", dates if module.datetime is calendar else dates.datetime)
                )
        try:
            yield
        finally:
            random.setstate(before)


def _dates(wall: WallClock) -> types.ModuleType:
    """The module `datetime`, with a `datetime` that goes by this clock."""

    class Datetime(calendar.datetime):
        @classmethod
        def now(cls, tz: calendar.tzinfo | None = None) -> Any:
            return calendar.datetime.fromtimestamp(wall.now(), tz)

    module = types.ModuleType("datetime")
    module.__dict__.update(vars(calendar), datetime=Datetime)
    return module
