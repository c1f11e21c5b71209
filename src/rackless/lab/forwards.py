"""Port forwards of `rackless expose` from the hypervisor into a lab, as its ledger lists them. The holder keeps them open, so
they outlast labd.

TCP goes through a `Doorkeeper`. UDP has no connections: each client that sends a datagram gets a socket of its own inside, whose
replies are sent back to it, until it was silent for a while.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from rackless.lab.api_forward import Doorkeeper
from rackless.plan.exposure import Forward, Protocol, What
from rackless.run.ledger import Ledger, LedgerEntry

KIND = "forward"
"""What forwards are called in a ledger."""
MOST_CLIENTS = 256
"""Of one UDP port. The one that was silent longest makes room for a new one."""
SILENT_SECONDS = 300.0
"""After which a UDP client is forgotten: five times what an IPMI session lives without a word."""
_LARGEST = 65536
_AT_ONCE = 32
Client = tuple[Any, ...]
"""The address and the port of one who sends datagrams."""
Listen = Callable[[int, int, str, int], socket.socket]
"""From family, type, address and port: a socket on the hypervisor's side. Raises OSError."""


@dataclass(frozen=True, slots=True)
class FollowLedger:
    """A request to the holder: open the forwards that the ledger lists and that are not open, and close those that it does not
    list, or that are named here."""

    close: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Followed:
    open: tuple[str, ...]
    failed: dict[str, str]
    """Why a port could not be opened, by its forward."""


def listed(ledger: Ledger) -> list[Forward]:
    return [_read(entry) for entry in ledger.entries() if entry.kind == KIND]


def own(ledger: Ledger, forward: Forward) -> None:
    detail = {"what": forward.what, "name": forward.name, "host": forward.host}
    ledger.own(KIND, forward.id, target=f"{forward.target}:{forward.target_port}", **detail)


def strike(ledger: Ledger, forward: Forward) -> None:
    ledger.strike(LedgerEntry(KIND, forward.id))


def _read(entry: LedgerEntry) -> Forward:
    protocol, _, place = entry.id.partition("/")
    address, _, port = place.rpartition(":")
    target, _, target_port = entry.detail["target"].rpartition(":")
    return Forward(
        cast(What, entry.detail["what"]),
        entry.detail["name"],
        cast(Protocol, protocol),
        address.strip("[]"),
        int(port),
        target,
        int(target_port),
        entry.detail.get("host", ""),
    )


class Forwards:
    def __init__(self, ledger: Ledger, listen: Listen) -> None:
        self._ledger = ledger
        self._listen = listen
        self._open: dict[str, tuple[Forward, Doorkeeper | DatagramKeeper]] = {}

    async def follow(self, close: Collection[str] = ()) -> Followed:
        wanted = {one.id: one for one in listed(self._ledger) if one.id not in close}
        for id in [id for id, (one, _) in self._open.items() if wanted.get(id) != one]:
            await self._open.pop(id)[1].close()
        failed: dict[str, str] = {}
        for id, one in wanted.items():
            if id not in self._open:
                try:
                    keeper = self._keeper(one)
                except OSError as error:
                    failed[id] = error.strerror or str(error)
                    continue
                keeper.start()
                self._open[id] = one, keeper
        return Followed(tuple(self._open), failed)

    async def close(self) -> None:
        for _, keeper in self._open.values():
            await keeper.close()
        self._open.clear()

    def _keeper(self, one: Forward) -> Doorkeeper | DatagramKeeper:
        family = socket.AF_INET6 if ":" in one.address else socket.AF_INET
        kind = socket.SOCK_STREAM if one.protocol == "tcp" else socket.SOCK_DGRAM
        listener = self._listen(family, kind, one.address, one.port)
        make = Doorkeeper if one.protocol == "tcp" else DatagramKeeper
        return make(listener, one.target, one.target_port)


class DatagramKeeper:
    """Forwards datagrams to `address`, and replies to the client that they are for, until closed."""

    def __init__(
        self,
        listener: socket.socket,
        address: str,
        port: int,
        make: Callable[[int, int], socket.socket] = socket.socket,
    ) -> None:
        self._listener = listener
        self._target = address, port
        self._make = make
        self._clients: dict[Client, tuple[socket.socket, float]] = {}
        """The socket inside of each, and when it last said something; the one that was silent longest comes first."""
        self._sweeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener, self._heard)
        self._sweeping = asyncio.create_task(self._sweep(), name="forgotten UDP clients")

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        for client in list(self._clients):
            self._forget(client)
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()

    def forget_silent(self, now: float) -> None:
        for client in [one for one, (_, last) in self._clients.items() if now - last > SILENT_SECONDS]:
            self._forget(client)

    def _heard(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                data, client = self._listener.recvfrom(_LARGEST)
            except OSError:  # nothing more, or a client that is gone
                return
            with suppress(OSError):  # a datagram may be lost, and clients say it again
                self._inner(client).send(data)

    def _inner(self, client: Client) -> socket.socket:
        known = self._clients.pop(client, None)
        if known is None:
            if len(self._clients) >= MOST_CLIENTS:
                self._forget(next(iter(self._clients)))
            inner = self._make(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                inner.setblocking(False)
                inner.connect(self._target)
            except OSError:
                inner.close()
                raise
            asyncio.get_running_loop().add_reader(inner, self._answered, inner, client)
        else:
            inner = known[0]
        self._clients[client] = inner, asyncio.get_running_loop().time()
        return inner

    def _answered(self, inner: socket.socket, client: Client) -> None:
        for _ in range(_AT_ONCE):
            try:
                data = inner.recv(_LARGEST)
            except OSError:  # nothing more, or nobody listens inside at the moment
                return
            with suppress(OSError):
                self._listener.sendto(data, client)

    def _forget(self, client: Client) -> None:
        inner, _ = self._clients.pop(client)
        asyncio.get_running_loop().remove_reader(inner)
        inner.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SILENT_SECONDS / 2)
            self.forget_silent(asyncio.get_running_loop().time())
