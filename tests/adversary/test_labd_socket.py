"""The owner of a lab at labd's socket, with programs that misbehave: root is answered meanwhile, and labd keeps its memory."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import os
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from rackless import events
from rackless.codec import encode
from rackless.protocol import server as control
from rackless.protocol.client import ControlClient
from rackless.protocol.exchange import Exchange, Nothing
from rackless.protocol.messages import HEALTH, Daemon
from rackless.protocol.server import ControlServer
from rackless.run.bodies import read_body
from rackless.run.connections import ClientPatience, GuardedServer

OWNER = 4711
PEER_UID = control.peer_uid
WORK = Exchange("work", Nothing, Nothing, works=True)
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Site:
    def __init__(self, socket: Path, bus: events.Bus) -> None:
        self.socket = socket
        self.bus = bus
        self.asker = OWNER
        self.runner: web.AppRunner | None = None
        self.working = asyncio.Event()
        self.ending = asyncio.Event()
        self.end = asyncio.Event()

    async def line(self, text: bytes = b"") -> Line:
        reader, writer = await asyncio.open_unix_connection(str(self.socket))
        writer.write(text)
        await writer.drain()
        return reader, writer

    async def post(self, body: bytes, *headers: str) -> tuple[int, str]:
        head = ["POST /work HTTP/1.1", "Host: labd", "Connection: close", f"Content-Length: {len(body)}", *headers]
        reader, writer = await self.line("\r\n".join([*head, "", ""]).encode() + body)
        async with asyncio.timeout(20):
            answer = (await reader.read()).decode()
        writer.close()
        return int(answer.split()[1]), answer


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """Whoever connects is taken for the owner; `asker = 0` makes the next ones root."""
    found = Site(tmp_path / "labd.sock", events.Bus())
    known: dict[int, int] = {}

    def peer(transport: asyncio.BaseTransport | None) -> int:
        return known.setdefault(id(transport), found.asker)

    async def health(_: Nothing) -> Daemon:
        return Daemon(7)

    async def work(_: Nothing) -> Nothing:
        found.working.set()
        try:
            await found.end.wait()
        except asyncio.CancelledError:
            found.ending.set()
            await found.end.wait()
            raise
        return Nothing()

    monkeypatch.setattr(control, "peer_uid", peer)
    monkeypatch.setattr(control, "_PATIENCE", ClientPatience(header=1.0, reading=60.0))
    monkeypatch.setattr(control, "OWNER_CONNECTIONS", 4)
    monkeypatch.setattr(os, "chown", lambda *_: None)
    served = [HEALTH.by(health), WORK.by(work)]
    server = ControlServer(found.socket, found.bus, log=tmp_path / "log", serves=served, owner=OWNER)
    await server.start()
    found.runner = server._runner
    yield found
    found.end.set()
    await server.stop()


async def test_large_requests_of_the_owner_take_turns_and_small_ones_do_not_wait(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, most, full = 0, 0, asyncio.Event()

    async def counted(request: web.Request, size: int, seconds: float) -> bytes:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        if reading == control.LARGE_AT_ONCE:
            full.set()
        try:
            return await read_body(request, size, seconds)
        finally:
            reading -= 1

    assert site.runner is not None and isinstance(site.runner.server, GuardedServer)
    monkeypatch.setattr(site.runner.server, "each", 100)
    monkeypatch.setattr(control, "read_body", counted)
    kinds = [
        b"Content-Length: 16000000\r\n\r\n{",
        b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"Content-Encoding: gzip\r\nContent-Length: 1000\r\n\r\n\x1f",
    ]
    held = [await site.line(b"POST /work HTTP/1.1\r\nHost: labd\r\n" + kinds[number % 3]) for number in range(12)]
    site.end.set()
    async with asyncio.timeout(20):
        await full.wait()
        status, _ = await site.post(b"{}")
    assert status == 200 and most == control.LARGE_AT_ONCE + 1, "the small one, beside them"
    site.asker = 0
    async with asyncio.timeout(20):
        status, _ = await site.post(b"{" + b" " * (2 << 20) + b"}")
    assert status == 200, "root does not wait for the owner"
    for _, writer in held:
        writer.close()


async def test_a_request_of_the_owner_is_kept_without_what_nobody_asked_for(site: Site) -> None:
    """A mebibyte of empty objects takes labd 16, and a request is worked on as long as its host is installed."""
    told = [encode(events.Note(None, f"said {number}", 0.0)) for number in range(1000)]
    body = json.dumps({"more": [{}] * 60_000, "told": told}).encode()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        head = f"POST /work HTTP/1.1\r\nHost: labd\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        _, writer = await site.line(head + body)
        async with asyncio.timeout(20):
            await site.working.wait()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 1 << 20
    finally:
        tracemalloc.stop()
    writer.close()


@pytest.mark.parametrize(
    "body",
    [
        b'{"more": [' + b"{}," * 250_000 + b"{}]}",
        b'{"more": {' + b",".join(b'"%d":0' % number for number in range(250_000)) + b"}}",
        b'{"more": [' + b'"\\\\",' * 500_000 + b"0]}",
        b'{"hear": [' + b'"host/a",' * 1000 + b'"*"]}',
        b'{"hear": ["' + b"[a-b]" * 10_000 + b'"]}',
        b'{"step": "' + b"s" * 100_000 + b'"}',
    ],
    ids=["objects", "members", "strings", "many subjects", "a long subject", "a long step"],
)
async def test_what_would_take_much_of_labd_is_refused(site: Site, body: bytes) -> None:
    site.end.set()
    status, answer = await site.post(body)
    assert status == 400 and (" at most" in answer or "more than" in answer)
    user_data = json.dumps({"more": '{"a":["b,c\\\\"]},' * 100_000}).encode()
    assert (await site.post(user_data))[0] == 200, "what stands in a string is no value"


async def test_what_labd_works_on_for_the_owner_is_bounded_in_bytes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "MOST_HELD", 1 << 20)
    body = b"{" + b" " * (400 << 10) + b"}"
    head = f"POST /work HTTP/1.1\r\nHost: labd\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    held = [await site.line(head + body) for _ in range(2)]
    async with asyncio.timeout(20):
        for reader, _ in held:
            assert b"200" in await reader.readline()
    status, answer = await site.post(body)
    assert status == 503 and "as much of your requests as it takes" in answer
    site.asker = 0
    site.end.set()
    assert (await site.post(body))[0] == 200, "root's are not counted"
    site.asker = OWNER
    async with asyncio.timeout(20):
        for reader, writer in held:
            await reader.readuntil(b'"result"')
            writer.close()
    assert (await site.post(body))[0] == 200


async def test_root_is_answered_whatever_the_owner_holds_open(site: Site) -> None:
    held = [await site.line(b"POST /work HTTP/1.1\r\nHost: labd") for _ in range(12)]
    site.asker = 0
    assert (await ControlClient(site.socket).look(HEALTH)).pid == 7
    more = [await site.line() for _ in range(12)]
    assert (await ControlClient(site.socket).look(HEALTH)).pid == 7, "root's own are not counted"
    async with asyncio.timeout(10):
        for reader, _ in held:
            try:
                assert await reader.read() == b"", "half a request is not waited for"
            except ConnectionError:
                pass
    for _, writer in (*held, *more):
        writer.close()


async def test_the_owner_is_answered_while_a_connection_that_is_closed_still_ends(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose a closed connection was cannot be asked of the kernel; who came next was never answered."""
    monkeypatch.setattr(control, "peer_uid", PEER_UID)
    assert site.runner is not None and isinstance(site.runner.server, GuardedServer)
    monkeypatch.setattr(site.runner.server, "_who", PEER_UID)  # we may be root, whose connections are not counted
    _, writer = await site.line(b"POST /work HTTP/1.1\r\nHost: labd\r\nContent-Length: 2\r\n\r\n{}")
    async with asyncio.timeout(20):
        await site.working.wait()
        writer.close()
        await site.ending.wait()
        for _ in range(3):
            assert (await ControlClient(site.socket).look(HEALTH)).pid == 7


async def test_a_body_that_never_comes_is_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_BODY_SECONDS", 0.2)
    reader, writer = await site.line(b"POST /work HTTP/1.1\r\nHost: labd\r\nContent-Length: 20\r\n\r\n{")
    async with asyncio.timeout(10):
        assert b"400" in await reader.readline()
    writer.close()


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"[" * 200_000, ()),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, ()),
        (b"{" + b" " * (17 << 20) + b"}", ()),
        (lambda: gzip.compress(b" " * (64 << 20), 1), ("Content-Encoding: gzip",)),
        (b"{}", ("Content-Encoding: br",)),
        (b"\xff\xfe", ()),
    ],
    ids=["deep", "deep objects", "huge", "inflating", "another encoding", "no text"],
)
async def test_what_cannot_be_read_is_refused_in_labds_words(
    site: Site, body: bytes | Callable[[], bytes], headers: tuple[str, ...]
) -> None:
    status, answer = await site.post(body() if callable(body) else body, *headers)
    assert status == 400 and json.loads(answer.partition("\r\n\r\n")[2])["error"]["what"].startswith("labd cannot read")
    site.asker = 0
    assert (await ControlClient(site.socket).look(HEALTH)).pid == 7


async def test_events_for_an_asker_who_does_not_read_are_not_kept_without_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "MOST_LINES", 50)
    body = json.dumps({"hear": ["*"]}).encode()
    head = f"POST /work HTTP/1.1\r\nHost: labd\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    reader, writer = await site.line(head + body)
    async with asyncio.timeout(20):
        await site.working.wait()
    for _ in range(1000):  # in one turn, in which labd can hand over none
        site.bus.tell("disk-low", subject="lab/lab")
    site.end.set()
    async with asyncio.timeout(20):
        lines = (await reader.readuntil(b'"result"')).count(b"disk-low")
    assert lines == 50, "and the result came all the same"
    writer.close()
