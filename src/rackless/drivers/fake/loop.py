"""An event loop whose time passes only when everyone waits, whose network is memory, and whose processes can be killed.

Programs use asyncio's own calls for time, threads and sockets, so these are replaced here: an hour takes milliseconds, work for
a thread is done at once, and connections and listeners of the same loop find each other. Callbacks and tasks of a process
(known by their context) are dropped from the moment the process is dead: no `finally` and no `except` of it is run any more.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import random
import selectors
import socket
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rackless.drivers.fake.wires import FakeSocket, MemoryServer, MemoryTransport, PeerSocket, Place, connect

T = TypeVar("T")
LONGEST = 1e8
"""Virtual seconds after which a wait counts as endless: what it waits for does not come."""
MOST_TURNS = 400_000
"""Turns of the loop after which a program counts as busy without end, however little time has passed. A story takes some 5,000."""
_RESOLUTION = 1e-6
"""Of the clock: timers that are no further away are due."""
_OWN_FILES = 1
"""Files that every loop listens to: the pipe by which threads would wake it."""
_MOST_CANCELLED = 100
"""Timers, from which on those that were cancelled are thrown away once they are the half."""
_LONGEST_STEP = 24 * 3600.0


class Owner(Protocol):
    """A process, to the loop."""

    pid: int
    alive: bool
    network: object
    tasks: set[asyncio.Task[Any]]
    sockets: list[FakeSocket]
    servers: list[MemoryServer]
    connections: list[MemoryTransport]
    handlers: dict[int, Callable[[], object]]
    uid: int


class Dead(BaseException):
    """The process that runs this was killed meanwhile: nothing it does has an effect any more."""


PROCESS: ContextVar[Owner | None] = ContextVar("rackless_fake_process", default=None)


class _Handle(asyncio.Handle):
    """A callback of a process. Lean: a story has ten thousand of these."""

    __slots__ = ("owner",)

    def __init__(
        self,
        owner: Owner | None,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: Context,
    ) -> None:
        self._callback, self._args, self._context, self._loop = callback, args, context, loop
        self._cancelled, self._repr, self._source_traceback = False, None, None
        self.owner = owner

    def _run(self) -> None:
        if self.owner is None or self.owner.alive:
            super()._run()


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ("owner",)

    def __init__(
        self,
        owner: Owner | None,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: Context,
    ) -> None:
        self._callback, self._args, self._context, self._loop = callback, args, context, loop
        self._cancelled, self._repr, self._source_traceback = False, None, None
        self._when, self._scheduled = when, True
        self.owner = owner

    def __lt__(self, other: object) -> bool:
        return self._when < other._when  # type: ignore[attr-defined,no-any-return]

    def cancel(self) -> None:
        if not self._cancelled:
            if self._scheduled:
                self._loop.cancelled += 1
            self._cancelled = True
            self._callback = self._args = None  # type: ignore[assignment]

    def _run(self) -> None:
        if self.owner is None or self.owner.alive:
            super()._run()


class _Selector(selectors.DefaultSelector):
    """Never waits: passes the time instead."""

    passed: Callable[[float | None], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0:
            return []  # callbacks are ready; a write from outside is heard when none are
        found = super().select(0) if len(self.get_map()) > _OWN_FILES else []
        if not found:
            self.passed(timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """With `chance`, that random source decides which of several processes goes on first and how long a message takes."""

    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self, chance: random.Random | None = None) -> None:
        self.chance = chance
        self.numbers = itertools.count()
        self.cancelled = 0
        """How many of the timers are."""
        self._virtual = 0.0
        self._turns = 0
        self._timers: list[_TimerHandle] = []
        self.places: dict[Place, MemoryServer] = {}
        self.taken: set[Place] = set()
        selector = _Selector()
        selector.passed = self._pass
        super().__init__(selector)
        self._clock_resolution = _RESOLUTION
        self.set_task_factory(_make_task)

    # time

    def time(self) -> float:
        return self._virtual

    def _pass(self, seconds: float | None) -> None:
        if seconds is None:
            raise TimeoutError("everyone waits, and nobody for time")
        self._virtual += seconds
        if self._virtual > LONGEST:
            raise TimeoutError(f"not done within {LONGEST} s")

    def stall(self, seconds: float) -> None:
        """Time passes in which no process runs, as on a computer whose disk does not answer."""
        self._virtual += seconds

    # who goes on first

    def _run_once(self) -> None:
        self._turns += 1
        if self._turns > MOST_TURNS:
            raise TimeoutError(f"somebody is busy without end: {MOST_TURNS:,} turns in {self._virtual:,.0f} s")
        ready, timers = self._ready, self._timers
        if self.chance is not None and len(ready) > 1:
            self._shuffle(self.chance)
        if not ready or (timers and (timers[0]._cancelled or timers[0]._when < self._virtual + _RESOLUTION)):
            self._let_time_pass()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _let_time_pass(self) -> None:
        """Until the next timer is due, when nobody has anything to do; and those that are due are ready."""
        if (
            self.cancelled > _MOST_CANCELLED / 2
            and len(self._timers) > _MOST_CANCELLED
            and self.cancelled > len(self._timers) / 2
        ):
            self._timers = [timer for timer in self._timers if not timer._cancelled]
            heapq.heapify(self._timers)
            self.cancelled = 0
        timers = self._timers
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
            self.cancelled -= 1
        timeout = 0.0 if self._ready or self._stopping else None
        if timeout is None and timers:
            timeout = min(max(0.0, timers[0]._when - self._virtual), _LONGEST_STEP)
        self._process_events(self._selector.select(timeout))  # type: ignore[attr-defined]
        due = self._virtual + _RESOLUTION
        while timers and timers[0]._when < due:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            self._ready.append(timer)

    def _shuffle(self, chance: random.Random) -> None:
        """Puts callbacks of different processes in another order; those of one process keep theirs, as asyncio promises."""
        turns: dict[int, deque[asyncio.Handle]] = {}
        for handle in self._ready:
            turns.setdefault(_owner_of(handle), deque()).append(handle)
        if len(turns) > 1:
            self._ready.clear()
            waiting = list(turns.values())
            while waiting:
                index = chance.randrange(len(waiting))
                self._ready.append(waiting[index].popleft())
                if not waiting[index]:
                    del waiting[index]

    def latency(self) -> float:
        """Seconds that the next message takes."""
        return 0.0 if self.chance is None else self.chance.random() * 0.002

    # the dead do nothing

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        context = copy_context() if context is None else context
        handle = _Handle(context.get(PROCESS), callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._virtual + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        timer = _TimerHandle(context.get(PROCESS), when, callback, args, self, context)
        heapq.heappush(self._timers, timer)
        return timer

    # threads

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def apart(self, work: Callable[[], T]) -> T:
        """Does this work at once, as a thread would: it belongs to no process and finds no event loop."""
        _set_running_loop(None)
        try:
            return Context().run(work)
        finally:
            _set_running_loop(self)

    # signals

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        if (owner := PROCESS.get()) is not None:
            context = copy_context()
            owner.handlers[sig] = lambda: self.call_soon(callback, *args, context=context)

    def remove_signal_handler(self, sig: int) -> bool:
        owner = PROCESS.get()
        return owner is not None and owner.handlers.pop(sig, None) is not None

    # the network

    async def create_server(self, factory: Any, host: Any = None, port: Any = None, **more: Any) -> Any:  # type: ignore[override]
        sock = more.get("sock")
        address = sock.getsockname() if sock is not None else (host, port)
        return self._listen((_network(), *address[:2]), factory)

    async def create_unix_server(self, factory: Any, path: Any = None, **_: Any) -> Any:  # type: ignore[override]
        Path(path).touch(exist_ok=False)
        return self._listen(("unix", str(path)), factory)

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return self._connect((_network(), host, port), factory)

    async def create_unix_connection(self, factory: Any, path: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return self._connect(("unix", str(path)), factory)

    async def create_datagram_endpoint(self, factory: Any, *_: Any, sock: Any = None, **__: Any) -> Any:  # type: ignore[override]
        protocol, transport = factory(), MemoryTransport(self, sock.getsockname(), None)
        transport.begin(protocol, copy_context())
        protocol.connection_made(transport)
        return transport, protocol

    async def sock_accept(self, sock: Any) -> Any:
        await self.create_future()

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        if not isinstance(fd, FakeSocket):
            super().add_reader(fd, callback, *args)

    def remove_reader(self, fd: Any) -> bool:
        return True if isinstance(fd, FakeSocket) else super().remove_reader(fd)

    def make_socket(self, family: int, kind: int, bound: Callable[[str], None] = lambda _: None) -> socket.socket:
        made = FakeSocket(self.taken, _network(), family, kind, bound)
        if (owner := PROCESS.get()) is not None:
            owner.sockets.append(made)
        return made  # type: ignore[return-value]

    def _listen(self, place: Place, factory: Callable[[], asyncio.BaseProtocol]) -> MemoryServer:
        server = MemoryServer(self.places, place, factory)
        if (owner := PROCESS.get()) is not None:
            owner.servers.append(server)
        return server

    def _connect(
        self, place: Place, factory: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[MemoryTransport, asyncio.BaseProtocol]:
        server = self.places.get(place)
        if server is None:
            raise ConnectionRefusedError(f"nobody listens at {place}")
        asker = PROCESS.get()
        peer = PeerSocket(asker.uid if asker is not None else 0) if place[0] == "unix" else None
        near = MemoryTransport(self, "", place, self.latency)
        far = MemoryTransport(self, place, "", self.latency, peer)
        connect(near, far)
        protocol = factory()
        near.begin(protocol, copy_context())
        served = server.context.copy().run(server.factory)
        far.begin(served, server.context.copy())
        for context, end in ((copy_context(), near), (server.context, far)):
            if (owner := context.get(PROCESS)) is not None:
                owner.connections.append(end)
        server.context.copy().run(served.connection_made, far)
        protocol.connection_made(near)
        return near, protocol


def _owner_of(handle: asyncio.Handle) -> int:
    """The pid of the process that runs now; 0 when none does."""
    owner: Owner | None = None if handle._cancelled else getattr(handle, "owner", None)
    return owner.pid if owner is not None else 0


def _network() -> object:
    owner = PROCESS.get()
    return owner.network if owner is not None else None


class _Task(asyncio.Task[Any]):
    """A task that sets order by when it was made, not by its place in memory, so that a run can be repeated."""

    def __init__(self, work: Any, number: int, **more: Any) -> None:
        self._number = number
        super().__init__(work, **more)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


def _make_task(
    loop: asyncio.AbstractEventLoop, work: Any, context: contextvars.Context | None = None
) -> asyncio.Task[Any]:
    """Keeps a task with its process: a dead process's task must not be collected, which would run its `finally`."""
    assert isinstance(loop, VirtualLoop)
    task = _Task(work, next(loop.numbers), loop=loop, context=context)
    owner = (context or copy_context()).get(PROCESS)
    if owner is not None:
        owner.tasks.add(task)
        task.add_done_callback(owner.tasks.discard)
    return task
