"""What answers on a lab's networks, asked from inside: its DNS, rogue DHCP servers; and how busy the processors are.

A program of its own (`python -m rackless.drivers.nodes.surroundings QUESTIONS`), because the caller is outside the lab's
namespaces. Nothing is left behind: DHCP is asked for an offer (DHCPDISCOVER), and no lease is taken.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

A, PTR, TXT, IN, CHAOS = 1, 12, 16, 1, 3
_DNS_SECONDS, _DNS_TRIES = 2.0, 2
OFFER_SECONDS = 4.0
"""dnsmasq pings an address for three before it offers it."""
_MAGIC = b"\x63\x82\x53\x63"
_ALL_FRAMES = 0x0003
_NO_SUCH_NAME = 3


class NoAnswer(Exception):
    """There was no answer, or it was no DNS message."""


# DNS


def question(number: int, name: str, kind: int, family: int = IN) -> bytes:
    labels = b"".join(bytes((len(label),)) + label for label in name.encode("idna").split(b".") if label)
    return struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, family)


def read_answer(data: bytes, number: int, kind: int) -> list[str]:
    """Empty where there is no such name. Distrusts what it reads; raises NoAnswer."""
    try:
        told, flags, questions, answers, _, _ = struct.unpack_from("!6H", data)
        if told != number or not flags & 0x8000:
            raise NoAnswer("an answer to another question")
        if flags & 15 not in (0, _NO_SUCH_NAME):
            raise NoAnswer(f"it answers with error {flags & 15}")
        at = 12
        for _ in range(questions):
            at = _name(data, at)[1] + 4
        return list(_records(data, at, answers, kind))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise NoAnswer("an answer that cannot be read") from error


def _records(data: bytes, at: int, count: int, kind: int) -> Iterator[str]:
    for _ in range(count):
        at = _name(data, at)[1]
        found, _, _, length = struct.unpack_from("!HHIH", data, at)
        at += 10
        if found == kind == A and length == 4:
            yield str(ipaddress.IPv4Address(data[at : at + 4]))
        elif found == kind == PTR:
            yield _name(data, at)[0]
        elif found == kind == TXT:
            yield data[at + 1 : at + 1 + data[at]].decode(errors="replace")
        at += length


def _name(data: bytes, at: int) -> tuple[str, int]:
    """The name, and where what follows it begins; a pointer leads back, and only so often."""
    labels: list[str] = []
    end = None
    for _ in range(64):
        length = data[at]
        if length >= 0xC0:
            end = end or at + 2
            at = struct.unpack_from("!H", data, at)[0] & 0x3FFF
        elif length == 0:
            return ".".join(labels), end or at + 1
        else:
            labels.append(data[at + 1 : at + 1 + length].decode("ascii"))
            at += 1 + length
    raise IndexError("a name without an end")


def ask(server: str, port: int, name: str, kind: int, family: int = IN) -> list[str]:
    """Raises NoAnswer."""
    number = secrets.randbelow(1 << 16)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        handle.settimeout(_DNS_SECONDS)
        for _ in range(_DNS_TRIES):
            try:
                handle.connect((server, port))
                handle.send(question(number, name, kind, family))
                return read_answer(handle.recv(4096), number, kind)
            except TimeoutError:
                continue
            except OSError as error:
                raise NoAnswer(error.strerror or str(error)) from error
    raise NoAnswer("no answer in time")


def look_up(server: str, port: int, wanted: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Each name, or address to be asked backwards, with what was wanted; first who it is that answers."""
    found: list[dict[str, Any]] = []
    for name, expected in {"version.bind": [], **wanted}.items():
        kind, family, asked = _kind(name)
        told: dict[str, Any] = {"question": name, "wanted": expected, "server": server}
        try:
            told["found"] = ask(server, port, asked, kind, family)
        except NoAnswer as error:
            told["problem"] = str(error)
        found.append(told)
        if "problem" in told:  # one that does not answer at all is not asked for every name
            break
    return found


def _kind(name: str) -> tuple[int, int, str]:
    if name == "version.bind":
        return TXT, CHAOS, name
    try:
        return PTR, IN, ipaddress.ip_address(name).reverse_pointer
    except ValueError:
        return A, IN, name


# DHCP


def discover(mac: bytes, number: bytes) -> bytes:
    """A DHCPDISCOVER by broadcast, as a frame."""
    bootp = b"\x01\x01\x06\x00" + number + b"\0\0\x80\0" + bytes(16) + mac + bytes(10 + 192)
    payload = (bootp + _MAGIC + bytes((53, 1, 1)) + b"\xff").ljust(300, b"\0")
    datagram = struct.pack("!HHHH", 68, 67, 8 + len(payload), 0) + payload
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(datagram), 1, 0, 64, 17, 0, bytes(4), b"\xff" * 4)
    total = sum(struct.unpack("!10H", header))
    total = (total >> 16) + (total & 0xFFFF)
    checksum = ~(total + (total >> 16)) & 0xFFFF
    return b"\xff" * 6 + mac + b"\x08\x00" + header[:10] + struct.pack("!H", checksum) + header[12:] + datagram


def offered_by(frame: bytes, number: bytes) -> str:
    """The server that makes an offer to this question; '' for any other frame. Distrusts what it reads."""
    start = 14 + (frame[14] & 15) * 4 + 8 if len(frame) > 14 else 0
    bootp = frame[start:]
    if frame[12:14] != b"\x08\x00" or frame[23:24] != b"\x11" or bootp[4:8] != number or bootp[236:240] != _MAGIC:
        return ""
    options, at = dict[int, bytes](), 240
    while at + 1 < len(bootp) and bootp[at] != 255:
        length = bootp[at + 1] if bootp[at] else -1
        options[bootp[at]] = bootp[at + 2 : at + 2 + length]
        at += 2 + length
    server = options.get(54, b"")
    return str(ipaddress.IPv4Address(server)) if options.get(53) == b"\x02" and len(server) == 4 else ""


def strangers(interfaces: Mapping[str, str]) -> dict[str, list[str]]:
    """For each network, the DHCP servers that offer a lease on its bridge. The lab's own dnsmasq does not see a frame sent from
    the bridge, so every answer is a stranger's."""
    there = {name for _, name in socket.if_nameindex()}
    handles: dict[socket.socket, tuple[str, bytes]] = {}
    found: dict[str, set[str]] = {}
    try:
        for network, bridge in interfaces.items():
            if bridge not in there:
                continue
            handle = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_FRAMES))
            number, mac = os.urandom(4), b"\x02" + os.urandom(5)
            handles[handle] = network, number
            found[network] = set()
            handle.bind((bridge, _ALL_FRAMES))
            handle.send(discover(mac, number))
        deadline = time.monotonic() + OFFER_SECONDS
        while handles and (left := deadline - time.monotonic()) > 0:
            for handle in select.select(list(handles), [], [], left)[0]:
                network, number = handles[handle]
                if server := offered_by(handle.recv(4096), number):
                    found[network].add(server)
    finally:
        for handle in handles:
            handle.close()
    return {network: sorted(servers) for network, servers in found.items()}


# processors


def read_waiting(text: str) -> float | None:
    """The share of the last five minutes, out of /proc/pressure/cpu."""
    line = next((line for line in text.splitlines() if line.startswith("some ")), "")
    values = dict(word.split("=") for word in line.split()[1:] if "=" in word)
    return float(values["avg300"]) / 100 if "avg300" in values else None


def read_times(text: str) -> tuple[int, int]:
    """(stolen, all), in ticks, out of /proc/stat."""
    ticks = [int(word) for word in text.partition("\n")[0].split()[1:9]]
    return (ticks[7] if len(ticks) == 8 else 0), sum(ticks)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # an older kernel, or one without it
        return ""


def observe(asked: Mapping[str, Any]) -> dict[str, Any]:
    before = read_times(_text("/proc/stat"))
    dns = asked.get("dns") or {}
    found: dict[str, Any] = {
        "names": look_up(dns["server"], int(dns.get("port") or 53), dns["names"]) if dns else [],
        "dhcp": strangers(asked.get("dhcp") or {}),
    }
    stolen, spent = (now - then for now, then in zip(read_times(_text("/proc/stat")), before, strict=True))
    return {**found, "waiting": read_waiting(_text("/proc/pressure/cpu")), "stolen": stolen / spent if spent else 0.0}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(observe(json.loads(sys.argv[1]))))
