"""What stands in for the cluster of a quick rehearsal in a lab that stays: a process at the API VIP, which labd keeps running."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rackless.events import Bus
from rackless.ports.drivers import Drivers
from rackless.run.parts import Part
from rackless.run.paths import LabPaths
from rackless.run.supervise import Keeper

NAME = "stand-in"
PROGRAM = "rackless.operations.rehearsal.stage"


class StandIn:
    def __init__(self, paths: LabPaths, drivers: Drivers, bus: Bus) -> None:
        self._paths = paths
        self._drivers = drivers
        self._bus = bus
        self._kept: Keeper | None = None

    async def start(self) -> None:
        """Where the lab has one, and it does not run."""
        if self._kept is None and self._paths.stand_in.exists():
            argv = [sys.executable, "-P", "-m", PROGRAM, "--stand-in", str(self._paths.stand_in)]
            self._kept = Keeper(
                NAME, argv, pidfile=self._paths.run / f"{NAME}.pid", log=self._paths.logs / f"{NAME}.log", bus=self._bus,
                processes=self._drivers.processes,
            )  # fmt: skip
            await self._kept.start()

    async def stop(self) -> None:
        if self._kept is not None:
            kept, self._kept = self._kept, None
            await kept.stop()

    def describe(self) -> Iterator[Part]:
        if self._kept is not None:
            yield self._kept.describe()
