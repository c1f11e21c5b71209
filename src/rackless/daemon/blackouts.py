"""Servers that went off while somebody waits for them to call: told after a while, instead of waiting for a time-out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rackless.bmc.fleet import BmcState
from rackless.ports.clock import Clock
from rackless.ports.hypervisor import Power

LONG = 20.0
"""Seconds; an engine that restarts a server has it off for two or three."""
FORGOTTEN = 10.0
"""Seconds without a look, after which a server may have been on meanwhile."""


@dataclass
class Blackouts:
    observe: Callable[[], Mapping[str, BmcState]]
    clock: Clock
    _off: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Since when a server is off, and when that was seen last."""

    def lost(self, name: str) -> str:
        """Why nothing is to be heard of a server; empty while it is on, starting, or off for a moment only."""
        bmc = self.observe().get(name)
        if bmc is None or bmc.power is not Power.OFF or bmc.starting:
            self._off.pop(name, None)
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
