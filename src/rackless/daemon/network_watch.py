"""Keeps the lab's DHCP and DNS answering: libvirt starts a dnsmasq for each network, and does not look after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rackless.errors import LabError
from rackless.events import Bus
from rackless.ports.clock import Clock
from rackless.ports.fabric import Networks

LOOK = 2.0
LONGEST_PAUSE = 60.0
STEADY = 60.0
"""Seconds after which one that was started again counts as well."""


@dataclass(slots=True)
class _Watched:
    restarts: int = 0
    reason: str = ""
    running: bool = True
    pause: float = 0.0
    since: float = 0.0


@dataclass(slots=True)
class NetworkWatch:
    networks: Networks
    names: Sequence[str]
    clock: Clock
    bus: Bus
    _watched: dict[str, _Watched] = field(default_factory=dict)

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            await self.clock.sleep(LOOK)
            for name in self.names:
                await self._look(name, self._watched.setdefault(name, _Watched()))

    def describe(self) -> list[dict[str, Any]]:
        """For the lab's status, beside the programs that labd itself keeps."""
        return [
            {
                "name": f"dnsmasq of {name}",
                "running": known.running,
                "pid": self.networks.server_pid(name),
                "restarts": known.restarts,
                "reason": known.reason,
                "log": "",
            }
            for name, known in self._watched.items()
        ]

    async def _look(self, name: str, known: _Watched) -> None:
        """One that dies again and again is started again after growing pauses."""
        now = self.clock.now()
        if now < known.since + known.pause:
            return
        try:
            known.running = True
            if not await self.networks.revive(name):
                if now > known.since + STEADY:
                    known.pause = 0.0
                return
            known.reason = "it was not running"
        except LabError as error:
            known.running, known.reason = False, error.why or error.what
        known.restarts += 1
        known.since, known.pause = now, min(max(2 * known.pause, LOOK), LONGEST_PAUSE)
        state = "started again" if known.running else f"not started: {known.reason}"
        self.bus.warn(f"nobody answered DHCP and DNS on the network {name}; {state}")
