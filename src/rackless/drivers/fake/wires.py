"""Connections in memory: the network of programs that run in one event loop.

A connection has two ends, each with the context of the program that opened it, so that data is received in the process that it
is meant for. A program binds a `FakeSocket` and hands it to its loop; the kernel knows nothing of it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any, cast

Place = tuple[Any, ...]
"""Where somebody listens: a path, or a network namespace with an address and a port."""


class PeerSocket:
    """As much of an accepted unix socket as tells which process is at its other end."""

    family = socket.AF_UNIX

    def __init__(self, uid: int) -> None:
        self._uid = uid

    def getsockopt(self, *_: int) -> bytes:
        return struct.pack("3i", 0, self._uid, 0)

    def setsockopt(self, *_: object) -> None: ...


class MemoryTransport(asyncio.Transport):
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: object,
        peer: object,
        latency: Callable[[], float] = lambda: 0.0,
        socket: PeerSocket | None = None,
    ) -> None:
        """`latency` returns the seconds that the next message takes."""
        super().__init__({"sockname": name, "peername": peer, "socket": socket})
        self._latency = latency
        self._loop = loop
        self._context = copy_context()
        self._protocol: asyncio.Protocol | None = None
        self._peer: MemoryTransport | None = None
        self._closing = False
        self._paused = False
        self._kept: list[bytes | None] = []
        self._last = 0.0
        """When the last message under way arrives: a later one does not overtake it."""

    def begin(self, protocol: asyncio.BaseProtocol, context: Context) -> None:
        self._protocol, self._context = cast(asyncio.Protocol, protocol), context

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    # sending

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._closing and self._peer is not None and data:
            self._peer.arrive(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._closing and self._peer is not None:
            self._peer.arrive(None)

    def get_write_buffer_size(self) -> int:
        return 0

    # receiving

    def arrive(self, data: bytes | None) -> None:
        """None is the end of the stream."""
        if not (latency := self._latency()):
            self._receive(data)
            return
        self._last = max(self._last + 1e-7, self._loop.time() + latency)
        self._loop.call_at(self._last, self._receive, data, context=self._context)

    def _receive(self, data: bytes | None) -> None:
        self._kept.append(data)
        self._loop.call_soon(self._deliver, context=self._context)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._loop.call_soon(self._deliver, context=self._context)

    def is_reading(self) -> bool:
        return not self._paused

    def _deliver(self) -> None:
        while self._kept and not self._paused and not self._closing and self._protocol is not None:
            data = self._kept.pop(0)
            if data is not None:
                self._protocol.data_received(data)
            elif not self._protocol.eof_received():
                self.close()

    # ending

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    def break_off(self) -> None:
        """The connection is reset: both ends lose it, and the data that was under way."""
        for end in (self, self._peer):
            if end is not None and not end._closing:
                end._kept.clear()
                end._lose(ConnectionResetError("the connection broke"))

    def vanish(self) -> None:
        """The process at this end is gone: the other end reads the data that was sent, and then the end of the stream."""
        if not self._closing and self._peer is not None and not self._peer._closing:
            self._peer.arrive(None)
        self._closing = True

    def _end(self, error: Exception | None) -> None:
        if not self._closing:
            self._lose(error)
            if self._peer is not None and not self._peer._closing:
                self._peer.arrive(None)

    def _lose(self, error: Exception | None) -> None:
        self._closing = True
        if self._protocol is not None:
            self._loop.call_soon(self._protocol.connection_lost, error, context=self._context)


def connect(near: MemoryTransport, far: MemoryTransport) -> None:
    near._peer, far._peer = far, near


class MemoryServer(asyncio.AbstractServer):
    """A listener at a place."""

    sockets: tuple[socket.socket, ...] = ()

    def __init__(
        self, places: dict[Place, MemoryServer], place: Place, factory: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        if place in places:
            raise OSError(errno.EADDRINUSE, f"somebody listens at {place} already")
        self._places = places
        self.place = place
        self.factory = factory
        self.context = copy_context()
        self.connections: list[MemoryTransport] = []
        places[place] = self

    def close(self) -> None:
        if self._places.get(self.place) is self:
            del self._places[self.place]

    def is_serving(self) -> bool:
        return self._places.get(self.place) is self

    async def start_serving(self) -> None: ...

    async def serve_forever(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def wait_closed(self) -> None: ...

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()


class FakeSocket:
    """As much of a socket as a program needs to bind it and hand it to its loop."""

    def __init__(
        self, taken: set[Place], network: object, family: int, kind: int, bound: Callable[[str], None]
    ) -> None:
        self.family = socket.AddressFamily(family)
        self.type = kind
        self._taken = taken
        self._network = network
        self._bound = bound
        self._place: Place | None = None
        self._open = True

    def bind(self, address: tuple[str, int]) -> None:
        place = (self._network, self.type, *address)
        if place in self._taken:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self._taken.add(place)
        self._place = place
        self._bound(f"{address[0]}:{address[1]}")

    def close(self) -> None:
        self._open = False
        if self._place is not None:
            self._taken.discard(self._place)
            self._place = None

    def fileno(self) -> int:
        return 1 << 30 if self._open else -1

    def getsockname(self) -> tuple[Any, ...]:
        return self._place[2:] if self._place is not None else ("0.0.0.0", 0)

    def setsockopt(self, *_: object) -> None: ...

    def listen(self, _backlog: int = 0) -> None: ...

    def setblocking(self, _flag: bool) -> None: ...

    def sendto(self, _data: bytes, _address: object) -> None: ...

    def recvfrom(self, _size: int) -> tuple[bytes, object]:
        raise BlockingIOError
