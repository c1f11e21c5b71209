"""Where the sockets of BMCs are made: in the network namespace they live in, which need not be the process's own."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

import aiohttp

MakeSocket = Callable[[int, int, int], socket.socket]
"""From family, type and protocol; a socket stays in the namespace it was made in, whoever binds or connects it."""


def connector(make: MakeSocket, source: str | None, trust: ssl.SSLContext | bool) -> aiohttp.TCPConnector:
    """For requests that a BMC makes: from where it lives, and from its own address where it has one."""
    return aiohttp.TCPConnector(
        ssl=trust,
        local_addr=(source, 0) if source else None,
        socket_factory=lambda info: make(info[0], info[1], info[2]),
    )
