"""A unix socket at which every connection is handed to a new process, as inetd does.

The holder listens with it, and only starts a process for each connection: what the caller sends is read by that process.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_CONNECTION = 3
"""The file descriptor under which the process gets its connection."""


class LinuxEntrance:
    """`ports.namespaces.Entrance`, in the loop that runs when it is opened."""

    def __init__(self, place: Path, owner: int, argv: Sequence[str], env: Mapping[str, str], most: int) -> None:
        self._place, self._argv, self._env, self._most = place, list(argv), dict(env), most
        self._loop = asyncio.get_running_loop()
        self._inside: dict[int, int] = {}
        """The running processes, by their pidfd."""
        place.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        before = os.umask(0o177)
        try:
            self._listener.bind(str(place))
        finally:
            os.umask(before)
        os.chown(place, owner, -1)
        self._listener.listen(16)
        self._loop.add_reader(self._listener, self._admit)

    def close(self) -> None:
        """Accept no more connections; processes that run go on."""
        self._loop.remove_reader(self._listener)
        self._listener.close()
        self._place.unlink(missing_ok=True)
        for end in self._inside:
            self._loop.remove_reader(end)
            os.close(end)
        self._inside.clear()

    def _admit(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection, suppress(OSError):  # a caller over the limit sees that the connection is closed
            if len(self._inside) >= self._most:
                return
            connection.setblocking(True)
            pid = os.posix_spawn(
                self._argv[0],
                self._argv,
                self._env,
                file_actions=[(os.POSIX_SPAWN_DUP2, connection.fileno(), _CONNECTION)],
                setsid=True,
            )
            end = os.pidfd_open(pid)
            self._inside[end] = pid
            self._loop.add_reader(end, self._ended, end)

    def _ended(self, end: int) -> None:
        self._loop.remove_reader(end)
        os.close(end)
        with suppress(ChildProcessError):  # the holder may have reaped it already
            os.waitpid(self._inside.pop(end), os.WNOHANG)
