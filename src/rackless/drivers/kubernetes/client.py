"""One namespace of a Kubernetes API over HTTPS: requests that outlast a restart of the server, and refusals as errors.

A request is sent again when the connection broke and it is not known whether it arrived: writes carry a resourceVersion, so that
a second one is refused. Knows nothing of what the objects mean.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from rackless.ports.api import Access, ApiUnreachable
from rackless.ports.clock import Clock
from rackless.ports.resources import Refused

Json = dict[str, Any]

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
ANSWER_WITHIN = 30.0
"""A server that takes a request and says nothing for so long is as good as gone."""
SILENT_SECONDS, PROBE_SECONDS, PROBES = 10, 5, 3
"""When TCP asks a server that has said nothing, how often again, and how many times before the connection is given up. A control
plane that lost its power says no goodbye, and the API VIP is another's by then: a watch would wait its whole time for it."""
LATER = frozenset({429, 500, 502, 503, 504})
"""Answers after which a request is sent again."""


class HttpRefused(Refused):
    """The API understood and said no; `code` is its HTTP status."""

    def __init__(self, code: int, what: str, why: str) -> None:
        super().__init__(what, why=why)
        self.code = code


class _NotYet(Exception):
    """The certificates are not made yet; the API makes them when it starts."""


_TROUBLE = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError, ssl.SSLError, _NotYet)


class Client:
    """Opened at its first request, so that the certificates may be made after it."""

    def __init__(self, access: Access, clock: Clock, patience: float) -> None:
        self._access = access
        self._clock = clock
        self._patience = patience
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        query: Mapping[str, str] | None = None,
        media: str = "application/json",
        later: frozenset[int] = LATER,
    ) -> Json:
        """The decoded answer. Raises HttpRefused, or ApiUnreachable when `patience` is over."""
        begun, pause = self._clock.now(), FIRST_PAUSE
        while True:
            try:
                return await self._once(method, path, body, query, media)
            except HttpRefused as refusal:
                if refusal.code not in later:
                    raise
                trouble = refusal.why
            except _NotYet as error:
                trouble = str(error)
            except _TROUBLE as error:
                trouble = f"{type(error).__name__}: {error}"
            if self._clock.now() - begun + pause > self._patience:
                raise ApiUnreachable(
                    "the lab's Kubernetes API does not answer", why=trouble, hint="`rackless logs api` shows its log"
                )
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _once(
        self, method: str, path: str, body: Json | None, query: Mapping[str, str] | None, media: str
    ) -> Json:
        data = None if body is None else json.dumps(body)
        headers = None if body is None else {"Content-Type": media}
        async with asyncio.timeout(ANSWER_WITHIN):
            async with self._open().request(
                method, self._access.url + path, data=data, headers=headers, params=query
            ) as response:
                raw = await response.read()
        if response.status >= 400:
            raise _refused(response.status, method, path, raw)
        answer = json.loads(raw)
        assert isinstance(answer, dict)
        return answer

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], silence: float) -> AsyncGenerator[AsyncGenerator[Json]]:
        """The lines of a watch as they come. Not retried: the caller knows from which resourceVersion to go on."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=silence)
        async with self._open().get(self._access.url + path, params=query, timeout=timeout) as response:
            if response.status >= 400:
                raise _refused(response.status, "watch", path, await response.read())
            try:
                yield _lines(response.content)
            finally:
                # A watch that is left in the middle has nothing more to say. With TLS's goodbye its socket would stay open
                # until the server answers that, and `close` does not know of it any more.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            headers = {"Authorization": f"Bearer {self._access.token}"} if self._access.token else {}
            try:
                tls = self._access.tls()
            except FileNotFoundError as error:
                raise _NotYet("its certificates have not been made yet: the API was never started") from error
            connector = aiohttp.TCPConnector(ssl=tls, limit=100, socket_factory=_open_socket)
            self._session = aiohttp.ClientSession(connector=connector, headers=headers, trust_env=False)
        return self._session


def _open_socket(place: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = place
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_SECONDS)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
    return opened


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[Json]:
    """JSON by lines, however long a line is."""
    rest = b""
    async for chunk in content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield json.loads(line)


def is_trouble(error: Exception) -> bool:
    """Whether the error is temporary: the connection or the server is away."""
    return isinstance(error, _TROUBLE) or (isinstance(error, HttpRefused) and error.code in LATER)


def _refused(code: int, method: str, path: str, raw: bytes) -> HttpRefused:
    try:
        why = str(json.loads(raw)["message"])
    except (ValueError, KeyError, TypeError):
        why = raw[:300].decode(errors="replace")
    return HttpRefused(code, f"the Kubernetes API refused to {method.lower()} {path} ({code})", why)
