"""HTTP connections that no client can hold open for nothing: deadlines for TLS handshake, header, idling and reading, and a limit
on their number.

Shared by every HTTP server of the program but the BMCs, which have theirs. One for strangers is made as `GuardedServer(handler,
ClientPatience(), most=…)` and listens through `GuardedSite`; an application runs in a `GuardedRunner` (`tests/test_tree.py` holds
that none runs in another). Bodies are never inflated here: that is for whoever knows the caller (`run.bodies`). Knows HTTP, not
what is asked.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from rackless.run.pieces import ConnectionInPieces


@dataclass(frozen=True, slots=True)
class ClientPatience:
    """How long a client may take, in seconds."""

    handshake: float = 15.0
    """For TLS. Nothing is known of the client yet, so it gets least."""
    header: float = 32.0
    """From the connection, or the first byte of a later request, to the end of its header: kube-apiserver's number."""
    idle: float = 150.0
    """Between requests. Longer than the 90 s of Go's clients: the side that waits for nothing should close first."""
    reading: float = 30.0
    """For a client to take what fills the connection's buffer (64 KiB). A client that takes longer is cut off."""
    stalled: float = 0.0
    """For a client that acknowledges nothing at all (TCP_USER_TIMEOUT): the kernel also counts what sendfile sends, which passes
    by the buffer. 0 leaves it to the kernel (a quarter of an hour)."""


Who = Callable[[asyncio.Transport], Hashable | None]
"""Which client a connection belongs to, for the limit `each`; None for a client without that limit."""


def peer_address(transport: asyncio.Transport) -> Hashable | None:
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else None


class GuardedServer(web.Server):
    """A server for strangers. When `most` connections are open, the oldest that asks nothing makes room for a new one; with
    `each`, so does the oldest of a client that has this many, and a client whose connections are all busy gets no more."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        patience: ClientPatience | None = None,
        *,
        most: int = 0,
        each: int = 0,
        who: Who = peer_address,
        **more: Any,
    ) -> None:
        self.patience = patience or ClientPatience()
        self.most = most or most_connections()
        self.each = each
        self._who = who
        self._clients: dict[RequestHandler, Hashable] = {}
        """Whose each connection is, asked once: a socket that is closed does not say it any more."""
        self.cut_off = 0
        """How many connections were closed because they took too long or because there were too many."""
        super().__init__(handler, access_log=None, auto_decompress=False, keepalive_timeout=self.patience.idle, **more)

    def __call__(self) -> RequestHandler:
        return GuardedConnection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        if self.patience.stalled:
            _end_when_stalled(transport, self.patience.stalled)
        own = self._of_the_same(handler, transport)
        if self.each and len(own) >= self.each:
            self._make_room(own, handler, transport)
        elif len(self._connections) >= self.most:
            self._make_room(list(self._connections), handler, transport)
        super().connection_made(handler, transport)

    def _of_the_same(self, handler: RequestHandler, transport: asyncio.Transport) -> list[RequestHandler]:
        """The connections that this one's client has already."""
        if not self.each or (client := self._who(transport)) is None:
            return []
        for gone in self._clients.keys() - self._connections.keys():
            del self._clients[gone]
        own = [other for other, whose in self._clients.items() if whose == client]
        self._clients[handler] = client
        return own

    def _make_room(self, among: list[RequestHandler], handler: RequestHandler, transport: asyncio.Transport) -> None:
        idle = next((one for one in among if not one._request_in_progress and _is_open(one)), None)
        self.cut(idle or handler, (idle.transport if idle else None) or transport)

    def cut(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        self.cut_off += 1
        handler.force_close()
        transport.abort()

    @property
    def open(self) -> int:
        return len(self._connections)


class GuardedConnection(ConnectionInPieces):
    """One connection, with one timer for headers and one for a client that does not read."""

    __slots__ = ("_guard", "_header_since", "_header_timer", "_reading_timer")

    def __init__(self, manager: GuardedServer, *, loop: asyncio.AbstractEventLoop, **more: Any) -> None:
        super().__init__(manager, loop=loop, **more)
        self._guard = manager
        self._header_since = 0.0
        self._header_timer: asyncio.TimerHandle | None = None
        self._reading_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._await_header()

    def connection_lost(self, exc: BaseException | None) -> None:
        for timer in (self._header_timer, self._reading_timer):
            if timer:
                timer.cancel()
        self._header_timer = self._reading_timer = None
        super().connection_lost(exc)

    def take(self, data: bytes) -> None:
        super().take(data)
        if self._messages or self._request_in_progress or self._current_request is not None:
            self._header_since = 0.0
        elif data and not self._header_since:
            self._await_header()

    def _await_header(self) -> None:
        """The timer is not cancelled when the header has come: letting it expire and ignoring it is cheaper."""
        self._header_since = self._loop.time()
        if self._header_timer is None:
            self._header_timer = self._loop.call_later(self._guard.patience.header, self._check_header)

    def _check_header(self) -> None:
        self._header_timer = None
        if not self._header_since or self._request_in_progress:
            self._header_since = 0.0
            return
        left = self._header_since + self._guard.patience.header - self._loop.time()
        if left > 0:
            self._header_timer = self._loop.call_later(left, self._check_header)
        else:
            self._cut()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading_timer = self._loop.call_later(self._guard.patience.reading, self._cut)

    def resume_writing(self) -> None:
        if self._reading_timer:
            self._reading_timer.cancel()
            self._reading_timer = None
        super().resume_writing()

    def _cut(self) -> None:
        if self.transport is not None:
            self._guard.cut(self, self.transport)

    def log_exception(self, *args: Any, **more: Any) -> None:
        """What is no HTTP is answered and not logged: any stranger could fill a disk with tracebacks."""
        if not isinstance(more.get("exc_info"), HttpProcessingError):
            super().log_exception(*args, **more)


def _is_open(handler: RequestHandler) -> bool:
    return handler.transport is not None and not handler.transport.is_closing()


def _end_when_stalled(transport: asyncio.Transport, seconds: float) -> None:
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):  # gone already
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


class GuardedRunner(web.AppRunner):
    """An application behind the deadlines and the bounds that all our servers have."""

    def __init__(
        self,
        app: web.Application,
        patience: ClientPatience | None = None,
        *,
        most: int,
        each: int = 0,
        who: Who = peer_address,
        handler_cancellation: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(app, **more)
        self._patience, self._most, self._each, self._of = patience, most, each, who
        self._cancels = handler_cancellation

    async def _make_server(self) -> GuardedServer:
        await super()._make_server()
        handle = cast(Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], self.app._handle)
        return GuardedServer(
            handle, self._patience, most=self._most, each=self._each, who=self._of,
            request_factory=self.app._make_request, handler_cancellation=self._cancels,
        )  # fmt: skip


class GuardedSite(web.SockSite):
    """A listening socket whose clients must finish TLS's handshake in time."""

    async def start(self) -> None:
        await web.BaseSite.start(self)
        server, handshake = _server_of(self)
        self._server = await asyncio.get_running_loop().create_server(
            server, sock=self._sock, ssl=self._ssl_context, backlog=self._backlog, ssl_handshake_timeout=handshake
        )


class GuardedTcpSite(web.TCPSite):
    """The same at an address and a port; without an address at all of this computer's."""

    async def start(self) -> None:
        await web.BaseSite.start(self)
        server, handshake = _server_of(self)
        self._server = await asyncio.get_running_loop().create_server(
            server,
            self._host,
            self._port,
            ssl=self._ssl_context,
            backlog=self._backlog,
            ssl_handshake_timeout=handshake,
        )


def _server_of(site: web.BaseSite) -> tuple[GuardedServer, float | None]:
    """And the seconds it gives a handshake; asyncio's own are 60, and connections that are in one are counted by no limit."""
    server = site._runner.server
    assert isinstance(server, GuardedServer)
    return server, server.patience.handshake if site._ssl_context else None


def most_connections() -> int:
    """Four fifths of the open files that this process may have: the rest is for the store, logs and connections in their TLS
    handshake."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(allowed * 4 // 5, 20_000))


def allow_many_files() -> None:
    """Raise the limit of open files (RLIMIT_NOFILE) as far as the kernel allows: the usual 1024 are few for a server."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(most, 65_536) if most != resource.RLIM_INFINITY else 65_536
    if allowed < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
