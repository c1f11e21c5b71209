"""Consoles that are a terminal with a log, as libvirt makes them: heard by following the log, typed into at the terminal.

The log has what the server said whether anybody listened or not, so any number may listen, and none takes anything
from another. The terminal is another one after every start of the server, and there is none while it is off; it is asked for
when somebody types. What it shows is read and thrown away: unread, it would hold the server up.
"""

from __future__ import annotations

import asyncio
import os
import termios
import tty
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from rackless.errors import LabError
from rackless.ports.console import Heard, NoConsole, Write

FindTerminal = Callable[[str], Awaitable[Path | None]]
_BLOCK = 1 << 16
_PAUSE = 0.05
_MOST_UNTYPED = 4096
_BREATH = 0.02


class TerminalConsoles:
    def __init__(self, log: Callable[[str], Path], find: FindTerminal) -> None:
        self._log = log
        self._find = find

    def attach(self, server: str, lines: int = 0) -> tuple[Heard, Write]:
        """Also, first, the last lines of what it said before."""
        log = self._log(server)
        if not log.parent.exists():
            raise NoConsole(f"{server} has no console")
        terminal = _Terminal(server, self._find)
        return _follow(log, _beginning(log, lines), terminal), terminal.write


def _beginning(log: Path, lines: int) -> int:
    """The position in a log at which its last lines begin, within the last block."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = file.seek(max(0, size - _BLOCK) if lines > 0 else size)
            tail = file.read(size - start)
    except FileNotFoundError:  # it comes with the server's first start
        return 0
    return size - sum(map(len, tail.splitlines(keepends=True)[-lines:]))


async def _follow(log: Path, position: int, terminal: _Terminal) -> Heard:
    """What is added to the log; a log that became shorter was begun anew."""
    try:
        while True:
            with suppress(FileNotFoundError):
                size = log.stat().st_size
                position = position if size >= position else 0
                if size > position:
                    with log.open("rb") as file:
                        file.seek(position)
                        text = file.read(_BLOCK)
                    position += len(text)
                    yield text
                    continue
            await asyncio.sleep(_PAUSE)
    finally:
        terminal.close()


class _Terminal:
    def __init__(self, server: str, find: FindTerminal) -> None:
        self._server = server
        self._find = find
        self._line: int | None = None
        self._untyped = b""
        self._opening: asyncio.Task[None] | None = None
        self._next: asyncio.TimerHandle | None = None

    def write(self, text: bytes) -> None:
        self._untyped = (self._untyped + text)[-_MOST_UNTYPED:]
        if self._line is not None:
            if self._next is None:
                self._type()
        elif self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open())

    def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        self._hang_up()

    async def _open(self) -> None:
        try:
            path = await self._find(self._server)
            if path is None:
                self._untyped = b""  # the server is off, and nobody reads what is typed
                return
            line = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except (LabError, OSError):
            self._untyped = b""
            return
        tty.setraw(line, termios.TCSANOW)  # the default throws away what somebody else has just typed
        self._line = line
        asyncio.get_running_loop().add_reader(line, self._discard)
        self._type()

    def _type(self) -> None:
        """Write to the terminal; what it does not take at once is written again soon."""
        self._next = None
        assert self._line is not None
        try:
            typed = os.write(self._line, self._untyped)
            self._untyped = self._untyped[typed:]
        except BlockingIOError:
            pass
        except OSError:
            self._hang_up()
            return
        if self._untyped:
            self._next = asyncio.get_running_loop().call_later(_BREATH, self._type)

    def _discard(self) -> None:
        try:
            if self._line is not None and os.read(self._line, _BLOCK):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._hang_up()

    def _hang_up(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self._line is not None:
            asyncio.get_running_loop().remove_reader(self._line)
            os.close(self._line)
            self._line = None


def recorded_consoles(console_log: Callable[[str], Path]) -> TerminalConsoles:
    """What servers said before their libvirt was stopped; there is nothing to type at."""

    async def no_terminal(server: str) -> None:
        return None

    return TerminalConsoles(console_log, no_terminal)
