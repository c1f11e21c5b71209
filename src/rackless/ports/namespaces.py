"""The namespaces of a lab: its network namespace, its mount namespace, and a second network namespace for routed BMCs.

The holder enters them, all processes of the lab run in them, and `destroy` finds the processes by them.
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
    """A path to enter it by: its pin, or /proc/PID/ns/net of a process in it."""
    pids: tuple[int, ...]
    """The processes in it; none where only a pin keeps it."""


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
        """Accept no more connections; those that are open go on."""
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
        """Write the lab's mark into our network namespace (the alias of the loopback link); at most 255 bytes."""
        ...

    async def read_mark(self, door: Path) -> str:
        """The mark in a network namespace; empty when there is none, or when the namespace is gone."""
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
        """Remove the pin; the kernel deletes the namespace with its last process. Silent when there is none."""
        ...

    def open_room(self, name: str) -> Room: ...

    def stay(self, name: str) -> Room:
        """A thread that stays in the network namespace that we are in now, when this process enters another one."""
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
