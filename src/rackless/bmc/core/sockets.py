"""Opens the sockets of BMCs in their network namespace, which need not be the process's own; and says which addresses a BMC
may connect to when a client gives it the URL of an image or of an event receiver.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

MakeSocket = Callable[[int, int, int], socket.socket]
"""From family, type and protocol; a socket stays in the namespace it was made in, whoever binds or connects it."""

_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")

Forbids = Callable[[IPv4Address | IPv6Address], bool]


class Forbidden(OSError):
    """The address is none that a BMC asks."""


def no_site(address: IPv4Address | IPv6Address) -> bool:
    """BMCs refuse link-local addresses, where a cloud's metadata service may answer, multicast, and no address at all."""
    address = plain(address)
    return address.is_link_local or address.is_multicast or address.is_unspecified


def not_of_a_lab(address: IPv4Address | IPv6Address) -> bool:
    """A lab's own services listen on its loopback; users of a BMC must not reach them through it."""
    return no_site(address) or plain(address).is_loopback


def plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """IPv6 has several ways to write an IPv4 address, and a kernel or a gateway that follows them."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour or address
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 0xFFFF):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


class Names(AbstractResolver):
    """Looks up names in threads of its own: one whose name server never answers keeps a thread for half a minute, and the loop's
    own threads have other things to do."""

    def __init__(self, threads: int = 8, seconds: float = 10.0) -> None:
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="bmc-names")
        self._seconds = seconds

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._seconds):
                found = await loop.run_in_executor(
                    self._threads, lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
                )
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, f"nobody says where {host} is") from None
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


async def leads_astray(host: str, names: Names, forbids: Forbids) -> bool:
    """Whether a request to this host could meet a forbidden address. A name nobody knows yet is no reason to say so: when a
    connection is made its address is looked at again."""
    with suppress(ValueError):
        return forbids(ip_address(host.partition("%")[0]))
    try:
        found = await names.resolve(host)
    except (OSError, UnicodeError):
        return False
    return any(forbids(ip_address(one["host"].partition("%")[0])) for one in found)


def connector(
    make: MakeSocket,
    source: str | None,
    trust: ssl.SSLContext | bool,
    forbids: Forbids,
    names: Names | None = None,
) -> aiohttp.TCPConnector:
    """For requests that a BMC makes: from where it lives, from its own address where it has one, and never to a forbidden
    address, whatever name or redirection led there."""

    def make_for(info: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
        address = ip_address(str(info[4][0]).partition("%")[0])
        if forbids(address):
            raise Forbidden(errno.EPERM, f"a BMC makes no request to {address}")
        return make(info[0], info[1], info[2])

    return aiohttp.TCPConnector(
        ssl=trust, local_addr=(source, 0) if source else None, socket_factory=make_for, resolver=names
    )
