"""Router ids of keepalived: which ones this cluster will use, and which ones are heard on the wire already.

Two clusters on one network with the same id take the VIP from each other. Only multicast keepalived can be heard;
newer releases speak unicast, and stay silent here.
"""

from __future__ import annotations

import asyncio
import socket

from rackless.installer.install_config.config import Config
from rackless.installer.install_config.live import interfaces
from rackless.installer.install_config.live.interfaces import Interface
from rackless.installer.install_config.live.probe import Probe, failed, ok, unknown
from rackless.installer.install_config.values import parse_ip

_ETH_IPV4 = 0x0800
_VRRP = 112


def fletcher8(text: str) -> int:
    low = high = 0
    for byte in text.encode():
        low = (low + byte) % 15
        high = (high + low) % 15
    return (high << 4) | low


def router_ids(cluster: str) -> tuple[int, int]:
    """(API, ingress), as the cluster's own runtime computes them from its name."""
    api, ingress = fletcher8(cluster + "-api") + 1, fletcher8(cluster + "-ingress") + 1
    return api, ingress + 1 if ingress == api else ingress


async def observe(config: Config, known: tuple[Interface, ...] | None = None, seconds: float = 3.5) -> list[Probe]:
    metal = config.metal
    address = parse_ip(metal.api_vips[0]) if metal and metal.api_vips else None
    if metal is None or metal.user_managed or address is None:
        return []
    own = router_ids(config.name)
    subject = f"VRRP ids {own[0]} and {own[1]} are free"
    link = interfaces.facing(address, metal.external_bridge, interfaces.observe() if known is None else known)
    if link is None:
        return [unknown(subject, "looked for an interface in the machine network", "there is none on this computer")]
    did = f"listened {seconds:g} s for keepalived on {link.name}"
    try:
        heard = await listen(link, seconds)
    except PermissionError:
        return [unknown(subject, did, "raw sockets need root", "run it as root")]
    except OSError as error:
        return [unknown(subject, did, str(error))]
    clashes = {number: who for number, who in heard.items() if number in own}
    if clashes:
        said = ", ".join(f"{number} from {who}" for number, who in sorted(clashes.items()))
        return [
            failed(
                subject,
                did,
                f"already used: {said}",
                "rename the cluster (the ids follow from its name)",
                "metadata.name",
            )
        ]
    others = f"heard {', '.join(map(str, sorted(heard)))}" if heard else "heard none (unicast keepalived is not heard)"
    return [ok(subject, did, others, "metadata.name")]


async def listen(link: Interface, seconds: float) -> dict[int, str]:
    """Router id → sender."""
    heard: dict[int, str] = {}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_IPV4)) as handle:
        handle.bind((link.name, _ETH_IPV4))
        _join_all_multicast(handle, link.name)
        handle.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                while True:
                    found = router_id(await loop.sock_recv(handle, 2048))
                    if found:
                        heard[found[0]] = found[1]
        except TimeoutError:
            return heard


def _join_all_multicast(handle: socket.socket, name: str) -> None:
    import struct

    packet_add_membership, allmulti = 1, 2
    request = struct.pack("iHH8s", socket.if_nametoindex(name), allmulti, 0, b"")
    handle.setsockopt(263, packet_add_membership, request)  # SOL_PACKET


def router_id(frame: bytes) -> tuple[int, str] | None:
    """(id, sender) of a VRRP advertisement; None for any other frame."""
    if len(frame) < 34 or frame[12:14] != b"\x08\x00" or frame[23] != _VRRP:
        return None
    header = 14 + (frame[14] & 15) * 4
    if len(frame) < header + 2 or frame[header] & 15 != 1:
        return None
    return frame[header + 1], socket.inet_ntoa(frame[26:30])
