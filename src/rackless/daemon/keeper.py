"""Keeps one program running: started, restarted with growing pauses when it dies, ended when we are done.

Who it is stands in a pid file, so that a labd that comes after a killed one first ends what the other left running.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rackless.drivers.namespaces import network_id
from rackless.drivers.process import LocalProcesses, end, find, identity
from rackless.errors import LabError
from rackless.events import Bus
from rackless.ports.process import Child
from rackless.run.files import write

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 15.0
STEADY = 30.0
HOPELESS = 3
"""After this many deaths, those who wait for it to be ready give up; it is still started again."""


class Keeper:
    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        pidfile: Path,
        log: Path,
        bus: Bus,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.restarts = 0
        self.reason = ""
        """Why it was last started again."""
        self._argv = argv
        self._env = env
        self._pidfile = pidfile
        self._bus = bus
        self._child: Child | None = None
        self._watch: asyncio.Task[None] | None = None
        self._given_up = asyncio.Event()

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.code is None

    @property
    def pid(self) -> int:
        return self._child.pid if self._child is not None and self.running else 0

    @property
    def code(self) -> int | None:
        """None while it runs or is being started again; its exit code when it does not stay up."""
        hopeless = self.restarts >= HOPELESS and not self.running
        return self._child.code if hopeless and self._child is not None else None

    async def start(self) -> None:
        if self._watch is None:
            await self._end_predecessor()
            await self._spawn()
            self._watch = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    async def wait(self) -> int:
        """Until it is stopped, or does not stay up."""
        await self._given_up.wait()
        return self.code or 0

    async def stop(self, within: float = 10.0) -> int:
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
            self._watch = None
        code = await self._child.stop(within) if self._child is not None else 0
        self._pidfile.unlink(missing_ok=True)
        self._given_up.set()
        return code

    def describe(self) -> dict[str, Any]:
        """For the lab's status: is it up, and if it was not always, why."""
        return {
            "name": self.name,
            "running": self.running,
            "pid": self.pid or None,
            "restarts": self.restarts,
            "reason": self.reason,
            "log": str(self.log),
        }

    def check(self) -> None:
        """Raise when it does not stay up: for those who wait until it is ready."""
        if self.code is not None:
            raise LabError(f"{self.name} does not stay up", why=self._last_words(), log=self.log)

    async def _spawn(self) -> None:
        self._child = await LocalProcesses().start(self._argv, log=self.log, env=self._env)
        write(self._pidfile, identity(self._child.pid))

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        loop = asyncio.get_running_loop()
        while self._child is not None:
            started = loop.time()
            code = await self._child.wait()
            _end_remains(self._child.pid)
            pause = FIRST_PAUSE if loop.time() - started > STEADY else min(pause * 2, LONGEST_PAUSE)
            self.restarts += 1
            if self.restarts >= HOPELESS:
                self._given_up.set()
            last = self._last_words().rpartition("\n")[2]
            self.reason = f"ended with {code}" + (f": {last}" if last else "")
            self._bus.warn(f"{self.name} ended with {code}; starting it again in {pause:.1f} s (log: {self.log})")
            await asyncio.sleep(pause)
            await self._spawn()

    async def _end_predecessor(self) -> None:
        if (pid := find(self._pidfile)) is not None:
            await end(pid)
        with suppress(FileNotFoundError, ValueError, IndexError):
            _end_remains(int(self._pidfile.read_text().split()[0]))

    def _last_words(self) -> str:
        with suppress(FileNotFoundError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-8:])
        return ""


def _end_remains(pid: int) -> None:
    """What a program that has ended left running: its process group, as far as it lives where we do. A number that somebody
    else on the machine has got since is left alone."""
    if identity(pid):
        return
    here = network_id(Path("/proc/self/ns/net"))
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and network_id(entry / "ns" / "net") == here:
            with suppress(ProcessLookupError):
                if os.getpgid(int(entry.name)) == pid:
                    os.kill(int(entry.name), signal.SIGKILL)


class KeptProcesses(LocalProcesses):
    """Like its parent, but what is started to keep running is kept running."""

    def __init__(self, run: Path, bus: Bus) -> None:
        self._run = run
        self._bus = bus
        self.kept: list[Keeper] = []

    async def start(  # type: ignore[override]
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Keeper:
        name = Path(argv[0]).name
        keeper = Keeper(name, argv, pidfile=self._run / f"{name}.pid", log=log, bus=self._bus, env=env)
        await keeper.start()
        self.kept = [other for other in self.kept if other.name != name] + [keeper]
        return keeper
