"""Faults on demand: what goes wrong at real sites, made to happen at a chosen BMC, operation and rate.

`Faults` is asked at the places where something can go wrong; it answers with the fault that shall happen now, or None. A
fault with a count is spent by it. Nothing here knows HTTP, IPMI or servers; tests and `rackless bmc fault` fill it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from rackless.errors import InputError


class Trouble(StrEnum):
    DELAY = "delay"
    """The answer comes `seconds` late."""
    REFUSE = "refuse"
    """The answer is an error with `status`."""
    DROP = "drop"
    """The connection is closed without an answer."""
    WRONG_PASSWORD = "wrong-password"
    """Every login is refused."""
    STUCK_POWER = "stuck-power"
    """Power commands are accepted and nothing happens."""
    FAILING_MEDIA = "failing-media"
    """Images cannot be fetched."""
    SLOW_DOWNLOAD = "slow-download"
    """Images are fetched at `rate` bytes per second."""


class Operation(StrEnum):
    """What a request is about, whatever protocol it came by."""

    READ = "read"
    LOGIN = "login"
    POWER = "power"
    BOOT = "boot"
    MEDIA = "media"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class BmcFault:
    trouble: Trouble
    server: str | None = None
    """None is every server."""
    operation: Operation | None = None
    """None is every operation."""
    probability: float = 1.0
    count: int | None = None
    """How often it still happens; None is for ever."""
    seconds: float = 5.0
    status: int = 503
    rate: int = 64 * 1024
    id: int = 0
    happened: int = 0

    def describe(self) -> str:
        how = {
            Trouble.DELAY: f" of {self.seconds:g} s",
            Trouble.REFUSE: f" with {self.status}",
            Trouble.SLOW_DOWNLOAD: f" at {self.rate} bytes/s",
        }.get(self.trouble, "")
        odds = "" if self.probability >= 1 else f", one in {1 / self.probability:.3g}"
        left = "" if self.count is None else f", {self.count} left"
        where = f"{self.operation or 'every operation'} of {self.server or 'every server'}"
        return f"{self.trouble.value}{how} at {where}{odds}{left}, happened {self.happened} times"


class Faults:
    def __init__(self, chance: random.Random | None = None) -> None:
        self._faults: dict[int, BmcFault] = {}
        self._ids = itertools.count(1)
        self._chance = chance or random.Random()

    def add(self, fault: BmcFault) -> BmcFault:
        if not 0 < fault.probability <= 1:
            raise InputError(f"a probability is above 0 and at most 1, and not {fault.probability:g}")
        if fault.count is not None and fault.count < 1:
            raise InputError("a count is at least 1")
        if fault.seconds < 0 or fault.rate < 1 or not 400 <= fault.status <= 599:
            raise InputError("seconds are not negative, a rate is at least 1 and a status is an error's (400 to 599)")
        numbered = replace(fault, id=next(self._ids))
        self._faults[numbered.id] = numbered
        return numbered

    def list(self) -> list[BmcFault]:
        return list(self._faults.values())

    def clear(self, ids: Iterable[int] = ()) -> int:
        """Take these away, or all; how many that were."""
        gone = [id for id in (tuple(ids) or tuple(self._faults)) if self._faults.pop(id, None) is not None]
        return len(gone)

    def strike(self, trouble: Trouble, server: str | None, operation: Operation) -> BmcFault | None:
        """The fault of this kind that happens now, if any."""
        for fault in self._faults.values():
            if fault.trouble is not trouble or (fault.operation or operation) is not operation:
                continue
            if fault.server is not None and fault.server != server:
                continue
            if fault.probability < 1 and self._chance.random() >= fault.probability:
                continue
            self._spend(fault)
            return fault
        return None

    @property
    def any(self) -> bool:
        return bool(self._faults)

    def _spend(self, fault: BmcFault) -> None:
        if fault.count == 1:
            del self._faults[fault.id]
        else:
            left = None if fault.count is None else fault.count - 1
            self._faults[fault.id] = replace(fault, count=left, happened=fault.happened + 1)
