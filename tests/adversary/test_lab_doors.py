"""At the ports of a lab on this computer's side anybody on it can knock: connections that are held open keep nobody else out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from rackless.bmc.ipmi.suites import SUITES
from rackless.lab import api_forward, forwards
from rackless.lab.api_forward import Doorkeeper
from rackless.lab.forwards import DatagramKeeper
from tests.adversary.bmc_host import bmc_host
from tests.bmc.conftest import ADMIN
from tests.bmc.ipmi.client import Client as IpmiClient

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


class Line:
    """What an IPMI client says and hears at a port of this computer."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)

    def say(self, datagram: bytes, peer: object = None) -> None:
        self.socket.send(datagram)

    async def hear(self, within: float = 30.0) -> bytes:
        async with asyncio.timeout(within):
            return await asyncio.get_running_loop().sock_recv(self.socket, 2048)


async def test_ipmi_sessions_at_an_exposed_port_are_kept_apart_and_outlive_a_flood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forwards, "MOST_CLIENTS", 4)
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with bmc_host(1) as host:
        keeper = DatagramKeeper(listener, host.addresses[0], host.ipmi_port)
        keeper.start()
        lines = [Line(port) for _ in range(2)]
        clients = [IpmiClient(cast(Any, line), SUITES[17], console=1000 + number) for number, line in enumerate(lines)]
        for client in clients:
            await client.login(ADMIN.username, ADMIN.password)
            await client.as_(4)
        assert clients[0].session != clients[1].session
        strangers = [Line(port) for _ in range(20)]
        for stranger in strangers:  # each has a place of its own, and there are four
            stranger.say(b"\x06\x00\xff\x06\x00\x00\x11\xbe\x80\x00\x00\x00")
            assert (await stranger.hear())[:4] == b"\x06\x00\xff\x06", "a pong"
        for client in clients:
            assert await client.get(0x06, 0x01), "a session is known by its keys, not by where it comes from"
        await clients[0].get(0x00, 0x02, b"\x01")
        assert (await clients[1].get(0x00, 0x01))[0] & 1, "what one switched on the other sees"
        for line in (*lines, *strangers):
            line.socket.close()
        await keeper.close()
