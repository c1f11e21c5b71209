"""Notices when somebody deletes a running lab's folders: labd reports it in the kernel's log, and stays reachable.

A ledger that is gone takes the lab from `list` and `destroy`; `destroy --orphans` ends it. What is deleted of the run
folder, by a cleaner of temporary files, is made again: the socket, and the files that say who the daemons are.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rackless.events import Bus
from rackless.ports.clock import Clock
from rackless.run.files import write
from rackless.run.paths import LabPaths

LOOK = 5.0
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class FolderWatch:
    paths: LabPaths
    listen: Callable[[], Awaitable[None]]
    """Open the control socket anew."""
    clock: Clock
    bus: Bus
    last_resort: Path
    """Where it is reported when the logs are gone, too: the kernel's log, which `dmesg` and the journal show."""
    warnings: list[str] = field(default_factory=list)
    _socket: int | None = None
    _who: dict[Path, str] = field(default_factory=dict)

    async def watch(self) -> None:
        """Until cancelled."""
        self._socket = _inode(self.paths.socket)
        self._who = {path: path.read_text() for path in (self.paths.labd_pid, self.paths.holder_pid) if path.exists()}
        while True:
            await self.clock.sleep(LOOK)
            self._look()
            with suppress(OSError):  # no room, or deleted again meanwhile: the next look is soon
                await self._mend()

    def _look(self) -> None:
        gone = [str(path) for path in (self.paths.ledger, self.paths.spec) if not path.exists()]
        end = (
            "`rackless destroy --orphans` ends this lab"
            if not self.paths.ledger.exists()
            else "`rackless destroy` does"
        )
        found = [f"somebody deleted {' and '.join(gone)}: nothing can be kept any more; {end}"] if gone else []
        for words in found:
            if words not in self.warnings:
                with suppress(OSError):
                    self.bus.tell("lab-files-deleted", files=" ".join(gone), what=words)
                self._say(words)
        self.warnings = found

    async def _mend(self) -> None:
        if _inode(self.paths.socket) == self._socket:
            return
        with suppress(OSError):
            self.bus.tell("socket-deleted", socket=str(self.paths.socket))
        self._say(f"somebody deleted {self.paths.socket}; it is made again")
        self.paths.run.mkdir(parents=True, exist_ok=True)
        self.paths.run.chmod(0o711)
        await self.listen()
        self._socket = _inode(self.paths.socket)
        for path, who in self._who.items():
            write(path, who)

    def _say(self, words: str) -> None:
        """Where it is still read when the lab's own files are gone."""
        _log.warning("%s", words)
        with suppress(OSError):
            self.last_resort.write_text(f"<4>rackless: lab {self.paths.name} (process {os.getpid()}): {words}\n")


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
