"""Switching off a lab's servers for `down`: which were on is written down first, and their BMCs switch them on again at the next
`up`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from rackless.errors import GaveUp
from rackless.events import Bus
from rackless.ports.clock import Clock
from rackless.ports.hypervisor import Hypervisor, Power
from rackless.run.files import write
from rackless.run.waiting import until

SHUT_DOWN_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class ServersPause:
    memory: Path
    hypervisor: Hypervisor
    clock: Clock
    bus: Bus

    async def begin(self, *, force: bool) -> list[str]:
        """Switch off all servers: by ACPI shutdown, unless `force`. Returns those that were on."""
        running = [state.name for state in await self.hypervisor.servers() if state.power is Power.ON]
        write(self.memory, "\n".join(running))
        if not force:
            await asyncio.gather(*(self._shut_down(name) for name in running))
        for name in running:
            await self.hypervisor.power_off(name)
        return running

    async def end(self, power_returned: Callable[[Collection[str]], Awaitable[None]]) -> None:
        """Tell the BMCs that power is back, and which servers were on before; nothing when there was no pause."""
        try:
            names = self.memory.read_text().split()
        except FileNotFoundError:
            return
        if names:
            with self.bus.step("servers that were on") as step:
                step.detail = ", ".join(names) if len(names) <= 5 else f"{len(names)} of them"
                await power_returned(names)
        self.memory.unlink()

    async def _shut_down(self, name: str) -> None:
        """A server without an operating system ignores ACPI, and is switched off after a while."""

        async def off() -> tuple[bool, str]:
            state = await self.hypervisor.observe(name)
            return state is None or state.power is Power.OFF, "still on"

        with self.bus.step("shutting down", subject=f"server/{name}") as step:
            await self.hypervisor.shut_down(name)
            try:
                await until(off, what=f"{name} to shut down", within=SHUT_DOWN_WITHIN, every=0.5, clock=self.clock)
            except GaveUp:
                step.detail = f"did not within {SHUT_DOWN_WITHIN:.0f} s; switched off"
