"""ARP as frames: the question that leaves no trace (RFC 5227), and who answered it. Pure."""

from __future__ import annotations

import struct

from rackless.spec.address import Ip

ETHERTYPE = 0x0806


def probe(address: Ip, mac: bytes) -> bytes:
    ethernet = b"\xff" * 6 + mac + struct.pack("!H", ETHERTYPE)
    return ethernet + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac + b"\0" * 4 + b"\0" * 6 + address.packed


def answer(frame: bytes, address: Ip) -> str:
    """The MAC in a frame that says somebody has the address; '' for any other frame. Distrusts what it reads."""
    if len(frame) >= 42 and frame[12:14] == b"\x08\x06" and frame[28:32] == address.packed:
        return frame[22:28].hex(":")
    return ""
