"""Supervises one program: starts it, restarts it with growing pauses when it exits, stops it at the end.

Its identity is in a pid file, so that the labd that is started after a killed one first ends the program that the killed one left
running.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rackless.errors import LabError, RacklessError
from rackless.events import Bus
from rackless.ports.process import Child, Completed, ProcessTable
from rackless.run.files import write
from rackless.run.parts import Part

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 15.0
STEADY = 30.0
HOPELESS = 3
"""After this many restarts, callers that wait for the program to be ready give up; it is still restarted."""

_LAST_BYTES = 16 << 10
"""Bytes that are read from the end of a log, which may have grown for weeks."""

ENDED = "labd ended"
"""How the holder's log line begins whenever labd exited without being told to."""


class Keeper:
    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        pidfile: Path,
        log: Path,
        bus: Bus,
        processes: ProcessTable,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._processes = processes
        self.log = log
        self.restarts = 0
        self.reason = ""
        """Why the program was last restarted."""
        self._argv = argv
        self._env = env
        self._pidfile = pidfile
        self._bus = bus
        self._child: Child | None = None
        self._watch: asyncio.Task[None] | None = None
        self._given_up = asyncio.Event()
        self._hurried = asyncio.Event()
        self._started = 0.0

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.code is None

    @property
    def pid(self) -> int:
        return self._child.pid if self._child is not None and self.running else 0

    @property
    def code(self) -> int | None:
        """None while the program runs or is being restarted; its exit code when it does not stay up."""
        hopeless = self.restarts >= HOPELESS and not self.running
        return self._child.code if hopeless and self._child is not None else None

    async def start(self) -> None:
        if self._watch is None:
            await self._end_predecessor()
            await self._spawn()
            self._watch = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    async def wait(self) -> int:
        """Wait until the program is stopped, or until it does not stay up."""
        await self._given_up.wait()
        return self.code or 0

    async def lines(self) -> AsyncGenerator[str, None]:
        """Its output over all restarts."""
        heard: Child | None = None
        while self._watch is not None:
            if self._child is not None and self._child is not heard:
                heard = self._child
                async for line in heard.lines():
                    yield line
            await asyncio.sleep(FIRST_PAUSE)

    async def stop(self, within: float = 10.0) -> int:
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
            self._watch = None
        code = await self._child.stop(within) if self._child is not None else 0
        self._given_up.set()
        self._pidfile.unlink(missing_ok=True)
        return code

    def hurry(self) -> None:
        """Restart the program now instead of after the pause, if it is not running: a caller needs it."""
        self._hurried.set()

    def describe(self) -> Part:
        """For `rackless status`: whether it is up, and why it was restarted."""
        up = asyncio.get_running_loop().time() - self._started if self.running else None
        return Part(self.name, self.running, self.pid or None, self.restarts, self.reason, str(self.log), up)

    def check(self) -> None:
        """Raise when it does not stay up: for those who wait until it is ready."""
        if self.code is not None:
            raise LabError(f"{self.name} does not stay up", why=self._last_words(), log=self.log)

    async def _spawn(self) -> None:
        self._child = child = await self._processes.start(self._argv, log=self.log, env=self._env)
        self._started = asyncio.get_running_loop().time()
        try:
            write(self._pidfile, self._processes.identity(child.pid))
        except OSError:  # without its pid file, the next labd would not find a program that a killed labd has left
            await child.stop()
            raise

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        loop = asyncio.get_running_loop()
        while self._child is not None:
            started = loop.time()
            code = await self._child.wait()
            self._processes.end_remains(self._child.pid)
            pause = FIRST_PAUSE if loop.time() - started > STEADY else min(pause * 2, LONGEST_PAUSE)
            self.restarts += 1
            if self.restarts >= HOPELESS:
                self._given_up.set()
            last = self._last_words().rpartition("\n")[2]
            self.reason = f"ended with {code}" + (f": {last}" if last else "")
            self._bus.tell("part-ended", name=self.name, status=code, pause_seconds=pause, log=str(self.log))
            await self._pause(pause)
            while not await self._respawned():
                pause = min(pause * 2, LONGEST_PAUSE)
                await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        self._hurried.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurried.wait(), seconds)

    async def _respawned(self) -> bool:
        """False when the computer has no room for it now: no process, memory, file or byte on the disk is left."""
        try:
            await self._spawn()
        except (OSError, RacklessError) as error:
            self.reason = f"cannot be started: {error}"
            self._bus.tell("part-not-started", name=self.name, why=str(error))
            return False
        return True

    async def _end_predecessor(self) -> None:
        if (pid := self._processes.find(self._pidfile)) is not None:
            await self._processes.end(pid)
        with suppress(FileNotFoundError, ValueError, IndexError):
            self._processes.end_remains(int(self._pidfile.read_text().split()[0]))

    def _last_words(self) -> str:
        with suppress(OSError), self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - _LAST_BYTES))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-8:])
        return ""


class KeptProcesses:
    """`ports.process.Processes` whose `start` supervises the program: it is restarted when it exits."""

    def __init__(self, processes: ProcessTable, run: Path, bus: Bus) -> None:
        self._processes = processes
        self._run = run
        self._bus = bus
        self.kept: list[Keeper] = []

    async def run(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        input: bytes | None = None,
        check: bool = True,
        within: float | None = None,
        stdout: Path | None = None,
    ) -> Completed:
        return await self._processes.run(
            argv, cwd=cwd, env=env, input=input, check=check, within=within, stdout=stdout
        )  # fmt: skip

    async def start(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Keeper:
        name = Path(argv[0]).name
        keeper = Keeper(
            name,
            argv,
            pidfile=self._run / f"{name}.pid",
            log=log,
            bus=self._bus,
            processes=self._processes,
            env=env,
        )
        await keeper.start()
        self.kept = [other for other in self.kept if other.name != name] + [keeper]
        return keeper
