"""Port forwards from the hypervisor's loopback to the Kubernetes APIs inside a lab ("doors").

One leads to the lab's own API, one to the cluster's, where there are control planes. The holder opens the ports before
it enters the lab's network namespace and keeps them as long as it lives, so they outlast restarts of labd and of the
APIs, and go with the lab. Bytes are passed on as they are: TLS, and who may do what, is
between the client and the API. A port is remembered, so that a kubeconfig stays good.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rackless.run.files import write
from rackless.run.paths import LabPaths

API_PORT = 6443
"""Of the lab's API on the gateway's address, and of the cluster's at its VIP."""
LOOPBACK = "127.0.0.1"
FIRST_PORT = 16443
"""Below what the kernel gives to outgoing connections, so that nobody has it by chance when the lab comes back."""
PORTS = range(FIRST_PORT, FIRST_PORT + 1000)
MOST = 512
"""Connections at once: any user of the hypervisor can connect, and the holder has other duties. When there are more, the one that
was idle longest is closed, so nobody can keep others out by holding connections open."""
LINGER_SECONDS = 30.0
"""Seconds for a client to close its connection after the API has closed its side."""
_PIECE = 65536
MakeSocket = Callable[[int, int, int], socket.socket]


def open_door(paths: LabPaths, record: Path, make: MakeSocket = socket.socket) -> socket.socket | None:
    """Listen on the port that the lab had before, else on the first port that no lab has. None when all are taken."""
    mine = read_port(record)
    others = {read_port(door) for name in paths.roots.labs() for door in LabPaths(paths.roots, name).doors}
    free = (port for port in PORTS if port not in others)
    for port in [*([mine] if mine else []), *free]:
        listener = make(socket.AF_INET, socket.SOCK_STREAM, 0)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
            listener.listen(128)
        except OSError:
            listener.close()
            continue
        write(record, str(port))
        return listener
    record.unlink(missing_ok=True)
    return None


def read_port(record: Path) -> int | None:
    """The port on the hypervisor's loopback that is written there."""
    with suppress(FileNotFoundError, ValueError):
        return int(record.read_text())
    return None


def host_url(record: Path) -> str | None:
    """The URL of the API on the hypervisor's loopback."""
    port = read_port(record)
    return f"https://{LOOPBACK}:{port}" if port is not None else None


class Doorkeeper:
    """Accepts connections and forwards them to `address`, until closed."""

    def __init__(self, listener: socket.socket, address: str, port: int) -> None:
        self._listener = listener
        self._target = address, port
        self._guests: dict[asyncio.Task[None], Passage] = {}
        self._listening: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._listener.setblocking(False)
        self._listening = asyncio.create_task(self._listen(), name="door")

    async def close(self) -> None:
        tasks = [task for task in (self._listening, *self._guests) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                guest, _ = await loop.sock_accept(self._listener)
            except OSError:  # out of file descriptors: connections that are open will end
                await asyncio.sleep(0.2)
                continue
            if len(self._guests) >= MOST:
                silent = min(self._guests, key=lambda task: self._guests[task].last)
                silent.cancel()
                del self._guests[silent]
            passage = Passage(loop.time())
            task = asyncio.create_task(self._lead(guest, passage))
            self._guests[task] = passage
            task.add_done_callback(lambda task: self._guests.pop(task, None))

    async def _lead(self, guest: socket.socket, passage: Passage) -> None:
        """Pass on one connection; when the API does not answer, close it: clients try again."""
        loop = asyncio.get_running_loop()
        with guest, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as inner:
            guest.setblocking(False)
            inner.setblocking(False)
            for end in (guest, inner):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(10):
                    await loop.sock_connect(inner, self._target)
                asks = asyncio.create_task(passage.carry(guest, inner))
                answers = asyncio.create_task(passage.carry(inner, guest))
                try:
                    await asyncio.wait([asks, answers], return_when=asyncio.FIRST_COMPLETED)
                    if asks.done():
                        asks.result()
                        await answers
                    else:
                        answers.result()
                        await asyncio.wait([asks], timeout=LINGER_SECONDS)
                finally:
                    for way in (asks, answers):
                        way.cancel()
                    await asyncio.gather(asks, answers, return_exceptions=True)


@dataclass
class Passage:
    last: float
    """When bytes were last forwarded, by the loop's clock."""

    async def carry(self, source: socket.socket, target: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while piece := await loop.sock_recv(source, _PIECE):
            self.last = loop.time()
            await loop.sock_sendall(target, piece)
        target.shutdown(socket.SHUT_WR)
