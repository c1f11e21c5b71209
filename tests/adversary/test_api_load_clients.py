"""Clients that are slow, half, many, or do not read: what they hold is let go, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from rackless.api.edge import seen
from rackless.api.kinds.core import CONFIG_MAP
from rackless.api.objects import watching
from rackless.api.process import ApiServer
from rackless.run import pieces
from rackless.run.connections import ClientPatience
from tests.adversary.api_load_attacks import CONFIG_MAPS
from tests.adversary.probe import Turns
from tests.adversary.test_api_load_requests import ordinary
from tests.api.conftest import Client, settings

LONG = 60.0
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def hasty(tmp_path: Path) -> AsyncIterator[Client]:
    """An API that waits for nobody."""
    patience = ClientPatience(handshake=0.3, header=0.3, reading=0.3)
    async with ApiServer(settings(tmp_path, patience=patience)) as api, Client(api.url, tmp_path / "pki") as client:
        client.api = api  # type: ignore[attr-defined]
        yield client


async def connect(client: Client, secure: ssl.SSLContext | None, limit: int = 65536) -> Stream:
    port = int(client.url.rpartition(":")[2])
    return await asyncio.open_connection("127.0.0.1", port, ssl=secure, limit=limit)


async def closed(stream: Stream) -> bytes:
    async with asyncio.timeout(LONG):
        try:
            return await stream[0].read()
        except (ConnectionError, ssl.SSLError):
            return b""
        finally:
            stream[1].close()


async def number(client: Client, name: str) -> float:
    """Of `/metrics`."""
    _, page = await client.get("/metrics")
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name))


async def until(client: Client, name: str, value: float) -> None:
    async with asyncio.timeout(LONG):
        while await number(client, name) != value:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_half_a_header_and_half_a_handshake_are_not_waited_for(hasty: Client) -> None:
    context = hasty.context(certificate=False)
    plain = [await connect(hasty, None) for _ in range(5)]
    half = [await connect(hasty, context) for _ in range(5)]
    for number_of, (_, writer) in enumerate(half):
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\nX-"[: 5 + 8 * number_of])
    assert (await hasty.get("/readyz"))[0] == 200
    assert await asyncio.gather(*map(closed, plain + half)) == [b""] * 10
    assert (await hasty.get("/readyz"))[0] == 200


async def test_a_body_that_never_comes_is_refused_and_its_connection_let_go(
    hasty: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rackless.api.edge.body._WITHIN", 0.3)
    stream = await connect(hasty, hasty.context())
    stream[1].write(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{" % CONFIG_MAPS.encode())
    async with asyncio.timeout(LONG):
        assert b"408" in await stream[0].readline()
    stream[1].close()


async def _large_maps(client: Client, count: int, size: int = 500_000) -> None:
    for each in range(count):
        await client.create(CONFIG_MAPS, {"metadata": {"name": f"m{each}"}, "data": {"a": "x" * size}})


async def test_a_watch_whose_client_does_not_read_is_ended_and_others_go_on(hasty: Client) -> None:
    stream = await connect(hasty, hasty.context(), limit=1024)
    stream[1].write(b"GET %s?watch=1&timeoutSeconds=3600 HTTP/1.1\r\nHost: x\r\n\r\n" % CONFIG_MAPS.encode())
    await stream[0].readline()
    stream[1].transport.pause_reading()  # type: ignore[attr-defined]
    await _large_maps(hasty, 30)
    await until(hasty, "apiserver_registered_watchers", 0)
    assert await number(hasty, "rackless_connections_cut_off_total") == 1
    stream[1].close()


async def test_a_watch_does_not_outlive_its_time_by_not_reading(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rackless.api.edge.stream._GRACE", 0.2)
    await _large_maps(client, 30)
    stream = await connect(client, client.context(), limit=1024)
    stream[1].write(b"GET %s?watch=1&timeoutSeconds=1 HTTP/1.1\r\nHost: x\r\n\r\n" % CONFIG_MAPS.encode())
    await stream[0].readline()
    stream[1].transport.pause_reading()  # type: ignore[attr-defined]
    await until(client, "apiserver_longrunning_requests", 0)
    stream[1].close()


@pytest.mark.parametrize("bound", ["_LONGEST_QUEUE", "_LARGEST_QUEUE"])
async def test_what_waits_for_a_watch_is_bounded_in_number_and_bytes(
    client: Client, api: ApiServer, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(watching, bound, {"_LONGEST_QUEUE": 10, "_LARGEST_QUEUE": 1_000_000}[bound])
    assert api.objects
    watcher, stop = await api.objects.hub.watch(CONFIG_MAP.bucket, watching.Filter(), api.objects.store.revision)
    await _large_maps(client, 20, 100_000 if bound == "_LARGEST_QUEUE" else 10)
    assert watcher.overrun and not watcher.queue
    with pytest.raises(watching.Overrun):
        await watcher.batch(1)
    stop()


async def test_a_watch_that_was_overrun_is_told_to_list_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_LONGEST_QUEUE", 0)
    assert client.session
    async with client.session.get(client.url + CONFIG_MAPS, params={"watch": "1", "resourceVersion": "0"}) as response:
        await _large_maps(client, 1, 10)
        async with asyncio.timeout(LONG):
            assert b'"code":410' in await response.content.readline()
            assert await response.content.read() == b""
    assert await number(client, "rackless_watch_overruns_total") == 1


async def test_so_many_requests_at_once_and_then_come_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "MOST_WRITING", 3)
    streams = [await connect(client, client.context()) for _ in range(5)]
    for _, writer in streams:
        writer.write(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n" % CONFIG_MAPS.encode())
    await until(client, "apiserver_dropped_requests_total", 2)
    assert (await client.get(CONFIG_MAPS))[0] == 200, "reading is counted apart"
    code, answer = await client.call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (code, answer["reason"]) == (429, "TooManyRequests") and client.headers["Retry-After"] == "1"
    for _, writer in streams:
        writer.close()
    await until(client, "apiserver_current_inflight_requests", 0)
    await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})


async def test_a_hundred_pipelined_requests_are_answered_one_after_the_other(client: Client) -> None:
    stream = await connect(client, client.context())
    stream[1].write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
    for _ in range(100):
        async with asyncio.timeout(LONG):
            await stream[0].readuntil(b"\r\n\r\nok")
    stream[1].close()


@pytest.mark.parametrize(
    "sent",
    [
        b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % CONFIG_MAPS.encode()
        + b"1\r\n \r\n" * 200_000,
        b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000,
    ],
    ids=["chunks of one byte", "pipelined"],
)
async def test_small_things_by_the_thousand_are_read_a_few_at_a_time(client: Client, sent: bytes) -> None:
    """Of a stranger, who is asked for nothing yet. What it costs it costs again: the computer's own pauses are no answer."""
    usual = await ordinary(client)
    longest = []
    for _ in range(3):
        async with Turns() as turns:
            reader, writer = await connect(client, client.context(certificate=False))
            writer.write(sent)
            async with asyncio.timeout(LONG):
                with suppress(ConnectionError):
                    assert await reader.readline() in (b"HTTP/1.1 403 Forbidden\r\n", b"HTTP/1.1 200 OK\r\n")
                    await asyncio.wait_for(reader.read(1 << 20), 1)
            writer.close()
        longest.append(turns.longest)
        if turns.longest <= 60 * usual:
            break
    assert min(longest) <= 60 * usual, f"{longest} s against {usual:.4f} s"


async def test_what_is_read_in_pieces_is_what_was_sent(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 50)
    text = "".join(f"{number}," for number in range(6_000))
    await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"a": text}})
    code, found = await client.get(f"{CONFIG_MAPS}/a")
    assert code == 200 and found["data"]["a"] == text
    stream = await connect(client, client.context())
    many = b"".join(
        b"GET /readyz/%d HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(300)
    )
    stream[1].write(many)
    async with asyncio.timeout(LONG):
        for _ in range(100):
            assert b" 404 " in await stream[0].readuntil(b"\r\n\r\n404 page not found\n")
            assert b" 200 " in await stream[0].readuntil(b"\r\n\r\nok")
    stream[1].close()
    _, writer = await connect(client, client.context())
    writer.write(many)
    await writer.drain()
    writer.transport.abort()  # in the middle of it
    assert (await client.get("/readyz"))[0] == 200


@pytest.mark.parametrize(
    "header", [b"X: " + b"a" * 20_000, b"\r\n".join(b"X%d: a" % n for n in range(500))], ids=["long", "many"]
)
async def test_headers_are_bounded(client: Client, header: bytes) -> None:
    stream = await connect(client, client.context())
    stream[1].write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n")
    async with asyncio.timeout(LONG):
        assert b"400" in await stream[0].readline()
    stream[1].close()
    assert (await client.get("/readyz"))[0] == 200


async def test_heavy_callers_take_turns(client: Client) -> None:
    """Whoever sends many heavy requests waits for their own; somebody else's is the next but one."""
    from rackless.api.offload import SMALL, Offload

    offload, order = Offload(threads=1), list[str]()
    await asyncio.gather(
        *(offload.run("greedy", SMALL + 1, lambda: order.append("greedy")) for _ in range(10)),
        *(offload.run("modest", SMALL + 1, lambda: order.append("modest")) for _ in range(2)),
    )
    await offload.close()
    assert order.index("modest") <= 2 and sorted(order)[:10] == ["greedy"] * 10
