"""A UDP socket in the event loop, for small datagrams.

asyncio's own allocates 256 KiB before every datagram, which costs more than everything IPMI does with it. A datagram that
the kernel does not take at once is lost; the client repeats its request.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

from rackless.bmc.core.sockets import MakeSocket

_LARGEST = 2048
_AT_ONCE = 32
"""Datagrams read before others get their turn."""


class UdpTransport(asyncio.DatagramTransport):
    def __init__(
        self, address: str, port: int, protocol: asyncio.DatagramProtocol, make: MakeSocket = socket.socket
    ) -> None:
        super().__init__()
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = make(family, socket.SOCK_DGRAM, 0)
        try:
            self._socket.setblocking(False)
            self._socket.bind((address, port))
        except BaseException:
            self._socket.close()
            raise
        self._loop.add_reader(self._socket, self._readable)
        protocol.connection_made(self)

    def sendto(self, data: Any, addr: Any = None) -> None:
        with suppress(OSError):
            self._socket.sendto(data, addr)

    def close(self) -> None:
        if not self.is_closing():
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def is_closing(self) -> bool:
        return self._socket.fileno() < 0

    def _readable(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                datagram, peer = self._socket.recvfrom(_LARGEST)
            except OSError:  # nothing more, or a client that went away
                return
            self._protocol.datagram_received(datagram, peer)
            if self.is_closing():
                return
