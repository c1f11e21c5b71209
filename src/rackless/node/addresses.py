"""The node's own addresses, as the kernel lists them (netlink); the one on the API's network comes first.

The API's VIP is never one of them, although a control plane may hold it at the moment: it moves.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_GET_ADDRESSES, _NEW_ADDRESS, _DONE, _ERROR = 22, 20, 3, 2
_REQUEST, _DUMP = 1, 0x300
_UNIVERSE = 0
"""The scope of an address that is good beyond its link."""
_LOCAL, _ADDRESS = 2, 1


class Address(NamedTuple):
    text: str
    family: int
    prefix: int

    @property
    def whole(self) -> bool:
        """Whether its prefix covers this one address, as a VIP is added."""
        return self.prefix == (32 if self.family == socket.AF_INET else 128)

    def near(self, other: str) -> bool:
        """Whether the other address is on this address's network."""
        try:
            theirs = socket.inet_pton(self.family, other)
        except (OSError, ValueError):
            return False
        ours = socket.inet_pton(self.family, self.text)
        shift = len(ours) * 8 - self.prefix
        return int.from_bytes(ours, "big") >> shift == int.from_bytes(theirs, "big") >> shift


def choose(found: Sequence[Address], api: str) -> tuple[str, ...]:
    """One address of each family: the one on the API's network, or else the first. Never the API's own."""
    own = [each for each in found if each.text != api and not each.text.startswith(("127.", "169.254.", "fe80:"))]
    ranked = sorted(own, key=lambda each: (not each.near(api), each.whole))
    chosen: dict[int, str] = {}
    for each in ranked:
        chosen.setdefault(each.family, each.text)
    return tuple(chosen.values())


def observe() -> list[Address]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as handle:
        handle.settimeout(5)
        body = struct.pack("=BBBBI", socket.AF_UNSPEC, 0, 0, 0, 0)
        handle.send(struct.pack("=IHHII", 16 + len(body), _GET_ADDRESSES, _REQUEST | _DUMP, 1, 0) + body)
        found: list[Address] = []
        while True:
            for kind, content in messages(handle.recv(65536)):
                if kind in (_DONE, _ERROR):
                    return found
                if kind == _NEW_ADDRESS and (address := read(content)) is not None:
                    found.append(address)


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        if length < 16:
            return
        yield kind, data[16:length]
        data = data[(length + 3) & ~3 :]


def read(content: bytes) -> Address | None:
    family, prefix, _, scope, _ = struct.unpack_from("=BBBBI", content)
    if scope != _UNIVERSE or family not in (socket.AF_INET, socket.AF_INET6):
        return None
    values: dict[int, bytes] = {}
    rest = content[8:]
    while len(rest) >= 4:
        length, name = struct.unpack_from("=HH", rest)
        if length < 4:
            break
        values[name] = rest[4:length]
        rest = rest[(length + 3) & ~3 :]
    raw = values.get(_LOCAL) or values.get(_ADDRESS)
    return Address(socket.inet_ntop(family, raw), family, prefix) if raw else None
