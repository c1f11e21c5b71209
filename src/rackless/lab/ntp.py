"""The time, for the lab's servers: SNTP (RFC 4330) from the hypervisor's own clock, at the gateway's address."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from typing import cast

PORT = 123
_TO_1900 = 2_208_988_800
_PACKET = struct.Struct("!BBbbII4sQQQQ")
STRATUM = 3
_FREEBIND = 15
MakeSocket = Callable[[int, int, int], socket.socket]


def answer(request: bytes, received: float, now: float) -> bytes | None:
    """The reply to a client's packet; None for what is not a client's question."""
    if len(request) < _PACKET.size:
        return None
    first, _, poll, *_, transmitted = _PACKET.unpack_from(request)
    version, mode = first >> 3 & 7, first & 7
    if mode != 3 or not 1 <= version <= 4:
        return None
    stamps = (_stamp(received), transmitted, _stamp(received), _stamp(now))
    return _PACKET.pack(version << 3 | 4, STRATUM, poll, -20, 0, 1 << 8, b"LOCL", *stamps)


def _stamp(seconds: float) -> int:
    return int((seconds + _TO_1900) * (1 << 32)) & ((1 << 64) - 1)


class _Protocol(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        reply = answer(data, time.time(), time.time())
        if reply is not None:
            self._transport.sendto(reply, addr)


class TimeServer:
    def __init__(self, address: str, port: int = PORT, *, sockets: MakeSocket = socket.socket) -> None:
        self._address = address
        self._port = port
        self._sockets = sockets
        self._transport: asyncio.DatagramTransport | None = None

    @property
    def running(self) -> bool:
        return self._transport is not None

    async def start(self) -> bool:
        """False when it was already running."""
        if self._transport is not None:
            return False
        listener = self._sockets(socket.AF_INET, socket.SOCK_DGRAM, 0)
        # the bridge may be made anew under us; the address comes back
        listener.setsockopt(socket.SOL_IP, _FREEBIND, 1)
        listener.bind((self._address, self._port))
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(_Protocol, sock=listener)
        return True

    def stop(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None
