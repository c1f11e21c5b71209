"""Starting, finding and ending processes. The one driver is `drivers.process`; nothing else starts a process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Completed:
    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str


class Child(Protocol):
    """A program that keeps running; it dies with us."""

    @property
    def pid(self) -> int: ...

    @property
    def code(self) -> int | None: ...

    async def wait(self) -> int: ...

    def lines(self) -> AsyncGenerator[str, None]:
        """What it has said since it was started and what it says, line by line, until it has ended."""
        ...

    async def stop(self, within: float = 10.0) -> int:
        """Ask it to end; kill it when it has not ended `within` seconds."""
        ...


class Processes(Protocol):
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
        """Run to the end. `env` is added to a minimal environment; `stdout` names a file to write instead.

        Raises CommandFailed on a non-zero exit when `check`, GaveUp when it took longer than `within`.
        Never a shell: `argv` is what runs. Cancellation kills it.
        """
        ...

    async def start(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Child:
        """Start a program that keeps running; its output is appended to `log`."""
        ...


class Detached(Protocol):
    """A program that outlives us."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        ...


class Held(Exception):
    """Another process holds the lock; its words are what that one wrote about itself."""


class ProcessTable(Processes, Protocol):
    """`Processes`, and besides programs that outlive us, and processes that others started."""

    @property
    def own(self) -> int:
        """Our own number."""
        ...

    async def launch(self, argv: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None) -> Detached:
        """Start a program that outlives us."""
        ...

    def identity(self, pid: int) -> str:
        """Number and start time: what makes a process that one and no other. Empty when it is gone."""
        ...

    def find(self, pidfile: Path) -> int | None:
        """The process whose identity is written there, while it lives."""
        ...

    def command(self, pid: int) -> str:
        """What it was started with, for people; empty when it is gone."""
        ...

    async def end(self, pid: int, within: float = 5.0) -> None:
        """End a process that is not our child: ask, wait, kill. Silent when it is gone."""
        ...

    def interrupt(self, pid: int) -> None:
        """Send SIGINT, as Ctrl-C does. Silent when it is gone."""
        ...

    def end_remains(self, leader: int) -> None:
        """Kill what a program that has ended left running: its process group, as far as it lives in our network namespace."""
        ...

    def hold(self, lock: Path) -> AbstractContextManager[None]:
        """Hold a lock file (flock) against other processes; the kernel releases it when this process ends, however it ends.
        Raises Held."""
        ...

    def adopt_orphans(self) -> None:
        """Become the subreaper: descendants whose parents end become our children."""
        ...

    def bury(self, but: int) -> None:
        """Reap every child that has ended, but for the one that somebody else waits for."""
        ...
