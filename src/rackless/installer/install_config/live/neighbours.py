"""Does somebody answer for an address already? ARP probes and neighbour solicitations that leave no trace.

The ARP probe has the sender address 0.0.0.0 (RFC 5227), the solicitation the unspecified source (RFC 4862): nobody
learns a mapping from them.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from ipaddress import IPv4Address, IPv6Address

from rackless.installer.install_config.config import METAL, Config
from rackless.installer.install_config.live import interfaces
from rackless.installer.install_config.live.interfaces import Interface
from rackless.installer.install_config.live.probe import Probe, failed, ok, unknown
from rackless.installer.install_config.values import Address, parse_ip

_ETH_ARP, _ETH_IPV6, _ETH_ALL = 0x0806, 0x86DD, 0x0003
_TRIES, _PAUSE = 3, 0.4


async def observe(config: Config, known: tuple[Interface, ...] | None = None) -> list[Probe]:
    metal = config.metal
    if metal is None or metal.user_managed:
        return []  # then somebody must answer
    known = interfaces.observe() if known is None else known
    wanted = [(vip, "API VIP", f"{METAL}.apiVIPs") for vip in metal.api_vips]
    wanted += [(vip, "ingress VIP", f"{METAL}.ingressVIPs") for vip in metal.ingress_vips]
    if metal.static_ip:
        wanted.append((metal.static_ip, "bootstrap address", f"{METAL}.bootstrapExternalStaticIP"))
    probes = [
        _one(address, what, path, metal.external_bridge, known)
        for text, what, path in wanted
        if (address := parse_ip(text))
    ]
    return list(await asyncio.gather(*probes))


async def _one(address: Address, what: str, path: str, bridge: str, known: tuple[Interface, ...]) -> Probe:
    subject = f"{what} {address} is free"
    link = interfaces.facing(address, bridge, known)
    if link is None:
        return unknown(
            subject,
            "looked for an interface in its network",
            "there is none on this computer",
            "run this on the provisioning host",
            path,
        )
    kind = "ARP" if address.version == 4 else "neighbour solicitation"
    did = f"sent {_TRIES} {kind} probes on {link.name}"
    if link.has(address):
        return failed(
            subject, f"looked at {link.name}", "this computer itself has the address", "choose another address", path
        )
    try:
        holder = await ask(address, link)
    except PermissionError:
        return unknown(subject, did, "raw sockets need root", "run it as root", path)
    except OSError as error:
        return unknown(subject, did, str(error), "", path)
    if holder:
        return failed(subject, did, f"{holder} answers for it", "choose another address, or free this one", path)
    return ok(subject, did, "nobody answers", path)


async def ask(address: Address, link: Interface) -> str:
    """The MAC of who answers, '' where nobody does."""
    kind = _ETH_ARP if isinstance(address, IPv4Address) else _ETH_IPV6
    frame = arp_probe(address, link.mac) if isinstance(address, IPv4Address) else solicitation(address, link.mac)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(kind)) as handle:
        handle.bind((link.name, kind))
        handle.setblocking(False)
        loop = asyncio.get_running_loop()
        for _ in range(_TRIES):
            await loop.sock_sendall(handle, frame)
            try:
                async with asyncio.timeout(_PAUSE):
                    while True:
                        holder = answer(await loop.sock_recv(handle, 2048), address)
                        if holder:
                            return holder
            except TimeoutError:
                continue
    return ""


def arp_probe(address: IPv4Address, mac: bytes) -> bytes:
    ethernet = b"\xff" * 6 + mac + struct.pack("!H", _ETH_ARP)
    return ethernet + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac + b"\0" * 4 + b"\0" * 6 + address.packed


def solicitation(address: IPv6Address, mac: bytes) -> bytes:
    group = bytes.fromhex("ff0200000000000000000001ff") + address.packed[-3:]
    body = struct.pack("!BBHI", 135, 0, 0, 0) + address.packed
    pseudo = b"\0" * 16 + group + struct.pack("!II", len(body), 58)
    body = body[:2] + struct.pack("!H", _checksum(pseudo + body)) + body[4:]
    header = struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + b"\0" * 16 + group
    return b"\x33\x33" + group[-4:] + mac + struct.pack("!H", _ETH_IPV6) + header + body


def _checksum(data: bytes) -> int:
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def answer(frame: bytes, address: Address) -> str:
    """The MAC in a frame that says somebody has the address; '' for any other frame. Distrusts what it reads."""
    if isinstance(address, IPv4Address):
        if len(frame) >= 42 and frame[12:14] == b"\x08\x06" and frame[28:32] == address.packed:
            return frame[22:28].hex(":")
        return ""
    advertises = len(frame) >= 78 and frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] == 136
    return frame[6:12].hex(":") if advertises and frame[62:78] == address.packed else ""
