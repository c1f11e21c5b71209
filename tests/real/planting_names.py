"""Faults planted around a lab, and what its own look at its surroundings makes of them: names, and a second DHCP server.

`python -m tests.real.planting_names FOLDER` records it; `tests/diagnosis/data` is what it wrote. dnsmasq answers in a network
namespace that is made for it; the second DHCP server has one of its own, at the other end of a pair of NICs.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rackless.drivers.nodes.surroundings import observe

GATEWAY, VIP, NODE = "192.0.2.1", "192.0.2.5", "192.0.2.20"
NAMES = {
    "api.lab.test": [VIP],
    "any.apps.lab.test": ["192.0.2.6"],
    "node-0.lab.test": [NODE],
    NODE: ["node-0.lab.test"],
}
_WELL = (
    "--host-record=api.lab.test,192.0.2.5",
    "--address=/apps.lab.test/192.0.2.6",
    "--host-record=node-0.lab.test,192.0.2.20",
)
CASES: dict[str, Sequence[str]] = {
    "names-well": _WELL,
    "names-missing": _WELL[1:],
    "names-wrong": ("--host-record=api.lab.test,192.0.2.77", *_WELL[1:]),
    "names-reverse": (
        *_WELL[:2],
        "--address=/node-0.lab.test/192.0.2.20",
        "--ptr-record=20.2.0.192.in-addr.arpa,other.lab.test",
    ),
}
_WITHIN = 20.0


@contextmanager
def _dnsmasq(*options: str, before: Sequence[str] = ()) -> Iterator[None]:
    argv = [
        "dnsmasq",
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--user=root",
        "--pid-file=",
        "--log-facility=-",
    ]
    argv += ["--no-resolv", "--no-hosts", "--local=/lab.test/", "--bind-interfaces"]
    process = subprocess.Popen([*before, *argv, *options], stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)  # it says nothing that could be waited for when it is ready
        assert process.poll() is None, "dnsmasq did not start"
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _another() -> Iterator[None]:
    """A server of somebody else's at our port: it refuses to say who it is, and sends everybody to itself."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        handle.bind((GATEWAY, 53))

        def answer() -> None:
            while True:
                try:
                    data, client = handle.recvfrom(4096)
                except OSError:
                    return
                chaos = data[-2:] == b"\0\x03"
                record = b"" if chaos else b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x4d"
                head = data[:2] + b"\x84\0\0\x01" + (b"\0\0" if chaos else b"\0\x01") + b"\0\0\0\0"
                handle.sendto(head + data[12:] + record, client)

        threading.Thread(target=answer, daemon=True).start()
        yield


def _look(target: Path, **asked: object) -> None:
    target.write_text(json.dumps(observe(asked), indent=1) + "\n")


def plant(folder: Path) -> None:
    """Call it in a network namespace of its own: `unshare --net`."""
    other = subprocess.Popen(["unshare", "--net", "sleep", "300"])
    inside = ["nsenter", "-t", str(other.pid), "-n"]
    mine, deadline = os.readlink("/proc/self/ns/net"), time.monotonic() + _WITHIN
    while os.readlink(f"/proc/{other.pid}/ns/net") == mine and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        for argv in (
            ["ip", "link", "set", "lo", "up"],
            ["ip", "link", "add", "served", "type", "bridge"],
            ["ip", "address", "add", f"{GATEWAY}/24", "dev", "served"],
            ["ip", "link", "add", "port", "type", "veth", "peer", "name", "theirs"],
            ["ip", "link", "set", "port", "master", "served", "up"],
            ["ip", "link", "set", "served", "up"],
            ["ip", "link", "set", "theirs", "netns", str(other.pid)],
            [*inside, "ip", "address", "add", "192.0.2.99/24", "dev", "theirs"],
            [*inside, "ip", "link", "set", "theirs", "up"],
        ):
            subprocess.run(argv, check=True)
        asked = {"server": GATEWAY, "names": NAMES}
        for name, options in CASES.items():
            with _dnsmasq(f"--listen-address={GATEWAY}", "--except-interface=lo", *options):
                _look(folder / f"surroundings-{name}.json", dns=asked)
        _look(folder / "surroundings-names-silent.json", dns=asked)
        with _another():
            _look(folder / "surroundings-names-another.json", dns=asked)
        own = ("--port=0", "--interface=served", "--dhcp-range=192.0.2.0,static", "--leasefile-ro")
        theirs = ("--port=0", "--interface=theirs", "--dhcp-range=192.0.2.200,192.0.2.210,1h", "--leasefile-ro")
        with _dnsmasq(*own):
            _look(folder / "surroundings-one-dhcp.json", dhcp={"cluster": "served"})
            with _dnsmasq(*theirs, before=inside):
                _look(folder / "surroundings-two-dhcp.json", dhcp={"cluster": "served"})
    finally:
        other.kill()
        other.wait()


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    argv = ["unshare", "--net", sys.executable, "-m", "tests.real.planting_names", "--inside", str(folder)]
    subprocess.run(argv, check=True, cwd=Path(__file__).parents[2])


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        plant(Path(sys.argv[2]))
    else:
        record(Path(sys.argv[1]))
