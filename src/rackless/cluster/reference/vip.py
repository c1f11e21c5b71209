"""Who holds the API VIP: everybody on the network is asked, and all who answer are counted.

An address that is handed on by adverts may, when those do not arrive, be held by two at once; a client then reaches now
this one, now that one. So the question is asked on the wire (ARP), and the answers of a short while are all collected.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

from rackless.cluster.install_config.live.neighbours import answer, arp_probe
from rackless.events import count
from rackless.plan.model import LabPlan

ASK_TWICE, LISTEN = 2, 0.4
"""How often is asked, and how many seconds are listened after each question."""
_ETH_ARP = 0x0806


@dataclass(frozen=True, slots=True)
class Vip:
    address: IPv4Address
    holders: tuple[str, ...] = ()
    """Names of servers; a MAC where it is none of them. One, when all is well."""
    problem: str = ""
    """Why nobody could be asked."""

    @property
    def holder(self) -> str | None:
        return self.holders[0] if len(self.holders) == 1 else None

    def describe(self) -> str:
        if self.problem:
            return f"{self.address} could not be asked for: {self.problem}"
        match self.holders:
            case ():
                return f"{self.address} is held by nobody"
            case (only,):
                return f"{self.address} is held by {only}"
            case several:
                return f"{self.address} is held by {count(len(several), 'node')} at once: {', '.join(several)}"


async def observe(plan: LabPlan) -> Vip:
    """Ask on the cluster network, of which this process must be part."""
    names = {nic.mac.lower(): server.name for server in plan.servers for nic in server.nics}
    try:
        found = await ask_all(plan.api_vip, plan.cluster.bridge)
    except OSError as error:
        return Vip(plan.api_vip, problem=str(error))
    return Vip(plan.api_vip, holders_of(found, names))


def holders_of(macs: set[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """A server that answers with two of its NICs is still one holder."""
    return tuple(sorted({names.get(mac, mac) for mac in macs}))


async def ask_all(address: IPv4Address, interface: str) -> set[str]:
    """The MACs of all who answer for the address."""
    found: set[str] = set()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_ARP)) as handle:
        handle.bind((interface, _ETH_ARP))
        handle.setblocking(False)
        own: bytes = handle.getsockname()[4]
        for _ in range(ASK_TWICE):
            await asyncio.get_running_loop().sock_sendall(handle, arp_probe(address, own))
            await _collect(handle, address, found)
    return found


async def _collect(handle: socket.socket, address: IPv4Address, found: set[str]) -> None:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LISTEN):
            while True:
                if mac := answer(await loop.sock_recv(handle, 2048), address):
                    found.add(mac)
    except TimeoutError:
        return
