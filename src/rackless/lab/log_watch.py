"""Begins a log anew that has become too large: what a guest says on its serial console, or has dnsmasq say of it, must not fill the
hypervisor's disk.

Its writer keeps it open, for appending, and goes on at the new beginning. Only the end of what was there is kept, beside it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rackless.ports.clock import Clock

LOOK = 10.0
MOST_BYTES = 64 << 20
KEPT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LogWatch:
    folder: Path
    """With `*.log`, and folders with more of them."""
    clock: Clock
    most: int = MOST_BYTES
    kept: int = KEPT_BYTES

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            self.look()
            await self.clock.sleep(LOOK)

    def look(self) -> None:
        for log in (*self.folder.glob("*.log"), *self.folder.glob("*/*.log")):
            with suppress(OSError):  # it is gone, or cannot be read: the next look is soon
                if not log.is_symlink() and log.stat().st_size > self.most:
                    self._begin_anew(log)

    def _begin_anew(self, log: Path) -> None:
        with log.open("rb") as file:
            file.seek(-self.kept, os.SEEK_END)
            end = file.read(self.kept)
        os.truncate(log, 0)  # before anything is written: perhaps there is no room left
        old = log.with_suffix(".old")
        old.touch(mode=0o600)
        old.write_bytes(end)
        with log.open("ab") as file:
            file.write(
                f"\r\n[rackless: this log had {self.most >> 20} MiB; its end until here is {old.name}]\r\n".encode()
            )
