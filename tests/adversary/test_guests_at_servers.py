"""Guests at the servers of a lab that ask nobody to log in: half requests, many connections, readers who do not read.

What counts is another client: it is answered meanwhile.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rackless.cluster.bootstrap import config_server
from rackless.drivers.clock import SystemClock
from rackless.lab import files
from rackless.lab.files import FileServer
from rackless.run.connections import ClientPatience
from rackless.run.waiting import until
from rackless.trust.authority import Authority, Use

GUEST, OTHER = "127.0.0.90", "127.0.0.91"
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def file_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FileServer]:
    monkeypatch.setattr(files, "EACH_CONNECTIONS", 4)
    (tmp_path / "small").write_bytes(b"image")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(64 << 20)
    server = FileServer(tmp_path, "127.0.0.1", port=_free_port())
    try:
        yield server
    finally:
        await server.stop()


async def test_a_guest_with_many_connections_to_the_file_server_keeps_nobody_else_out(
    file_server: FileServer, stack: AsyncExitStack
) -> None:
    await file_server.start()
    held = [await connect(file_server, GUEST, stack) for _ in range(12)]
    for _, writer in held:
        await say(writer, b"GET /small HTTP/1.1\r\nHost: x")
    assert await status(file_server, OTHER) == 200
    closed = [await is_closed(reader) for reader, _ in held]
    assert closed.count(False) <= 4, "of one address"
    assert await status(file_server, GUEST) == 200, "a connection that asks nothing makes room for its own next one"


async def test_who_takes_nothing_of_a_file_is_cut_off(
    file_server: FileServer,
    stack: AsyncExitStack,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "STALLED_SECONDS", 1.0)
    await file_server.start()
    _, writer = await connect(file_server, GUEST, stack, buffer=4096)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await say(writer, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")

    async def lets_go() -> tuple[bool, str]:
        return file_server.open == 0, f"{file_server.open} connections"

    await until(lets_go, what="the file server to let it go", within=30, every=0.1, clock=SystemClock())
    assert await status(file_server, OTHER) == 200
    assert caplog.records == [], "who goes is no mistake of ours"


async def test_a_guest_whose_connections_are_all_busy_gets_no_more(
    file_server: FileServer, stack: AsyncExitStack
) -> None:
    await file_server.start()
    for _ in range(4):
        _, writer = await connect(file_server, GUEST, stack, buffer=4096)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await say(writer, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.2)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await status(file_server, GUEST)
    assert await status(file_server, OTHER) == 200


async def test_half_a_request_to_the_machine_config_server_ends_and_holds_up_no_machine(
    tmp_path: Path, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_server, "EACH_CONNECTIONS", 3)
    monkeypatch.setattr(config_server, "ClientPatience", lambda header: ClientPatience(header=1.0))
    (tmp_path / "worker.ign").write_text("{}")
    root = Authority.ensure(tmp_path / "tls", "test")
    leaf = root.ensure_leaf("server", ["127.0.0.1"], uses=[Use.SERVER])
    port = _free_port()
    runner = await config_server.listen(
        tmp_path, leaf.certificate, leaf.key, lambda told: None, address="127.0.0.1", port=port
    )
    stack.push_async_callback(runner.cleanup)
    tls = ssl.create_default_context(cafile=str(root.certificate))

    async def greet(source: str, request: bytes) -> Line:
        line = await asyncio.open_connection("127.0.0.1", port, ssl=tls, local_addr=(source, 0))
        stack.callback(line[1].close)
        await say(line[1], request)
        return line

    half = [await greet(GUEST, b"GET /config/worker HTTP/1.1\r\nHost: x") for _ in range(8)]
    reader, _ = await greet(OTHER, b"GET /config/worker HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"200"
    assert [await is_closed(reader) for reader, _ in half].count(False) <= 3
    async with asyncio.timeout(10):
        for reader, _ in half:
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)


async def test_half_a_handshake_with_the_machine_config_server_is_not_waited_for(
    tmp_path: Path, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_server, "ClientPatience", lambda header: ClientPatience(handshake=0.5))
    root = Authority.ensure(tmp_path / "tls", "test")
    leaf = root.ensure_leaf("server", ["127.0.0.1"], uses=[Use.SERVER])
    port = _free_port()
    runner = await config_server.listen(
        tmp_path, leaf.certificate, leaf.key, lambda told: None, address="127.0.0.1", port=port
    )
    stack.push_async_callback(runner.cleanup)
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
    async with asyncio.timeout(20):
        for reader, writer in silent:
            assert await reader.read() == b""
            writer.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


async def connect(server: FileServer, source: str, stack: AsyncExitStack, buffer: int = 0) -> Line:
    sock = socket.socket()
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.bind((source, 0))
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (server.addresses[0], server.port))
    line = await asyncio.open_connection(sock=sock)
    stack.callback(line[1].close)
    return line


async def say(writer: asyncio.StreamWriter, text: bytes) -> None:
    try:
        writer.write(text)
        await writer.drain()
    except ConnectionError:  # cut off meanwhile
        pass


async def status(server: FileServer, source: str) -> int:
    async with AsyncExitStack() as stack:
        reader, writer = await connect(server, source, stack)
        writer.write(b"GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(20):
            return int((await reader.readuntil(b"\r\n")).split()[1])


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(0.05):
            return await reader.read(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True
