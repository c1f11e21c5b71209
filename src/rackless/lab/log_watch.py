"""Begins a log anew that has become too large: what a guest says on its serial console, or has dnsmasq say of it, must not fill the
hypervisor's disk.

Its writer keeps it open, for appending, and goes on at the new beginning. Only the end of what was there is kept, beside it. A
virtual machine that somebody else defined (the installer's bootstrap) may write without appending: its log then has a hole at its
beginning, which takes no room.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rackless.ports.clock import Clock

LOOK = 10.0
MOST_BYTES = 64 << 20
KEPT_BYTES = 1 << 20
_BLOCK = 512
"""Bytes of a block, as `stat` counts what a file takes on the disk."""


@dataclass(frozen=True, slots=True)
class LogWatch:
    folder: Path
    """With `*.log`, and folders with more of them: libvirt's has what QEMU says, and the serial consoles of others' machines."""
    clock: Clock
    most: int = MOST_BYTES
    kept: int = KEPT_BYTES

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            self.look()
            await self.clock.sleep(LOOK)

    def look(self) -> None:
        for log in self.folder.rglob("*.log"):
            with suppress(OSError):  # it is gone, or cannot be read: the next look is soon
                found = log.lstat()
                if stat.S_ISREG(found.st_mode) and min(found.st_size, found.st_blocks * _BLOCK) > self.most:
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
