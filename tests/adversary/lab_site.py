"""A site around a pretend host, all of it namespaces: an Internet, a neighbour in its LAN, and labs with an uplink.

The labs are a bridge with a guest each: the uplink is real, libvirt and servers are not needed for what is tried here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.real import guest as guest_program
from tests.real.conftest import PretendHost
from tests.real.guest import Guest
from tests.real.spaces import hold

INTERNET, METADATA, PUBLIC_LAN = "198.51.100.7", "169.254.169.254", "203.0.113.1"
NEIGHBOUR = "192.168.77.5"
HOST_PUBLIC, HOST_LAN = "203.0.113.2", "192.168.77.1"
PORTS = (53, 8080, 8081)

_SERVE = """\
import socket, sys
servers = [socket.create_server(("", int(port)), family=socket.AF_INET6, dualstack_ipv6=True) for port in sys.argv[1:]]
print("ready", flush=True)
sys.stdin.read()
"""
_WORK = """\
import asyncio, sys
from rackless.drivers import open_drivers
from rackless.operations import uplink
from rackless.events import Bus
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
from rackless.spec.load import parse
verb, name, text = sys.argv[1:]
paths = LabPaths(Roots.from_environment(), name)
if verb == "ensure":
    asyncio.run(uplink.ensure_uplink(parse(text, "lab.yaml", name=name), paths, Bus(), open_drivers()))
else:
    for entry in reversed(Ledger(paths.ledger).entries()):
        asyncio.run(uplink.retire_uplink(entry, open_drivers()))
        Ledger(paths.ledger).strike(entry)
"""


@dataclass
class Site:
    host: PretendHost
    world: list[str]
    """How a command is run out there in the Internet."""
    stack: ExitStack
    guests: dict[str, Guest] = field(default_factory=dict)

    def make_lab(self, name: str = "lab") -> Guest:
        """The namespace of a lab with one guest; its uplink is made by `uplink`."""
        pin = self.host.folder / "run" / name / "net"
        pin.parent.mkdir(parents=True)
        pin.touch()
        run = self.host.run
        run("unshare", f"--net={pin}", "true")
        self.stack.callback(run, "umount", str(pin), check=False)
        for command in (
            "ip link set lo up", "ip link add virbr0 type bridge", "ip address add 192.168.111.1/24 dev virbr0",
            "ip link set virbr0 up", "sysctl -qw net.ipv4.ip_forward=1",
        ):  # fmt: skip
            run("nsenter", f"--net={pin}", "--", *command.split())
        guest = self.stack.enter_context(Guest(self.host.pin(name), "virbr0", f"06:00:00:00:00:0{len(self.guests)}"))
        guest.run("ip", "address", "add", "192.168.111.90/24", "dev", "eth0")
        guest.run("ip", "route", "add", "default", "via", "192.168.111.1")
        self.guests[name] = guest
        return guest

    def uplink(self, text: str = "nat", lab: str = "lab", more: str = "") -> None:
        self._work("ensure", lab, f"networks: {{uplink: {text}{more}}}")

    def retire(self, lab: str = "lab") -> None:
        self._work("retire", lab, "")

    def _work(self, verb: str, lab: str, text: str) -> None:
        self.host.run(sys.executable, "-P", "-c", _WORK, verb, lab, text)

    def inside(self, lab: str = "lab") -> list[str]:
        return self.host.enter("nsenter", f"--net={self.host.folder}/run/{lab}/net", "--")

    def forwarding(self) -> dict[str, str]:
        """The switches of the pretend host, by interface; those of uplinks go with them."""
        shown = self.host.run("sysctl", "-ar", r"^net\.ipv4\.conf\..*\.forwarding$").stdout
        pairs = [line.split(" = ") for line in shown.splitlines()]
        return {name.split(".")[3]: value for name, value in pairs if ".rl-" not in name}

    def set_forwarding(self, value: int) -> None:
        self.host.run("sysctl", "-qw", f"net.ipv4.ip_forward={value}")

    def link(self, lab: str = "lab") -> str:
        """The host's end of the uplink."""
        entries = [json.loads(line) for line in (self.host.folder / f"state/{lab}.ledger").read_text().splitlines()]
        return str(entries[-1]["id"])

    def near(self, lab: str = "lab") -> str:
        """The host as the lab sees it at the other end of its uplink."""
        shown = subprocess.run([*self.inside(lab), "ip", "route", "show", "default"], capture_output=True, text=True)
        return shown.stdout.split()[2]


def connects(inside: list[str], address: str, port: int = 8080) -> bool:
    """Whether a connection is made from there."""
    done = subprocess.run(
        [*inside, sys.executable, guest_program.__file__, "tcp", address, str(port)], capture_output=True, text=True
    )
    return done.stdout == "true"


def serve(stack: ExitStack, inside: list[str], *ports: int) -> None:
    """Listen at all addresses there, until the stack is unwound."""
    words = [*inside, sys.executable, "-c", _SERVE, *map(str, ports)]
    server = stack.enter_context(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    stack.callback(server.kill)
    assert server.stdout is not None and server.stdout.readline() == b"ready\n"


@contextmanager
def around(host: PretendHost) -> Iterator[Site]:
    with ExitStack() as stack:
        spaces: list[list[str]] = []
        for near, address, far in (
            ("eth0", HOST_PUBLIC, (f"{PUBLIC_LAN}/24", f"{INTERNET}/32", f"{METADATA}/32")),
            ("lan0", HOST_LAN, (f"{NEIGHBOUR}/24",)),
        ):
            keeper = hold("--net")
            stack.callback(keeper.wait)
            stack.callback(keeper.kill)
            there = ["nsenter", "-t", str(keeper.pid), "-n", "--"]
            spaces.append(there)
            host.run(
                "ip", "link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", f"/proc/{keeper.pid}/ns/net"
            )
            host.run("ip", "address", "add", f"{address}/24", "dev", near)
            host.run("ip", "link", "set", near, "up")
            for command in (
                "ip link set lo up", *(f"ip address add {one} dev eth0" for one in far), "ip link set eth0 up",
                f"ip route add default via {address}",
            ):  # fmt: skip
                subprocess.run([*there, *command.split()], check=True)
            serve(stack, there, *PORTS)
        host.run("ip", "route", "add", "default", "via", PUBLIC_LAN)
        host.run("ip", "route", "add", METADATA, "dev", "eth0")
        host.run("sysctl", "-qw", "net.ipv4.ip_forward=0")
        serve(stack, host.enter(), *PORTS)
        yield Site(host, spaces[0], stack)


def state(site: Site) -> Path:
    return site.host.folder / "state"
