"""Connections to the BMCs: which are accepted, how many at once, and which are closed.

One process serves every BMC, so a client that is slow, silent or many must cost the others nothing. A BMC has a limited
number of connections; when all are used, an idle one is closed, of the client that has most. One sweep over all connections
closes those that take too long (for the TLS handshake, for a request's head, for reading the answer): a timer for each
would cost every request something. This module knows sockets, not Redfish.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rackless.bmc.redfish.http import HttpConnection, HttpServer

_AT_ONCE = 4
"""Connections taken before others get their turn: each may mean a TLS handshake."""
_BACKLOG = 128
_SWEEP_SECONDS = 1.0
_BREATH_SECONDS = 1.0
"""So long no connection is taken when there are no file descriptors left."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass(frozen=True, slots=True)
class Bounds:
    each: int = 64
    """Connections of one BMC. Real BMCs have fewer."""
    all: int = 4096
    """Of all BMCs of this process."""
    head_seconds: float = 30.0
    """For the TLS handshake, and for a request's line and headers from their first byte on. A busy client on an emulated processor
    was seen to take more than ten for the handshake alone."""
    idle_seconds: float = 60.0
    """Between two requests."""
    write_seconds: float = 30.0
    """In which a client that takes nothing of its answer is taken for gone."""
    leave_seconds: float = 5.0
    """In which a connection that was closed has told its client what was left to tell."""


@dataclass(eq=False, slots=True)
class Visitor:
    """One connection, from the moment it was taken."""

    door: Door
    client: str
    connection: HttpConnection
    entering: asyncio.Task[Any] | None = None
    idle_since: float | None = None
    leaving_since: float | None = None

    @property
    def waits(self) -> bool:
        """Nothing is being done for it."""
        return self.entering is not None or self.connection.waits

    def leave(self) -> None:
        if self.entering is not None:
            self.entering.cancel()
        elif (transport := self.connection.line) is not None:
            transport.abort()


@dataclass(eq=False, slots=True)
class Door:
    listener: socket.socket
    tls: ssl.SSLContext | None
    guests: dict[Visitor, None] = field(default_factory=dict)


class Doors:
    def __init__(self, server: HttpServer, tls: ssl.SSLContext | None, bounds: Bounds | None = None) -> None:
        self._server = server
        self._tls = tls
        self._bounds = bounds or Bounds()
        self._loop = asyncio.get_running_loop()
        self._doors: dict[str, Door] = {}
        self._guests: dict[Visitor, None] = {}
        self._pausing: set[asyncio.TimerHandle] = set()
        self._sweeping = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def __contains__(self, address: str) -> bool:
        return address in self._doors

    @property
    def guests(self) -> int:
        return len(self._guests)

    def open(self, address: str, listener: socket.socket, *, tls: bool = True) -> None:
        """Listen; the socket is bound already. Without `tls` this door has none, whatever the others have."""
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        door = self._doors[address] = Door(listener, self._tls if tls else None)
        self._loop.add_reader(listener, self._accept, door)

    def shut(self, address: str) -> None:
        """Refuse new connections and close those that are open."""
        if (door := self._doors.pop(address, None)) is None:
            return
        self._loop.remove_reader(door.listener)
        door.listener.close()
        for guest in list(door.guests):
            guest.leave()

    async def stop(self) -> None:
        self._sweeping.cancel()
        for handle in self._pausing:
            handle.cancel()
        for door in self._doors.values():
            self._loop.remove_reader(door.listener)
            door.listener.close()
        entering = [guest.entering for guest in self._guests if guest.entering is not None]
        for task in entering:
            task.cancel()
        await asyncio.gather(*entering, return_exceptions=True)
        self._server.pre_shutdown()
        await self._server.shutdown(2.0)
        for guest in list(self._guests):
            guest.leave()
        self._doors.clear()

    # coming in

    def _accept(self, door: Door) -> None:
        for _ in range(_AT_ONCE):
            try:
                line, peer = door.listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._pause(door)
                return
            line.setblocking(False)
            self._admit(door, line, str(peer[0]))

    def _pause(self, door: Door) -> None:
        self._loop.remove_reader(door.listener)

        def go_on() -> None:
            self._pausing.discard(handle)
            if door.listener.fileno() >= 0:
                self._loop.add_reader(door.listener, self._accept, door)

        handle = self._loop.call_later(_BREATH_SECONDS, go_on)
        self._pausing.add(handle)

    def _admit(self, door: Door, line: socket.socket, client: str) -> None:
        for table, most in ((door.guests, self._bounds.each), (self._guests, self._bounds.all)):
            if len(table) >= most:
                guest = _least_missed(table)
                if guest is None:  # they all work: this one comes again
                    line.close()
                    return
                self._forget(guest)
                guest.leave()
        connection = self._server.connection()
        guest = Visitor(door, client, connection)
        connection.ended = lambda: self._forget(guest)
        door.guests[guest] = self._guests[guest] = None
        guest.entering = self._loop.create_task(self._enter(guest, line))
        guest.entering.add_done_callback(lambda task: line.close() if task.cancelled() else None)  # before it began

    async def _enter(self, guest: Visitor, line: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: guest.connection,
                line,
                ssl=guest.door.tls,
                ssl_handshake_timeout=self._bounds.head_seconds if guest.door.tls else None,
            )
        except (OSError, asyncio.CancelledError):  # no TLS, none in time, or sent away
            self._forget(guest)
        finally:
            guest.entering = None

    def _forget(self, guest: Visitor) -> None:
        self._guests.pop(guest, None)
        guest.door.guests.pop(guest, None)

    # leaving

    def _sweep(self) -> None:
        now = self._loop.time()
        for guest in list(self._guests):
            if guest.entering is None and self._is_late(guest, now):
                guest.leave()
        self._sweeping = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _is_late(self, guest: Visitor, now: float) -> bool:
        connection, bounds = guest.connection, self._bounds
        if connection.line is None or connection.line.is_closing():
            guest.leaving_since = guest.leaving_since or now
            return now - guest.leaving_since > bounds.leave_seconds
        if connection.paused_since is not None:
            return now - connection.paused_since > bounds.write_seconds
        if not connection.waits:
            guest.idle_since = None
            return False
        guest.idle_since = guest.idle_since or now
        if connection.half_since is not None and now - connection.half_since > bounds.head_seconds:
            return True
        idle = bounds.idle_seconds if connection.served else bounds.head_seconds
        if now - guest.idle_since > idle:
            connection.line.close()
        return False


def _least_missed(guests: dict[Visitor, None]) -> Visitor | None:
    """Of the client that has most connections the oldest one that waits."""
    many = Counter(guest.client for guest in guests)
    waiting = [guest for guest in guests if guest.waits]
    return max(waiting, key=lambda guest: many[guest.client], default=None)
