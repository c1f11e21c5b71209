"""Restarts the dnsmasq of a lab's networks (DHCP and DNS) when it dies: libvirt starts one for each network, and does not watch
it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rackless.errors import LabError
from rackless.events import Bus
from rackless.ports.clock import Clock
from rackless.ports.fabric import Networks
from rackless.run.parts import Part

LOOK = 2.0
LONGEST_PAUSE = 60.0
STEADY = 60.0
"""Seconds after which a dnsmasq that was started again counts as healthy."""


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

    async def hurry(self) -> None:
        """Restart a dead dnsmasq now instead of after its pause: somebody needs it."""
        for name, known in self._watched.items():
            if not known.running:
                known.pause = 0.0
                await self._look(name, known)

    def describe(self) -> list[Part]:
        """For `rackless status`, beside the processes that labd itself supervises."""
        return [
            Part(
                f"dnsmasq of {name}",
                running=known.running,
                pid=self.networks.server_pid(name),
                restarts=known.restarts,
                reason=known.reason,
                log="",
            )
            for name, known in self._watched.items()
        ]

    async def _look(self, name: str, known: _Watched) -> None:
        """A dnsmasq that dies again and again is started after growing pauses."""
        now = self.clock.now()
        if now < known.since + known.pause:
            return
        try:
            known.running = True
            if not await self.networks.revive(name):
                if now > known.since + STEADY:
                    known.pause = 0.0
                return
            known.reason = "was not running"
        except LabError as error:
            known.running, known.reason = False, error.why or error.what
        known.restarts += 1
        known.since, known.pause = now, min(max(2 * known.pause, LOOK), LONGEST_PAUSE)
        if known.running:
            self.bus.tell("network-revived", subject=f"network/{name}", network=name)
        else:
            self.bus.tell("network-unserved", subject=f"network/{name}", network=name, why=known.reason)
