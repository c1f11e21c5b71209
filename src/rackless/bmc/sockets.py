"""Where the sockets of BMCs are made: in the network namespace they live in, which need not be the process's own. And which
addresses a BMC asks when somebody tells it to fetch an image or to tell an event."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

import aiohttp

MakeSocket = Callable[[int, int, int], socket.socket]
"""From family, type and protocol; a socket stays in the namespace it was made in, whoever binds or connects it."""

Forbids = Callable[[IPv4Address | IPv6Address], bool]


class Forbidden(OSError):
    """The address is none that a BMC asks."""


def no_site(address: IPv4Address | IPv6Address) -> bool:
    """Nobody's file server is there, but a cloud's keys may be: link-local, multicast, no address at all."""
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_link_local or address.is_multicast or address.is_unspecified


def not_of_a_lab(address: IPv4Address | IPv6Address) -> bool:
    """A lab's own services are at its loopback; they are not for who may talk to a BMC."""
    return no_site(address) or (getattr(address, "ipv4_mapped", None) or address).is_loopback


def connector(
    make: MakeSocket, source: str | None, trust: ssl.SSLContext | bool, forbids: Forbids
) -> aiohttp.TCPConnector:
    """For requests that a BMC makes: from where it lives, from its own address where it has one, and never to a forbidden
    address, whatever name or redirection led there."""

    def make_for(info: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
        address = ip_address(str(info[4][0]).partition("%")[0])
        if forbids(address):
            raise Forbidden(errno.EPERM, f"a BMC makes no request to {address}")
        return make(info[0], info[1], info[2])

    return aiohttp.TCPConnector(ssl=trust, local_addr=(source, 0) if source else None, socket_factory=make_for)
