"""An address with a lifetime on a NIC (netlink: the kernel removes it when nobody renews it), its announcements to the neighbours,
and the question who else has it (ARP; for IPv6 neighbour advertisements, and no question).
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time

_NEW_ADDRESS, _DELETE_ADDRESS = 20, 21
_REQUEST, _ACK, _REPLACE, _CREATE = 1, 4, 0x100, 0x400
_ADDRESS, _LOCAL, _LIFETIMES, _FLAGS = 1, 2, 6, 8
_NO_DUPLICATE_DETECTION = 0x02
_ARP, _ARP_REQUEST = 0x0806, 1
_ADVERTISEMENT, _OVERRIDE, _TARGET_LINK = 136, 0x20000000, 2
_ALL_NODES = "ff02::1"
QUESTIONS, LISTEN_SECONDS = 2, 0.25


class MovingAddress:
    def __init__(self, address: str, interface: str) -> None:
        self._family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._packed = socket.inet_pton(self._family, address)
        self._text, self._interface = address, interface

    @property
    def mac(self) -> str:
        with _arp(self._interface) as handle:
            return _mac(handle).hex(":")

    def hold(self, seconds: int) -> None:
        # IPv6: not preferred, so that the node speaks from its own address; no duplicate detection, which would delay its use
        preferred = seconds if self._family == socket.AF_INET else 0
        lifetimes = _attribute(_LIFETIMES, struct.pack("=IIII", preferred, seconds, 0, 0))
        flags = (
            b"" if self._family == socket.AF_INET else _attribute(_FLAGS, struct.pack("=I", _NO_DUPLICATE_DETECTION))
        )
        self._change(_NEW_ADDRESS, _REPLACE | _CREATE, lifetimes + flags)

    def drop(self) -> None:
        try:
            self._change(_DELETE_ADDRESS, 0, b"")
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.ENODEV):  # the kernel was first
                raise

    def announce(self) -> None:
        if self._family == socket.AF_INET:
            with _arp(self._interface) as handle:
                handle.send(_frame(_mac(handle), self._packed, self._packed))
            return
        with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as handle:
            index = socket.if_nametoindex(self._interface)
            handle.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
            handle.bind((self._text, 0, 0, index))
            with _arp(self._interface) as link:
                option = struct.pack("!BB", _TARGET_LINK, 1) + _mac(link)
            word = struct.pack("!BBHI", _ADVERTISEMENT, 0, 0, _OVERRIDE) + self._packed + option
            handle.sendto(word, (_ALL_NODES, 0, 0, index))

    def others(self) -> list[str]:
        """The MACs of other machines that answer for an IPv4 address; for an IPv6 address none is asked for."""
        found: set[str] = set()
        if self._family == socket.AF_INET6:
            return []
        with _arp(self._interface) as handle:
            own = _mac(handle)
            for _ in range(QUESTIONS):
                handle.send(_frame(own, b"\0" * 4, self._packed))
                end = time.monotonic() + LISTEN_SECONDS
                while (left := end - time.monotonic()) > 0 and select.select([handle], [], [], left)[0]:
                    frame = handle.recv(256)
                    if len(frame) >= 42 and frame[28:32] == self._packed and frame[22:28] != own:
                        found.add(frame[22:28].hex(":"))
        return sorted(found)

    def _change(self, kind: int, flags: int, more: bytes) -> None:
        index = socket.if_nametoindex(self._interface)
        head = struct.pack("=BBBBI", self._family, len(self._packed) * 8, 0, 0, index)
        body = head + _attribute(_LOCAL, self._packed) + _attribute(_ADDRESS, self._packed) + more
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as handle:
            handle.settimeout(5)
            handle.send(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST | _ACK | flags, 1, 0) + body)
            code = -int(struct.unpack_from("=i", handle.recv(65536), 16)[0])
        if code:
            raise OSError(code, f"{self._text} on {self._interface}: {os.strerror(code)}")


def _attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + b"\0" * (-length % 4)


def _arp(interface: str) -> socket.socket:
    handle = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP))
    handle.bind((interface, _ARP))
    return handle


def _mac(handle: socket.socket) -> bytes:
    mac: bytes = handle.getsockname()[4]
    return mac


def _frame(own: bytes, sender: bytes, target: bytes) -> bytes:
    """A broadcast ARP request: a probe has 0.0.0.0 as its sender (RFC 5227), an announcement the address itself."""
    ethernet = b"\xff" * 6 + own + struct.pack("!H", _ARP)
    return ethernet + struct.pack("!HHBBH", 1, 0x0800, 6, 4, _ARP_REQUEST) + own + sender + b"\0" * 6 + target
