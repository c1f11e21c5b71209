"""A guest of a lab: a network namespace with a veth on one of the lab's bridges, that speaks DHCP, DNS and NTP itself.

Run as a program inside the guest's namespace: `python guest.py dhcp eth0 6`, `dns SERVER NAME`, `ntp SERVER`,
`tftp SERVER FILE`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COOKIE = b"\x63\x82\x53\x63"


@dataclass
class Guest:
    """`bridge` is a bridge in the network namespace pinned at `lab`."""

    lab: Path
    bridge: str
    mac: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    pid: int = 0

    def __enter__(self) -> Guest:
        keeper = subprocess.Popen(["unshare", "--net", "sleep", "3600"], stdin=subprocess.DEVNULL)
        self.processes.append(keeper)
        self.pid = keeper.pid
        outside = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.pid}/ns/net") == outside:
            time.sleep(0.01)
        port = f"g{self.pid}"
        inside = ["nsenter", f"--net={self.lab}", "--"]
        run([*inside, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(self.pid)])
        run([*inside, "ip", "link", "set", port, "master", self.bridge, "up"])
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "link", "set", "eth0", "address", self.mac, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run(["nsenter", "-t", str(self.pid), "-n", "--", *argv], check=check)

    def ask(self, *arguments: str) -> Any:
        done = self.run(sys.executable, __file__, *arguments)
        return json.loads(done.stdout)

    def dhcp(
        self, device: str = "eth0", patience: float = 30.0, *, options: dict[int, bytes] | None = None
    ) -> dict[str, Any] | None:
        """What DHCP offers and confirms; None when nobody answers. `options` are those the client tells of itself."""
        told = [f"{code}={value.hex()}" for code, value in (options or {}).items()]
        found: dict[str, Any] | None = self.ask("dhcp", device, str(patience), *told)
        return found

    def tftp(self, server: str, name: str) -> str:
        """The SHA-256 of a file."""
        return str(self.ask("tftp", server, name))

    def take(self, lease: dict[str, Any]) -> None:
        """Configure what DHCP said, as a client with option 121 does: its routes, and not the router option."""
        self.run("ip", "address", "add", f"{lease['address']}/24", "dev", "eth0")
        routes = lease["routes"] or ([["0.0.0.0/0", lease["router"]]] if lease["router"] else [])
        for to, via in routes:
            self.run("ip", "route", "add", to, "via", via)

    def resolve(self, server: str, name: str) -> list[str]:
        found: list[str] = self.ask("dns", server, name)
        return found

    def serve(self, *arguments: str) -> None:
        """Run one of the servers below until the guest goes."""
        self.processes.append(launch(["nsenter", "-t", str(self.pid), "-n", "--"], *arguments))

    def connects(self, address: str, port: int) -> bool:
        return bool(self.ask("tcp", address, str(port)))


def launch(inside: list[str], *arguments: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([*inside, sys.executable, __file__, *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"ready\n"
    return process


@contextmanager
def serving(inside: list[str], *arguments: str) -> Iterator[None]:
    """A server of this file's, until the end of the block, however that comes."""
    process = launch(inside, *arguments)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def run(argv: list[str], check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(argv)}: {done.stderr}")
    return done


def dhcp(device: str, patience: float, told: list[tuple[int, bytes]]) -> dict[str, Any] | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        sock.bind(("0.0.0.0", 68))
        # asked of the kernel: /sys still shows the network it was mounted in
        mac = fcntl.ioctl(sock, 0x8927, struct.pack("256s", device.encode()))[18:24]
        offer = _exchange(sock, mac, [(53, b"\1"), *told], patience)
        if offer is None:
            return None
        request = [(53, b"\3"), (50, offer["yiaddr"]), (54, offer["options"][54]), *told]
        final = _exchange(sock, mac, request, patience)
    if final is None or final["options"][53] != b"\5":
        return None
    options = final["options"]
    return {
        "address": socket.inet_ntoa(final["yiaddr"]),
        "lease": struct.unpack("!I", options[51])[0],
        "router": socket.inet_ntoa(options[3][:4]) if 3 in options else None,
        "dns": socket.inet_ntoa(options[6][:4]) if 6 in options else None,
        "ntp": socket.inet_ntoa(options[42][:4]) if 42 in options else None,
        "name": options.get(12, b"").decode(),
        "next": socket.inet_ntoa(final["siaddr"]),
        "file": final["file"].rstrip(b"\0").decode(),
        "routes": _routes(options.get(121, b"")),
    }


def _exchange(sock: socket.socket, mac: bytes, options: list[tuple[int, bytes]], patience: float) -> Any:
    xid = os.urandom(4)
    wanted = (55, bytes([1, 3, 6, 12, 15, 42, 121]))
    body = b"".join(bytes([code, len(value)]) + value for code, value in [*options, wanted]) + b"\xff"
    head = struct.pack("!BBBB4sHH16x16s192x", 1, 1, 6, 0, xid, 0, 0x8000, mac.ljust(16, b"\0")) + COOKIE
    deadline = time.monotonic() + patience
    while (left := deadline - time.monotonic()) > 0:
        sock.sendto(head + body, ("255.255.255.255", 67))
        sock.settimeout(min(left, 2.0))
        try:
            while True:
                data = sock.recv(4096)
                if data[4:8] == xid and data[0] == 2:
                    return {
                        "yiaddr": data[16:20],
                        "siaddr": data[20:24],
                        "file": data[108:236],
                        "options": _options(data[240:]),
                    }
        except TimeoutError:
            continue
    return None


def _options(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    position = 0
    while position < len(data) and data[position] != 255:
        if data[position] == 0:
            position += 1
            continue
        length = data[position + 1]
        found[data[position]] = data[position + 2 : position + 2 + length]
        position += 2 + length
    return found


def _routes(data: bytes) -> list[list[str]]:
    routes = []
    while data:
        prefix = data[0]
        size = (prefix + 7) // 8
        to = socket.inet_ntoa(data[1 : 1 + size].ljust(4, b"\0"))
        routes.append([f"{to}/{prefix}", socket.inet_ntoa(data[1 + size : 5 + size])])
        data = data[5 + size :]
    return routes


def dns(server: str, name: str) -> list[str]:
    kind = 12 if name.replace(".", "").isdigit() else 1
    if kind == 12:
        name = ".".join(reversed(name.split("."))) + ".in-addr.arpa"
    question = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    packet = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + question + struct.pack("!HH", kind, 1)
    data = _ask(server, 53, packet)
    (count,) = struct.unpack("!H", data[6:8])
    position = 12 + len(question) + 4
    found = []
    for _ in range(count):
        _, position = _name(data, position)
        kind, _, _, length = struct.unpack("!HHIH", data[position : position + 10])
        position += 10
        found.append(socket.inet_ntoa(data[position : position + 4]) if kind == 1 else _name(data, position)[0])
        position += length
    return found


def _ask(server: str, port: int, question: bytes, patience: float = 30.0) -> bytes:
    """As clients do: again, when there was no answer."""
    deadline = time.monotonic() + patience
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(2)
        while True:
            sock.sendto(question, (server, port))
            try:
                return sock.recv(4096)
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise


def _name(data: bytes, position: int) -> tuple[str, int]:
    labels, end = [], None
    while data[position]:
        if data[position] & 0xC0:
            end = end or position + 2
            position = (data[position] & 0x3F) << 8 | data[position + 1]
            continue
        labels.append(data[position + 1 : position + 1 + data[position]].decode())
        position += 1 + data[position]
    return ".".join(labels), end or position + 1


def serve_dns(address: str, answer: str) -> None:
    """A name server that knows one address for every name; says that it is ready, and serves until it is killed."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address, 53))
        print("ready", flush=True)  # noqa: T201
        while True:
            data, client = sock.recvfrom(4096)
            end = data.index(b"\0", 12) + 5
            record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(answer)
            sock.sendto(data[:2] + struct.pack("!HHHHH", 0x8180, 1, 1, 0, 0) + data[12:end] + record, client)


def ntp(server: str) -> float:
    data = _ask(server, 123, b"\x23" + b"\0" * 47)
    return float(struct.unpack("!I", data[40:44])[0] - 2_208_988_800)


def tftp(server: str, name: str) -> str:
    digest, expected = hashlib.sha256(), 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(30)
        sock.sendto(b"\0\1" + name.encode() + b"\0octet\0", (server, 69))
        while True:
            data, sender = sock.recvfrom(1024)
            kind, block = struct.unpack("!HH", data[:4])
            if kind != 3:
                raise AssertionError(f"{name}: {data[4:].decode(errors='replace')}")
            if block == expected & 0xFFFF:
                digest.update(data[4:])
                expected += 1
            sock.sendto(struct.pack("!HH", 4, block), sender)
            if len(data) < 4 + 512:
                return digest.hexdigest()


def tcp(address: str, port: int) -> bool:
    """Long enough for the third time the kernel asks, after three seconds: a router may have told it of a way meanwhile."""
    try:
        with socket.create_connection((address, port), timeout=4):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["dhcp", device, patience, *words]:
            told = [(int(code), bytes.fromhex(value)) for code, _, value in (word.partition("=") for word in words)]
            result: Any = dhcp(device, float(patience), told)
        case ["tftp", server, name]:
            result = tftp(server, name)
        case ["dns", server, name]:
            result = dns(server, name)
        case ["serve-dns", address, answer]:
            serve_dns(address, answer)
        case ["ntp", server]:
            result = ntp(server)
        case ["tcp", address, port]:
            result = tcp(address, int(port))
        case _:
            sys.exit("unknown")
    sys.stdout.write(json.dumps(result))
