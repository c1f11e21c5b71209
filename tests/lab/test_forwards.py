"""Forwards as the holder keeps them, on this computer's loopback."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import cast

import pytest

from rackless.lab import forwards as module
from rackless.lab.forwards import DatagramKeeper, Forwards, listed, own, strike
from rackless.plan.exposure import Forward, Protocol
from rackless.run.ledger import Ledger


def listen(family: int, kind: int, address: str, port: int) -> socket.socket:
    made = socket.socket(family, kind)
    try:
        made.bind((address, port))
        if kind == socket.SOCK_STREAM:
            made.listen()
    except OSError:
        made.close()
        raise
    return made


def free_port(kind: int) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def forward(protocol: Protocol, port: int, target_port: int) -> Forward:
    return Forward("bmc", "node-0", protocol, "127.0.0.1", port, "127.0.0.1", target_port, "node-0-bmc.lab.test")


class Shouting(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)
        self.peers: list[object] = []

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.peers.append(addr)
        self.transport.sendto(data.upper(), addr)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_ledger_tells_a_forward_as_it_was_written(tmp_path: Path, address: str) -> None:
    ledger, one = Ledger(tmp_path / "ledger"), Forward("bmc", "a", "udp", address, 9, "10.0.0.1", 623, "a.test")
    own(ledger, one)
    assert listed(ledger) == [one]
    strike(ledger, one)
    assert listed(ledger) == []


async def test_ports_follow_the_ledger(tmp_path: Path) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    ledger, port = Ledger(tmp_path / "ledger"), free_port(socket.SOCK_STREAM)
    forwards = Forwards(ledger, listen)
    one = forward("tcp", port, server.sockets[0].getsockname()[1])
    own(ledger, one)
    for _ in range(2):
        assert await forwards.follow() == module.Followed((one.id,), {})
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.read() == b"hello"
    writer.close()
    assert (await forwards.follow([one.id])).open == ()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    server.close()


async def test_a_port_that_somebody_has_is_told_and_the_others_are_opened(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    forwards = Forwards(ledger, listen)
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        taken, good = forward("tcp", somebody.getsockname()[1], 9), forward("udp", free_port(socket.SOCK_DGRAM), 9)
        own(ledger, taken)
        own(ledger, good)
        done = await forwards.follow()
    assert done.open == (good.id,) and "in use" in done.failed[taken.id]
    assert taken.id in (await forwards.follow()).open, "free now"
    await forwards.close()


async def ask(*texts: bytes, port: int) -> list[bytes]:
    """From one client each, one after the other."""
    loop, heard = asyncio.get_running_loop(), []
    for text in texts:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            client.connect(("127.0.0.1", port))
            client.send(text)
            async with asyncio.timeout(10):
                heard.append(await loop.sock_recv(client, 100))
    return heard


async def test_datagrams_are_answered_to_whom_sent_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CLIENTS", 2)
    transport, shouting = await asyncio.get_running_loop().create_datagram_endpoint(
        Shouting, local_addr=("127.0.0.1", 0)
    )
    listener = listen(socket.AF_INET, socket.SOCK_DGRAM, "127.0.0.1", 0)
    keeper = DatagramKeeper(listener, *transport.get_extra_info("sockname"))
    keeper.start()
    assert await ask(b"a", b"b", b"c", port=listener.getsockname()[1]) == [b"A", b"B", b"C"]
    assert len(set(shouting.peers)) == 3, "each has a socket of its own inside"
    assert len(keeper._clients) == 2, "and no more than so many are kept"
    await keeper.close()
    assert keeper._clients == {}
    transport.close()


async def test_clients_that_say_nothing_are_forgotten() -> None:
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(Shouting, local_addr=("127.0.0.1", 0))
    listener = listen(socket.AF_INET, socket.SOCK_DGRAM, "127.0.0.1", 0)
    keeper = DatagramKeeper(listener, *transport.get_extra_info("sockname"))
    keeper.start()
    await ask(b"a", port=listener.getsockname()[1])
    now = asyncio.get_running_loop().time()
    keeper.forget_silent(now)
    assert len(keeper._clients) == 1
    keeper.forget_silent(now + module.SILENT_SECONDS + 1)
    assert keeper._clients == {}
    await keeper.close()
    transport.close()
