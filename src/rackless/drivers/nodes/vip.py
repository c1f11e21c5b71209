"""Which server holds the API VIP, by ARP, and whether the API answers there.

A stranger may have the address too, and a client then reaches now one, now the other. So an ARP request is sent on the network, and
all answers within a short time are collected.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping

import aiohttp

from rackless.drivers.nodes.arp import ETHERTYPE, answer, probe
from rackless.ports.nodes import Vip
from rackless.spec.address import Ip

API_PORT = 6443

PATIENCE = 10.0
QUESTIONS, APART, LISTEN = 2, 0.1, 0.3
"""How often is asked, how many seconds apart, and for how many seconds answers are collected after the last question."""


async def observe(address: Ip, bridge: str, names: Mapping[str, str], tls: ssl.SSLContext) -> Vip:
    """Ask on the cluster network, of which this process must be part."""
    asking = asyncio.create_task(ask_api(address, tls))
    try:
        holders = holders_of(await ask_all(address, bridge), names)
        return Vip(address, holders, await asking if holders else "no answer")
    finally:
        asking.cancel()  # where nobody holds the address, a connection would be tried for seconds


async def ask_api(address: Ip, tls: ssl.SSLContext) -> str:
    """Why it is not ready; empty when it is."""
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), timeout=timeout) as session:
            async with session.get(f"https://{address}:{API_PORT}/readyz") as answer:
                text = await answer.text()
                return "" if answer.status == 200 else f"not ready ({text.strip()[:200]})"
    except TimeoutError:
        return "no answer in time"
    except (aiohttp.ClientError, OSError) as error:
        return f"no answer ({error})"


def holders_of(macs: set[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """A server that answers with two of its NICs is still one holder."""
    return tuple(sorted({names.get(mac, mac) for mac in macs}))


async def ask_all(address: Ip, interface: str) -> set[str]:
    """The MACs of all who answer for the address; none where there is no such network."""
    found: set[str] = set()
    if address.version != 4 or interface not in {name for _, name in socket.if_nameindex()}:
        return found
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE)) as handle:
        handle.bind((interface, ETHERTYPE))
        handle.setblocking(False)
        own: bytes = handle.getsockname()[4]
        for question in range(QUESTIONS):
            await asyncio.get_running_loop().sock_sendall(handle, probe(address, own))
            await _collect(handle, address, found, LISTEN if question == QUESTIONS - 1 else APART)
    return found


async def _collect(handle: socket.socket, address: Ip, found: set[str], seconds: float) -> None:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            while True:
                if mac := answer(await loop.sock_recv(handle, 2048), address):
                    found.add(mac)
    except TimeoutError:
        return
