"""Watches the free disk space for servers' disks: warns before it is full, and resumes paused servers when there is space again.

QEMU pauses a server that cannot write (ENOSPC), and does not resume it by itself.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from rackless.errors import LabError
from rackless.events import Bus
from rackless.ports.clock import Clock

LOOK = 10.0
TELL = 100.0
"""Seconds between two warnings."""
LOW = 2 << 30
ENOUGH = 256 << 20
"""Free bytes from which paused servers are resumed."""


@dataclass(slots=True)
class DiskWatch:
    room: Callable[[], int]
    go_on: Callable[[], Awaitable[list[str]]]
    """Resume the servers that paused because the disk was full; returns their names."""
    clock: Clock
    bus: Bus
    warnings: list[str] = field(default_factory=list)

    async def watch(self) -> None:
        """Until cancelled."""
        told = -math.inf
        while True:
            free = self.room()
            self.warnings = [f"only {free >> 20} MiB are free for the disks"] if free < LOW else []
            if self.warnings and self.clock.now() >= told + TELL:
                told = self.clock.now()
                self.bus.tell("disk-low", free_mib=free >> 20)
            if free >= ENOUGH:
                await self._go_on()
            await self.clock.sleep(LOOK)

    async def _go_on(self) -> None:
        try:
            for name in await self.go_on():
                self.bus.tell("server-resumed", level="info", subject=f"server/{name}", server=name)
        except LabError:  # libvirt does not answer; the next look is soon
            return
