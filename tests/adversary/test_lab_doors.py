"""At the ports of a lab on this computer's side anybody on it can knock: connections that are held open keep nobody else out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from rackless.lab import api_forward
from rackless.lab.api_forward import Doorkeeper

Place = tuple[str, int]


@pytest.fixture
async def door() -> AsyncIterator[Place]:
    """Before an API that answers each line with one, and closes its side when it reads `bye`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (line := await reader.readline()) and line != b"bye\n":
            writer.write(line.upper())
        writer.write_eof()
        await reader.read()  # until the client has gone, too
        writer.close()

    api = await asyncio.start_server(answer, "127.0.0.1", 0)
    listener = socket.create_server(("127.0.0.1", 0))
    place = listener.getsockname()
    keeper = Doorkeeper(listener, *api.sockets[0].getsockname())
    keeper.start()
    yield place
    await keeper.close()
    api.close()


async def test_connections_that_are_held_open_in_silence_make_room(
    door: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_forward, "MOST", 4)
    held = [await asyncio.open_connection(*door) for _ in range(4)]
    for reader, writer in held:
        writer.write(b"one\n")
        assert await reader.readline() == b"ONE\n"
    reader, writer = await asyncio.open_connection(*door)
    async with asyncio.timeout(10):
        writer.write(b"me\n")
        assert await reader.readline() == b"ME\n"
        assert await held[0][0].read() == b"", "the one that was silent longest"
        held[1][1].write(b"two\n")
        assert await held[1][0].readline() == b"TWO\n", "and no other"
    for _, each in (*held, (reader, writer)):
        each.close()


async def test_a_client_that_stays_after_the_api_has_closed_is_let_go(
    door: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_forward, "LINGER_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection(*door)
    writer.write(b"bye\n")
    async with asyncio.timeout(10):
        assert await reader.read() == b""
        with pytest.raises(ConnectionError):
            while True:
                writer.write(b"still here\n")
                await writer.drain()
                await asyncio.sleep(0.05)
    writer.close()
