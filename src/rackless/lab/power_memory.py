"""Remembers which servers are on, so that `up` switches them on again after a reboot of the computer.

At a shutdown of the computer labd may see its servers end before it ends itself; so a server counts as off only when it has been
off for a while. A reboot is noticed by a mark file that does not survive it.
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
    """The mark file, in a folder that a reboot empties; the boot id is in it, too."""
    hypervisor: Hypervisor
    clock: Clock
    boot_id: Callable[[], str] = BOOT.read_text
    """The kernel's boot id: another one after every reboot."""
    _on: set[str] = field(default_factory=set)
    _looking: asyncio.Task[None] | None = None

    def restarted(self) -> bool:
        """Whether the computer was rebooted since the mark file was written."""
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
