from __future__ import annotations

import asyncio
import gzip
import io
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, web

from rackless.run.bodies import BodyTooLarge, BodyTooSlow, BodyUnreadable, EncodingUnknown, read_body
from rackless.run.connections import ClientPatience, GuardedServer, GuardedSite
from rackless.trust.authority import Authority, Use

LONG = 60.0
HASTY = ClientPatience(handshake=0.2, header=0.2, reading=0.2)
Handler = Callable[[web.BaseRequest], "asyncio.Future[web.StreamResponse]"]


class Site:
    def __init__(self, server: GuardedServer, port: int) -> None:
        self.server, self.port = server, port

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


@asynccontextmanager
async def site(
    answer: object, patience: ClientPatience, most: int = 0, secure: ssl.SSLContext | None = None
) -> AsyncIterator[Site]:
    server = GuardedServer(answer, patience, most=most)  # type: ignore[arg-type]
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    try:
        await GuardedSite(runner, listening, ssl_context=secure).start()
        yield Site(server, listening.getsockname()[1])
    finally:
        await runner.cleanup()


async def hello(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="hello")


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(LONG):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow"])
async def test_half_a_header_is_not_waited_for(sent: bytes) -> None:
    async with site(hello, HASTY) as found:
        reader, writer = await found.connect()
        writer.write(sent)
        assert await until_closed(reader) == b""
        assert found.server.cut_off == 1
        writer.close()


async def test_a_header_that_trickles_is_not_waited_for_either() -> None:
    async with site(hello, HASTY) as found:
        reader, writer = await found.connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n")

        async def trickle() -> None:
            while True:
                writer.write(b"a")
                await asyncio.sleep(0.02)

        trickling = asyncio.create_task(trickle())
        try:
            assert await until_closed(reader) == b""
        finally:
            trickling.cancel()
            writer.close()


async def test_half_a_second_request_on_a_kept_connection_is_cut_off_and_whole_ones_are_served() -> None:
    async with site(hello, ClientPatience(header=0.2)) as found:
        reader, writer = await found.connect()
        for _ in range(3):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"hello" in await reader.readuntil(b"hello")
        writer.write(b"GET / HTTP")
        assert await until_closed(reader) == b""
        writer.close()


async def test_an_answer_that_takes_long_is_not_cut_off() -> None:
    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(1)  # five times what a header may take
        return web.Response(text="at last")

    async with site(slow, HASTY) as found:
        reader, writer = await found.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n")
        await asyncio.sleep(0.05)
        writer.write(b"body")
        assert b"at last" in await reader.readuntil(b"at last")
        writer.close()


async def test_who_does_not_read_is_cut_off_and_its_answer_ended() -> None:
    ended = asyncio.Event()

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
        finally:
            ended.set()

    async with site(endless, HASTY) as found:
        _, writer = await found.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(LONG):
            await ended.wait()
        writer.close()


async def test_the_oldest_that_asks_nothing_makes_room() -> None:
    async with site(hello, ClientPatience(), most=3) as found:
        first, *others = [await found.connect() for _ in range(3)]
        for reader, writer in others:
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"hello")
        reader, writer = await found.connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"hello")
        assert await until_closed(first[0]) == b""
        assert found.server.open <= 3
        for _, each in (first, *others, (reader, writer)):
            each.close()


async def test_a_handshake_that_never_comes_is_not_waited_for(tmp_path: Path) -> None:
    leaf = Authority.ensure(tmp_path, "ca").ensure_leaf("server", ["127.0.0.1"], uses=(Use.SERVER,))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(leaf.certificate, leaf.key)
    async with site(hello, HASTY, secure=context) as found:
        reader, writer = await found.connect()
        assert await until_closed(reader) == b""
        writer.close()


# -- bodies --------------------------------------------------------------------------------------------------------

MOST = 1 << 20


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    try:
        return web.Response(body=await read_body(request, MOST, within=0.3))
    except (BodyTooLarge, BodyTooSlow, BodyUnreadable, EncodingUnknown) as error:
        return web.Response(text=type(error).__name__, status=400)


@pytest.mark.parametrize(
    ("body", "encoding", "answer"),
    [
        (b"plain", "", b"plain"),
        (b"plain" * 50_000, "identity", b"plain" * 50_000),
        (gzip.compress(b"packed"), "gzip", b"packed"),
        (zlib.compress(b"packed"), "deflate", b"packed"),
        (b"x" * (MOST + 1), "", b"BodyTooLarge"),
        (lambda: gzip.compress(bytes(MOST * 100), 1), "gzip", b"BodyTooLarge"),
        (lambda: gzip.compress(bytes(MOST // 2), 1), "gzip", b"BodyTooLarge"),
        (gzip.compress(b"packed")[:-4], "gzip", b"BodyUnreadable"),
        (gzip.compress(b"packed") * 2, "gzip", b"BodyUnreadable"),
        (b"no gzip", "gzip", b"BodyUnreadable"),
        (b"?", "br", b"EncodingUnknown"),
    ],
    ids=["plain", "plain and larger", "gzip", "deflate", "too large", "a bomb", "a small bomb", "cut off", "two of them",
         "no gzip", "unknown"],
)  # fmt: skip
async def test_bodies_are_read_within_bounds(body: bytes | Callable[[], bytes], encoding: str, answer: bytes) -> None:
    async with site(echo, ClientPatience()) as found, ClientSession() as session:
        url, headers = f"http://127.0.0.1:{found.port}/", {"Content-Encoding": encoding} if encoding else {}
        async with session.post(url, data=io.BytesIO(body() if callable(body) else body), headers=headers) as response:
            assert await response.read() == answer


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async with site(echo, ClientPatience()) as found:
        reader, writer = await found.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        async with asyncio.timeout(LONG):
            assert b"BodyTooSlow" in await reader.readuntil(b"BodyTooSlow")
        writer.close()


async def test_who_asks_before_sending_is_told_to_go_on() -> None:
    async with site(echo, ClientPatience()) as found:
        reader, writer = await found.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        assert b"100" in await reader.readline()
        writer.write(b"body")
        assert b"body" in await reader.readuntil(b"body")
        writer.close()
