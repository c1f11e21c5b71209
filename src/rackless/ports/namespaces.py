"""The namespaces of a lab: its network and its view of the file system, and a second network beside it.

The holder enters them, everything of the lab lives in them, and whoever takes the lab away finds its processes by them.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from rackless.ports.mounts import Mounts

T = TypeVar("T")
Network = tuple[int, int]
"""What identifies a network namespace: device and inode."""


@dataclass(frozen=True, slots=True)
class Home:
    """The network and the mount namespace that a process is in, by their inodes."""

    net: int
    mnt: int


@dataclass(frozen=True, slots=True)
class Space:
    """A network namespace."""

    network: Network
    door: Path
    """A way in: its pin, or what a process that lives there shows of it."""
    pids: tuple[int, ...]
    """Who lives there; nobody, where only a pin keeps it."""


class Room(Protocol):
    """A second network namespace beside ours; it ends with our process."""

    @property
    def path(self) -> Path:
        """The namespace as a file, for those who enter it or move links into it."""
        ...

    def call(self, work: Callable[[], T]) -> T:
        """Do something in there and wait for it."""
        ...

    async def acall(self, work: Callable[[], T]) -> T: ...

    def close(self) -> None: ...


class Entrance(Protocol):
    """A unix socket at which callers are handed to processes in our namespaces, one each."""

    def close(self) -> None:
        """Nobody comes in any more; who is inside goes on."""
        ...


class Namespaces(Protocol):
    def home(self) -> Home: ...

    def enter(self, pin: Path, make_mounts: Callable[[Mounts], None]) -> None:
        """Put this process into the network namespace pinned there, made and pinned when there is none; then give it a mount
        namespace of its own, with what `make_mounts` makes."""
        ...

    def visit(self, pin: Path) -> None:
        """Put this process into the network namespace pinned there, and leave it its view of the file system."""
        ...

    def write_mark(self, text: str) -> None:
        """Write on our network namespace whose it is, where every other can read it; at most 255 bytes."""
        ...

    async def read_mark(self, door: Path) -> str:
        """What stands on a network namespace; empty when nothing does, or it is gone."""
        ...

    def inhabitants(self, pin: Path) -> list[int]:
        """The processes that live in the pinned network namespace."""
        ...

    def residents(self, network: Network, mnt: int | None = None) -> list[int]:
        """The processes, but for ourselves, that live in a network namespace, or in a mount namespace."""
        ...

    def mount_namespace(self, pid: int) -> int | None:
        """A process's, by its inode; None when it is gone."""
        ...

    def others(self) -> list[Space]:
        """Network namespaces besides ours, in the order of their numbers; also those that only a pin keeps."""
        ...

    def leads_to(self, pin: Path) -> Network | None:
        """The network namespace that is pinned there."""
        ...

    def pins(self, network: Network) -> list[Path]:
        """The files at which a network namespace is pinned."""
        ...

    def unpin(self, pin: Path) -> None:
        """Let the namespace go; it ends with the last who lives there. Silent when there is none."""
        ...

    def open_room(self, name: str) -> Room: ...

    def stay(self, name: str) -> Room:
        """A room in the network namespace that we are in now: it stays there when we go elsewhere."""
        ...

    def open_entrance(
        self, place: Path, owner: int, argv: Sequence[str], env: Mapping[str, str], most: int
    ) -> Entrance:
        """Listen at a unix socket that only root and one user can open. For every connection a process is started, which has it as
        its file 3; at most so many at once. The loop that runs does this."""
        ...

    def socket(self, family: int, kind: int, protocol: int) -> socket.socket:
        """A socket in the network namespace we are in."""
        ...
