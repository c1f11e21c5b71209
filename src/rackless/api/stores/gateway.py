"""The few words of HTTP that etcd's JSON gateway needs, on kept connections.

A general client costs as much per request as all the rest of a write; this one writes a request and reads its answer.
Plain HTTP only, to addresses we were given.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from rackless.errors import InputError

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Unanswered(Exception):
    """No answer came. `sent` says whether the request may have been received."""

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class Gateway:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise InputError(f"{url!r} is no address of etcd", hint="say etcd:http://ADDRESS:2379; keep it on loopback")
        self._host, self._port = parts.hostname, parts.port or 2379
        self._idle: list[Pair] = []

    async def ask(self, path: str, body: bytes, within: float) -> bytes:
        """The body of the answer, whatever its code."""
        sent = False
        try:
            async with asyncio.timeout(within):
                pair = self._kept() or await self._connect()
                reader, writer = pair
                sent = True
                writer.write(self._request(path, body))
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                if b"transfer-encoding: chunked" in head:
                    answer = b"".join([chunk async for chunk in _chunks(reader)])
                else:
                    at = head.index(b"content-length:") + 15
                    answer = await reader.readexactly(int(head[at : head.index(b"\r", at)]))
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError) as error:
            if sent:
                writer.close()
            raise Unanswered(f"{self._host}:{self._port}: {error!r}", sent=sent) from error
        except asyncio.CancelledError:
            if sent:
                writer.close()
            raise
        if b"connection: close" in head:
            writer.close()
        else:
            self._idle.append(pair)
        return answer

    async def stream(self, path: str, body: bytes, within: float) -> AsyncIterator[bytes]:
        """The lines of an answer that does not end; `within` is for its beginning only."""
        try:
            async with asyncio.timeout(within):
                reader, writer = await self._connect()
        except (OSError, TimeoutError) as error:
            raise Unanswered(f"{self._host}:{self._port}: {error!r}", sent=False) from error
        try:
            writer.write(self._request(path, body))
            await reader.readuntil(b"\r\n\r\n")
            rest = b""
            async for chunk in _chunks(reader):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        yield line
        except (OSError, EOFError, ValueError) as error:
            raise Unanswered(f"{self._host}:{self._port}: {error!r}", sent=True) from error
        finally:
            writer.close()

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    def _kept(self) -> Pair | None:
        """An idle connection that the other side has not closed meanwhile, as it does when it restarts."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return None

    async def _connect(self) -> Pair:
        return await asyncio.open_connection(self._host, self._port, limit=2**20)

    def _request(self, path: str, body: bytes) -> bytes:
        return b"POST %b HTTP/1.1\r\nHost: etcd\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readline(), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    while (await reader.readline()).strip():
        pass  # trailers, as refusals have them
