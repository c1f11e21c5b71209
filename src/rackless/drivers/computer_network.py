"""`ports.computer_network.ComputerNetwork`: this computer's, by `ip` and the kernel's own files.

`ip` rather than netlink: most commands need one answer of it, and loading netlink takes longer than starting a program.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from rackless.drivers.process import LocalProcesses
from rackless.ports.computer_network import KnownRoute, UplinkCable

RESOLVERS = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
_SETTINGS = Path("/proc/sys/net/ipv4/conf")


class LinuxComputerNetwork:
    def __init__(self, resolvers: Sequence[Path] = RESOLVERS) -> None:
        self._processes = LocalProcesses()
        self._resolvers = resolvers

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """The lock (flock) is on the namespace's own file."""
        handle = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.05)
            yield
        finally:
            os.close(handle)

    async def routes(self) -> list[KnownRoute]:
        shown = await self._processes.run(["ip", "-json", "-4", "route", "show", "table", "all"])
        return [read_route(route) for route in json.loads(shown.stdout or "[]")]

    async def links(self) -> set[str]:
        shown = await self._processes.run(["ip", "-json", "link"], check=False)
        return {link["ifname"] for link in json.loads(shown.stdout or "[]")}

    async def joined(self, link: str, inside: str, namespace: Path) -> bool:
        outer, inner = await self._link([], link), await self._link(_inside(namespace), inside)
        if outer is None or inner is None:
            return False
        return (outer["ifindex"], outer.get("link_index")) == (inner.get("link_index"), inner["ifindex"])

    async def join(self, cable: UplinkCable) -> None:
        near, far, inside = cable.subnet[1], cable.subnet[2], _inside(cable.namespace)
        peer = ["peer", "name", cable.inside, "netns", str(cable.namespace)]
        for command in (
            ["ip", "link", "add", cable.link, "type", "veth", *peer],
            ["ip", "address", "add", f"{near}/30", "dev", cable.link],
            [*inside, "ip", "address", "add", f"{far}/30", "dev", cable.inside],
        ):
            await self._processes.run(command)
        with suppress(FileNotFoundError):
            Path(f"/proc/sys/net/ipv6/conf/{cable.link}/disable_ipv6").write_text("1")

    async def switch_on(self, cable: UplinkCable) -> None:
        inside = _inside(cable.namespace)
        for command in (
            ["ip", "link", "set", cable.link, "up"],
            [*inside, "ip", "link", "set", cable.inside, "up"],
            [*inside, "ip", "route", "replace", "default", "via", str(cable.subnet[1])],
        ):
            await self._processes.run(command)

    async def remove(self, link: str) -> None:
        await self._processes.run(["ip", "link", "delete", link], check=False)

    def forwards(self, interface: str) -> bool:
        try:
            return (_SETTINGS / interface / "forwarding").read_text().strip() == "1"
        except FileNotFoundError:
            return False

    def set_forwarding(self, interface: str, on: bool) -> None:
        with suppress(FileNotFoundError):  # it went meanwhile
            (_SETTINGS / interface / "forwarding").write_text("1" if on else "0")

    def nameservers(self) -> list[IPv4Address]:
        for place in self._resolvers:
            try:
                lines = place.read_text().splitlines()
            except OSError:
                continue
            words = [line.split() for line in lines]
            given = [word[1] for word in words if len(word) > 1 and word[0] == "nameserver" and ":" not in word[1]]
            if found := [address for address in map(IPv4Address, given) if not address.is_loopback]:
                return found
        return []

    def addresses_of(self, host: str) -> list[IPv4Address]:
        with suppress(OSError):
            told = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
            return [IPv4Address(address[0]) for *_, address in told]
        return []

    async def _link(self, inside: Sequence[str], name: str) -> dict[str, Any] | None:
        shown = await self._processes.run([*inside, "ip", "-json", "link", "show", name], check=False)
        if shown.code:
            return None
        found: dict[str, Any] = json.loads(shown.stdout)[0]
        return found


def read_route(shown: Mapping[str, Any]) -> KnownRoute:
    """Out of `ip -json -4 route`."""
    network = IPv4Network("0.0.0.0/0" if shown["dst"] == "default" else shown["dst"], strict=False)
    hops = (shown, *shown.get("nexthops", ()))
    return KnownRoute(network, tuple(hop["dev"] for hop in hops if "dev" in hop), shown.get("type", "unicast"))


def _inside(namespace: Path) -> list[str]:
    return ["nsenter", f"--net={namespace}", "--"]
