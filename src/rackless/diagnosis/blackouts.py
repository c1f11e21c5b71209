"""Notices servers that are off or paused while Ironic waits for their agent: the failure is reported at once instead of after a
timeout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rackless.bmc.fleet import BmcState
from rackless.ports.clock import Clock
from rackless.ports.hypervisor import Power

LONG = 20.0
"""Seconds that a server may be off: Ironic has it off for two or three when it reboots it."""
FORGOTTEN = 10.0
"""Seconds without an observation, after which a server may have been on meanwhile."""
FULL = 16 << 20
"""Bytes; with less for their disks QEMU stops servers at their next write."""


@dataclass
class Blackouts:
    observe: Callable[[], Mapping[str, BmcState]]
    clock: Clock
    room: Callable[[], int] = lambda: FULL
    """Bytes that are free for the servers' disks."""
    _off: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Since when a server is off, and when that was seen last."""

    def lost(self, name: str) -> str:
        """Why a server's agent cannot call; empty while the server is on, starting, or off for a moment only."""
        bmc = self.observe().get(name)
        if bmc is None or bmc.power is not Power.OFF or bmc.starting:
            self._off.pop(name, None)
            if bmc is not None and bmc.power is Power.ON and self.room() < FULL:
                return "there is no room left on this computer for the servers' disks, and a server that cannot write stops"
            return ""
        now = self.clock.now()
        since, last = self._off.get(name, (now, now))
        if now - last > FORGOTTEN:
            since = now
        self._off[name] = since, now
        if now - since < LONG:
            return ""
        del self._off[name]
        return "the server went off, and stayed off"
