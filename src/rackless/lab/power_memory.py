"""Which servers are on, written down as it changes, so that `up` brings them back after the computer was restarted.

A computer that goes down takes its servers along, and the daemon may see them end before it ends itself; so a server counts as
off only when it has been off for a while. Whether the computer was restarted is known by a mark that does not outlive that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rackless.ports.clock import Clock
from rackless.ports.hypervisor import Hypervisor, Power, ServerChange, Unreachable
from rackless.run.files import write

BOOT = Path("/proc/sys/kernel/random/boot_id")
SETTLED = 4.0
AGAIN = 1.0


@dataclass(slots=True)
class PowerMemory:
    memory: Path
    mark: Path
    """In a folder that a restart of the computer empties; it names the start of the computer besides."""
    hypervisor: Hypervisor
    clock: Clock
    boot_id: Callable[[], str] = BOOT.read_text
    """Another one after every start of the computer."""
    _on: set[str] = field(default_factory=set)
    _looking: asyncio.Task[None] | None = None

    def restarted(self) -> bool:
        """Whether the computer was restarted since we were `awake`."""
        with suppress(FileNotFoundError):
            return self.mark.read_text() != self.boot_id()
        return True

    def wake(self) -> None:
        write(self.mark, self.boot_id())

    def recall(self) -> str:
        """The names of the servers that were on; empty when nothing is remembered."""
        with suppress(FileNotFoundError):
            return self.memory.read_text()
        return ""

    async def watch(self) -> None:
        """Until cancelled."""
        self._on = set(self.recall().split())
        try:
            while True:
                with suppress(Unreachable):
                    await self._follow()
                await self.clock.sleep(AGAIN)
        finally:
            if self._looking is not None:
                self._looking.cancel()

    async def _follow(self) -> None:
        self._look_later()
        async for event in self.hypervisor.events():
            if event.change is ServerChange.POWERED_ON:
                self._on.add(event.name)
                try:
                    self._write()
                except OSError:
                    self._look_later()
            elif event.change in (ServerChange.POWERED_OFF, ServerChange.UNDEFINED):
                self._look_later()

    def _look_later(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._looking = asyncio.create_task(self._look(), name="which servers are on")

    async def _look(self) -> None:
        await self.clock.sleep(SETTLED)
        while True:
            try:
                self._on = {state.name for state in await self.hypervisor.servers() if state.power is Power.ON}
                self._write()
            except Unreachable:
                return  # whoever follows notices, and looks again
            except OSError:  # no room: there will be some
                await self.clock.sleep(AGAIN)
            else:
                return

    def _write(self) -> None:
        write(self.memory, "\n".join(sorted(self._on)))
