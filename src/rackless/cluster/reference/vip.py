"""Who holds the API VIP, and whether the API answers there: everybody on the network is asked, all answers count.

An address that is handed on by adverts may, when those do not arrive, be held by two at once; a client then reaches now
this one, now that one. So the question is asked on the wire (ARP), and the answers of a short while are all collected.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

import aiohttp

from rackless.cluster.install_config.live.neighbours import answer, arp_probe
from rackless.cluster.reference.front import API_PORT
from rackless.events import count
from rackless.plan.model import LabPlan
from rackless.spec.address import Ip

PATIENCE = 10.0
ASK_TWICE, LISTEN = 2, 0.3
"""How often is asked, and how many seconds are listened after each question."""
_ETH_ARP = 0x0806


@dataclass(frozen=True, slots=True)
class Vip:
    address: Ip
    holders: tuple[str, ...] = ()
    """Names of servers; a MAC where it is none of them. One, when all is well."""
    problem: str = ""
    """Why the API does not answer there; empty when it says that it is ready."""

    @property
    def holder(self) -> str | None:
        return self.holders[0] if len(self.holders) == 1 else None

    @property
    def ready(self) -> bool:
        return self.holder is not None and not self.problem

    def describe(self) -> str:
        match self.holders:
            case ():
                return f"{self.address} is held by nobody"
            case (only,):
                held = f"{self.address} is held by {only}"
            case several:
                held = f"{self.address} is held by {count(len(several), 'node')} at once: {', '.join(several)}"
        return f"{held}; the API there: {self.problem or 'ready'}"


async def observe(plan: LabPlan, tls: ssl.SSLContext) -> Vip:
    """Ask on the cluster network, of which this process must be part."""
    names = {nic.mac.lower(): server.name for server in plan.servers for nic in server.nics}
    holders = holders_of(await ask_all(plan.api_vip, plan.cluster.bridge), names)
    return Vip(plan.api_vip, holders, await ask_api(plan.api_vip, tls) if holders else "no answer")


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
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_ARP)) as handle:
        handle.bind((interface, _ETH_ARP))
        handle.setblocking(False)
        own: bytes = handle.getsockname()[4]
        for _ in range(ASK_TWICE):
            await asyncio.get_running_loop().sock_sendall(handle, arp_probe(IPv4Address(address), own))
            await _collect(handle, address, found)
    return found


async def _collect(handle: socket.socket, address: Ip, found: set[str]) -> None:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LISTEN):
            while True:
                if mac := answer(await loop.sock_recv(handle, 2048), address):
                    found.add(mac)
    except TimeoutError:
        return
