"""Packets of a server, recorded in the lab's network namespace into a pcap file that Wireshark reads.

`record` runs in a process that has entered the namespace. It listens at the bridges the server is plugged into and keeps the
frames from and to one of its MACs, and broadcasts that speak of one, such as an offer of DHCP.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

_ALL = 0x0003
SNAP = 65535
HEADER = struct.pack("!IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAP, 1)


def packet(frame: bytes, at: float) -> bytes:
    seconds = int(at)
    kept = frame[:SNAP]
    return struct.pack("!IIII", seconds, int((at - seconds) * 1e6), len(kept), len(frame)) + kept


def concerns(frame: bytes, macs: Sequence[bytes]) -> bool:
    if frame[:6] in macs or frame[6:12] in macs:
        return True
    return bool(frame[:1]) and bool(frame[0] & 1) and any(mac in frame for mac in macs)


def listener() -> socket.socket:
    """For all packets of a link that it is bound to, and none before. Needs root; what is done with it later does not."""
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)


def record(
    output: BinaryIO,
    listeners: Sequence[socket.socket],
    macs: Sequence[str],
    seconds: float | None,
    *,
    told: Callable[[int], None] = lambda _: None,
    until: socket.socket | None = None,
    most_bytes: int | None = None,
) -> int:
    """Record until the time is over, the file would get larger than `most_bytes`, an interrupt, or until something can be read
    from `until`; `told` is called with the number of packets now and then. The sockets are bound to their bridges."""
    wanted = [bytes.fromhex(mac.replace(":", "")) for mac in macs]
    for one in listeners:
        bridge = one.getsockname()[0]
        one.bind((bridge, _ALL))
        # a bridge shows frames that only pass through it when it listens to everything
        membership = struct.pack("IHH8s", socket.if_nametoindex(bridge), 1, 0, b"")
        one.setsockopt(263, 1, membership)
    count, room = 0, (most_bytes - len(HEADER) if most_bytes is not None else sys.maxsize)
    deadline = time.monotonic() + seconds if seconds is not None else None
    output.write(HEADER)
    while deadline is None or time.monotonic() < deadline:
        ready, _, _ = select.select([*listeners, *([until] if until is not None else [])], [], [], 0.5)
        for one in listeners:
            if one in ready and concerns(frame := one.recv(1 << 17), wanted):
                kept = packet(frame, time.time())
                if (room := room - len(kept)) < 0:
                    return count
                output.write(kept)
                count += 1
        output.flush()
        told(count)
        if until in ready:
            break
    return count
