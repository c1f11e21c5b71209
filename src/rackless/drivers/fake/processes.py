"""Processes without a kernel: a program is a coroutine with a pid, an exit code and lines of output.

The world's maker says which programs there are: the lab's own (the holder, labd) and other people's. A child ends with its
parent, a launched process does not; a killed process does nothing more, not even clean up.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rackless.drivers.fake.loop import PROCESS, VirtualLoop
from rackless.drivers.fake.script import Script
from rackless.drivers.fake.wires import FakeSocket, MemoryServer, MemoryTransport
from rackless.errors import CommandFailed, GaveUp, HypervisorError, Interrupted
from rackless.ports.process import Completed, Held

T = TypeVar("T")
KILLED = -int(signal.SIGKILL)
_grave: list[object] = []
"""The tasks and frames of dead processes. They are kept, because collecting them would run their `finally`."""


@dataclass(eq=False)
class FakeProcess:
    pid: int
    argv: tuple[str, ...]
    parent: FakeProcess | None
    log: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    input: bytes = b""
    network: object = None
    """The network namespace it lives in; None is the computer's own."""
    alive: bool = True
    code: int | None = None
    lines: list[str] = field(default_factory=list)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    sockets: list[FakeSocket] = field(default_factory=list)
    servers: list[MemoryServer] = field(default_factory=list)
    connections: list[MemoryTransport] = field(default_factory=list)
    handlers: dict[int, Callable[[], object]] = field(default_factory=dict)
    at_end: list[Callable[[], None]] = field(default_factory=list)
    """What the kernel, or a process that watches this one, does when it ends."""
    waiting: list[asyncio.Future[None]] = field(default_factory=list)
    outlives: bool = False
    uid: int = 0

    @cached_property
    def name(self) -> str:
        return program_name(self.argv)

    @cached_property
    def title(self) -> str:
        """Its name in a trace."""
        return self.name.removeprefix("rackless.").removesuffix(".main")

    def say(self, line: str) -> None:
        self.lines.append(line)
        if self.log is not None:
            with self.log.open("a", encoding="utf-8") as sink:
                sink.write(f"{line}\n")

    async def wait(self) -> int:
        while self.code is None:
            ended = asyncio.get_running_loop().create_future()
            self.waiting.append(ended)
            await ended
        return self.code

    def poll(self) -> int | None:
        return self.code


class WasKilled(Exception):
    """Somebody killed the process before its work was done."""


Program = Callable[[FakeProcess], Awaitable[int]]
"""Runs as the process it is given; returns its exit code."""


def program_name(argv: Sequence[str]) -> str:
    """`rackless.labd.main` of `python -m rackless.labd.main x`, `nft` of `nsenter … -- /sbin/nft -f -`."""
    words = list(argv)
    if Path(words[0]).name == "nsenter" and "--" in words:
        words = words[words.index("--") + 1 :]
    if "-m" in words and Path(words[0]).name.startswith("python"):
        module, *rest = words[words.index("-m") + 1 :]
        return f"rackless {rest[0]} {rest[1]}" if module == "rackless" else module
    return Path(words[0]).name


class FakeChild:
    """`ports.process.Child`."""

    def __init__(self, process: FakeProcess, table: FakeProcesses) -> None:
        self._process = process
        self._table = table

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        return self._process.code

    async def wait(self) -> int:
        return await self._process.wait()

    async def lines(self) -> AsyncGenerator[str, None]:
        told = 0
        while True:
            ended = self._process.code is not None
            while told < len(self._process.lines):
                told += 1
                yield self._process.lines[told - 1]
            if ended:
                return
            await asyncio.sleep(0.1)

    async def stop(self, within: float = 10.0) -> int:
        await self._table.end(self._process.pid, within)
        return await self._process.wait()


@dataclass
class FakeProcesses:
    """`ports.process.ProcessTable`."""

    script: Script
    programs: dict[str, Program] = field(default_factory=dict)
    all: dict[int, FakeProcess] = field(default_factory=dict)
    strangers: Callable[[], Mapping[int, Callable[[], None]]] = dict
    """Processes that nobody here started, such as QEMU's, and how each is ended."""
    held: dict[Path, FakeProcess] = field(default_factory=dict)
    """File locks, with the process that holds each."""
    crashed: Callable[[FakeProcess, Exception], None] = lambda _, __: None
    """Called with a program that ended by an exception of its own."""
    _pids: itertools.count[int] = field(default_factory=lambda: itertools.count(1000))

    # the port

    @property
    def own(self) -> int:
        return self._current().pid if PROCESS.get() is not None else 1

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
        words = tuple(map(str, argv))
        await self.script.meet("processes", "run", " ".join(words))
        process = self._spawn(words, env=env, input=input or b"")
        try:
            async with asyncio.timeout(within):
                code = await process.wait()
        except BaseException as error:
            self.kill(process)
            if isinstance(error, TimeoutError) and within is not None:
                raise GaveUp(f"{words[0]} to finish", within) from error
            raise
        text = "".join(f"{line}\n" for line in process.lines)
        if stdout is not None:
            stdout.write_text(text)
        if check and code:
            raise CommandFailed(words, code, text)
        return Completed(words, code, text, "")

    async def start(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> FakeChild:
        words = tuple(map(str, argv))
        await self.script.meet("processes", "start", program_name(words))
        self.script.change("processes", "start", program_name(words))
        return FakeChild(self._spawn(words, env=env, log=log), self)

    async def launch(
        self, argv: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None
    ) -> FakeProcess:
        words = tuple(map(str, argv))
        await self.script.meet("processes", "launch", program_name(words))
        self.script.change("processes", "launch", program_name(words))
        return self._spawn(words, env=env, log=log, outlives=True)

    def identity(self, pid: int) -> str:
        return f"{pid} fake" if pid in self.strangers() or self._lives(pid) else ""

    def find(self, pidfile: Path) -> int | None:
        try:
            text = pidfile.read_text()
            pid = int(text.split()[0])
        except (FileNotFoundError, ValueError, IndexError):
            return None
        return pid if self.identity(pid) == text else None

    def command(self, pid: int) -> str:
        return " ".join(self.all[pid].argv) if self._lives(pid) else ""

    async def end(self, pid: int, within: float = 5.0) -> None:
        if (stop := self.strangers().get(pid)) is not None:
            stop()
            return
        if not self._lives(pid):
            return
        process = self.all[pid]
        self.signal(process, signal.SIGTERM)
        if within > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await process.wait()
        self.kill(process)

    def interrupt(self, pid: int) -> None:
        if self._lives(pid):
            self.signal(self.all[pid], signal.SIGINT)

    def end_remains(self, leader: int) -> None:
        """A program's children end with it."""

    @contextmanager
    def hold(self, lock: Path) -> Iterator[None]:
        owner = self.held.get(lock)
        if owner is not None and owner.alive:
            raise Held(str(owner.pid))
        lock.touch()
        self.held[lock] = mine = self._current()
        try:
            yield
        finally:
            if self.held.get(lock) is mine:
                del self.held[lock]

    def adopt_orphans(self) -> None: ...

    def bury(self, but: int) -> None: ...

    # the script

    def named(self, name: str) -> list[FakeProcess]:
        return [process for process in self.all.values() if process.alive and process.name == name]

    def signal(self, process: FakeProcess, number: int) -> None:
        handler = process.handlers.get(number)
        if handler is not None:
            handler()
        else:
            self.kill(process, -int(number))

    def kill(self, process: FakeProcess, code: int = KILLED) -> None:
        if process.alive:
            self._gone(process, code)

    async def as_process(self, name: str, work: Coroutine[Any, Any, T], *, uid: int = 0) -> T:
        """Runs something as a process of its own, such as a command that a person gives."""
        result: list[T] = []
        raised: list[Exception] = []

        async def program(process: FakeProcess) -> int:
            task = asyncio.ensure_future(work)
            process.handlers[signal.SIGINT] = task.cancel  # as asyncio.run does it
            try:
                result.append(await task)
            except asyncio.CancelledError:
                raised.append(Interrupted(f"{name} was interrupted"))
                return 130
            except Exception as error:
                raised.append(error)
                return 1
            return 0

        process = self._begin(program, FakeProcess(next(self._pids), (name,), None, uid=uid))
        await process.wait()
        if raised:
            raise raised[0]
        if not result:
            raise WasKilled(name)
        return result[0]

    # inside

    def _current(self) -> FakeProcess:
        process = PROCESS.get()
        assert isinstance(process, FakeProcess)
        return process

    def _lives(self, pid: int) -> bool:
        return pid in self.all and self.all[pid].alive

    def _spawn(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        input: bytes = b"",
        outlives: bool = False,
    ) -> FakeProcess:
        program = self.programs.get(program_name(argv))
        if program is None:
            raise HypervisorError(f"the program {argv[0]} is not here", why="this world has no such program")
        parent = self._current() if PROCESS.get() is not None else None
        process = FakeProcess(
            next(self._pids), argv, parent, log, dict(env or {}), input, parent.network if parent else None,
            outlives=outlives,
        )  # fmt: skip
        return self._begin(program, process)

    def _begin(self, program: Program, process: FakeProcess) -> FakeProcess:
        if process.log is not None:
            process.log.parent.mkdir(parents=True, exist_ok=True)
            process.log.touch()
        self.all[process.pid] = process
        context = Context()
        context.run(PROCESS.set, process)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        process.tasks.add(loop.create_task(self._run(program, process), context=context))
        return process

    async def _run(self, program: Program, process: FakeProcess) -> None:
        try:
            code = await program(process)
        except Exception as error:
            self.crashed(process, error)
            with suppress(OSError):
                for line in traceback.format_exc().splitlines():
                    process.say(line)
            code = 1
        if process.alive:
            self._gone(process, code)

    def _gone(self, process: FakeProcess, code: int) -> None:
        process.alive, process.code = False, code
        _grave.append(process)
        for task in process.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        for sock in process.sockets:
            sock.close()
        for server in process.servers:
            server.close()
        for connection in process.connections:
            connection.vanish()
        for finish in process.at_end:
            finish()
        for ended in process.waiting:
            if not ended.done():
                ended.set_result(None)
        for child in list(self.all.values()):
            if child.parent is process and child.alive and not child.outlives:
                self.signal(child, signal.SIGTERM)
