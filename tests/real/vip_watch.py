"""Watch an address as its neighbours see it: who answers for it by ARP, and whether the API there is ready.

A program of its own, run inside a lab's network: `vip_watch.py INTERFACE OWN-ADDRESS VIP CA SECONDS [API-EVERY]` writes a line of
JSON for every look, five a second. The API is asked at every look, or every so many seconds: a handshake costs an emulated machine
as much as it does in that time. It is always asked when somebody else holds the address. `find_wrong` says what in such lines
must never be.
"""

from __future__ import annotations

import json
import selectors
import socket
import ssl
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

EVERY = 0.2
NOT_ASKED = "not asked"
_ARP, _REQUEST, _REPLY = 0x0806, 1, 2
_LISTEN_SECONDS = 0.06
"""For the answers to one question: on a bridge they come within a millisecond or two, from a busy guest later."""


def find_wrong(lines: Iterable[str]) -> list[str]:
    """Two who answer; or one who answers before and after a question to its API, which was not ready."""
    wrong: list[str] = []
    for line in lines:
        look = json.loads(line)
        if len(look["before"]) > 1 or len(look["after"]) > 1:
            wrong.append(f"two hold it: {line}")
        if look["before"] and look["before"] == look["after"] and look["ready"] not in ("ok", NOT_ASKED):
            wrong.append(f"held by one that is not ready: {line}")
    return wrong


def holders(lines: Iterable[str]) -> list[str]:
    """Who held it, one after the other."""
    found: list[str] = []
    for line in lines:
        for who in json.loads(line)["before"]:
            if not found or found[-1] != who:
                found.append(who)
    return found


def watch(
    interface: str, own: str, vip: str, ca: Path, seconds: float, api_every: float = EVERY
) -> Iterator[dict[str, Any]]:
    asker = _Arp(interface, own, vip)
    trust = ssl.create_default_context(cafile=ca)
    end = time.monotonic() + seconds
    last, asked = list[str](), 0.0
    while (begun := time.monotonic()) < end:
        before, ready, certificate = asker.ask(), NOT_ASKED, ""
        if before and (before != last or begun >= asked + api_every):
            ready, certificate = _ready(vip, trust)
            last, asked = before, time.monotonic()
        yield {"at": time.time(), "before": before, "after": asker.ask(), "ready": ready, "certificate": certificate}
        time.sleep(max(0.0, EVERY - (time.monotonic() - begun)))


def _ready(vip: str, trust: ssl.SSLContext) -> tuple[str, str]:
    try:
        with (
            socket.create_connection((vip, 6443), timeout=10) as line,
            trust.wrap_socket(line, server_hostname=vip) as secure,
        ):
            shown = secure.getpeercert() or {}
            secure.sendall(b"GET /readyz HTTP/1.1\r\nHost: vip\r\nConnection: close\r\n\r\n")
            answer = b""
            while piece := secure.recv(4096):
                answer += piece
    except OSError as error:
        return f"{type(error).__name__}: {error}", ""
    head, _, body = answer.partition(b"\r\n\r\n")
    return ("ok" if head.split()[1:2] == [b"200"] else f"{head[:40]!r} {body[:80]!r}"), str(shown.get("serialNumber"))


class _Arp:
    def __init__(self, interface: str, own: str, vip: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP))
        self._socket.bind((interface, _ARP))
        self._socket.setblocking(False)
        self._vip = socket.inet_aton(vip)
        mac = self._socket.getsockname()[4]
        header = b"\xff" * 6 + mac + struct.pack("!H", _ARP)
        fields = struct.pack("!HHBBH", 1, 0x0800, 6, 4, _REQUEST) + mac + socket.inet_aton(own)
        self._question = header + fields + b"\0" * 6 + self._vip
        self._heard = selectors.DefaultSelector()
        self._heard.register(self._socket, selectors.EVENT_READ)

    def ask(self) -> list[str]:
        """The MAC addresses that answer."""
        found: set[str] = set()
        while self._heard.select(
            0
        ):  # what was answered before, to others: whoever said it may have lost the address since
            self._socket.recv(256)
        self._socket.send(self._question)
        end = time.monotonic() + _LISTEN_SECONDS
        while (left := end - time.monotonic()) > 0:
            for _ in self._heard.select(left):
                frame = self._socket.recv(256)
                if struct.unpack("!H", frame[20:22])[0] == _REPLY and frame[28:32] == self._vip:
                    found.add(frame[22:28].hex(":"))
        return sorted(found)


if __name__ == "__main__":
    for look in watch(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), *map(float, sys.argv[5:])):
        sys.stdout.write(json.dumps(look) + "\n")
        sys.stdout.flush()
