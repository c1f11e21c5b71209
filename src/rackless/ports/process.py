"""Running other people's programs. The one driver is `drivers.process`; nothing else starts a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
