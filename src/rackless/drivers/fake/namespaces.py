"""`ports.namespaces.Namespaces` of a fake world: a namespace has a number, and is known by its pin, which is a file."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rackless.drivers.fake.loop import VirtualLoop
from rackless.drivers.fake.mounts import FakeMounts
from rackless.drivers.fake.processes import FakeProcess, FakeProcesses
from rackless.drivers.fake.script import Script
from rackless.ports.mounts import Mounts
from rackless.ports.namespaces import Entrance, Home, Network, Room, Space

T = TypeVar("T")


class World(Protocol):
    """The parts of `drivers.fake.world.FakeWorld` that namespaces use."""

    script: Script
    processes: FakeProcesses
    labs: dict[str, Any]
    pinned: set[str]

    def lab(self, pin: str) -> Any: ...

    def strangers_of(self, lab: Any) -> dict[int, Callable[[], None]]: ...

    def vanish(self, pin: str) -> None: ...


COMPUTERS_MOUNTS = 1000
"""The number of the computer's own mount namespace; those of labs are larger."""
OUTSIDE = Path("/fake/computer")
"""The path of the computer's own network namespace."""


class FakeRoom:
    """`ports.namespaces.Room`."""

    def __init__(self, name: str) -> None:
        self.path = Path("/fake/rooms", name)

    def call(self, work: Callable[[], T]) -> T:
        return work()

    async def acall(self, work: Callable[[], T]) -> T:
        return work()

    def close(self) -> None: ...


class FakeStay(FakeRoom):
    """The network namespace that a process was in before it entered another one."""

    def __init__(self, name: str, process: FakeProcess) -> None:
        super().__init__(name)
        self._process, self._network = process, process.network

    def call(self, work: Callable[[], T]) -> T:
        now, self._process.network = self._process.network, self._network
        try:
            return work()
        finally:
            self._process.network = now

    async def acall(self, work: Callable[[], T]) -> T:
        return self.call(work)


class FakeEntrance:
    """`ports.namespaces.Entrance` that nobody uses: in a fake world all processes are one user's."""

    def __init__(self, place: Path) -> None:
        self._place = place
        place.touch(mode=0o600)

    def close(self) -> None:
        self._place.unlink(missing_ok=True)


@dataclass
class FakeNamespaces:
    world: World
    made: set[str] = field(default_factory=set)
    marks: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, FakeMounts] = field(default_factory=dict)
    """The mount namespace that was last made in a network namespace."""
    views: dict[int, int] = field(default_factory=dict)
    """The mount namespaces that processes have made for themselves, by pid; their children see the same."""
    lab_views: dict[str, int] = field(default_factory=dict)

    def home(self) -> Home:
        return Home(self._number(self._here()), self._view(self.world.processes._current()))

    def enter(self, pin: Path, make_mounts: Callable[[Mounts], None]) -> None:
        self._let_go()
        if str(pin) not in self.world.pinned:
            pin.touch(mode=0o600)
            self.world.pinned.add(str(pin))
            self.made.add(str(pin))
            self.world.script.change("namespaces", "make", pin.parent.name)
        self.visit(pin)
        view = COMPUTERS_MOUNTS + len(self.views) + 1
        self.views[self.world.processes.own] = self.lab_views[str(pin)] = view
        self.mounts[str(pin)] = FakeMounts()
        make_mounts(self.mounts[str(pin)])

    def visit(self, pin: Path) -> None:
        if str(pin) not in self.world.pinned:
            raise FileNotFoundError(f"nothing is pinned at {pin}")
        self.world.processes._current().network = str(pin)

    def write_mark(self, text: str) -> None:
        self.marks[str(self._here())] = text

    async def read_mark(self, door: Path) -> str:
        await self.world.script.meet("namespaces", "read_mark", str(door))
        return self.marks.get(str(door), "")

    def inhabitants(self, pin: Path) -> list[int]:
        return self._living(str(pin)) if str(pin) in self.world.pinned else []

    def residents(self, network: Network, mnt: int | None = None) -> list[int]:
        self._let_go()
        own = self.world.processes.own
        spaces = [space for space in self.world.labs if network == (0, self._number(space))]
        return [pid for space in spaces for pid in self._living(space) if pid != own]

    def mount_namespace(self, pid: int) -> int | None:
        if pid == 1:
            return COMPUTERS_MOUNTS
        process = self.world.processes.all.get(pid)
        if process is not None:
            return self._view(process) if process.alive else None
        return next((view for space, view in self.lab_views.items() if pid in self._living(space)), None)

    def others(self) -> list[Space]:
        self._let_go()
        here = self._here()
        labs = [
            Space((0, self._number(space)), Path(space), tuple(sorted(self._living(space))))
            for space in self.world.labs
            if space != here and (space in self.world.pinned or self._living(space))
        ]
        outside = tuple(p.pid for p in self.world.processes.all.values() if p.alive and p.network is None)
        return labs if here is None else [Space((0, self._number(None)), OUTSIDE, outside), *labs]

    def leads_to(self, pin: Path) -> Network | None:
        return (0, self._number(str(pin))) if str(pin) in self.world.pinned else None

    def pins(self, network: Network) -> list[Path]:
        return [Path(pin) for pin in sorted(self.world.pinned) if (0, self._number(pin)) == network]

    def unpin(self, pin: Path) -> None:
        if str(pin) in self.world.pinned:
            self.world.pinned.discard(str(pin))
            self.world.script.change("namespaces", "unpin", pin.parent.name)
            self._let_go()
        pin.unlink(missing_ok=True)

    def open_room(self, name: str) -> Room:
        return FakeRoom(name)

    def stay(self, name: str) -> Room:
        return FakeStay(name, self.world.processes._current())

    def open_entrance(
        self, place: Path, owner: int, argv: Sequence[str], env: Mapping[str, str], most: int
    ) -> Entrance:
        return FakeEntrance(place)

    def socket(self, family: int, kind: int, protocol: int) -> socket.socket:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return loop.make_socket(family, kind, lambda place: self.world.script.change("sockets", "bind", place))

    def _here(self) -> str | None:
        network = self.world.processes._current().network
        return None if network is None else str(network)

    def _living(self, space: str) -> list[int]:
        ours = [p.pid for p in self.world.processes.all.values() if p.alive and p.network == space]
        return [*ours, *self.world.strangers_of(self.world.lab(space))]

    def _number(self, space: str | None) -> int:
        """The number of a network namespace; the computer's own is 1."""
        if space is None:
            return 1
        self.world.lab(space)
        return 10 + list(self.world.labs).index(space)

    def _view(self, process: FakeProcess) -> int:
        seen: FakeProcess | None = process
        while seen is not None:
            if seen.pid in self.views:
                return self.views[seen.pid]
            seen = seen.parent
        return COMPUTERS_MOUNTS

    def _let_go(self) -> None:
        """A network namespace ends with the last process in it, unless a pin keeps it."""
        for space in [space for space in self.made if space not in self.world.pinned and not self._living(space)]:
            self.made.discard(space)
            self.marks.pop(space, None)
            self.world.vanish(space)
