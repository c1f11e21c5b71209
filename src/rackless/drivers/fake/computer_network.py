"""A computer's network in memory: `ports.computer_network.ComputerNetwork`. It has one card, which leads to everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from rackless.drivers.fake.processes import FakeProcess
from rackless.drivers.fake.script import Script
from rackless.errors import CommandFailed
from rackless.ports.computer_network import KnownRoute, UplinkCable

CARD = "eth0"


def _routes() -> list[KnownRoute]:
    return [
        KnownRoute(IPv4Network("0.0.0.0/0"), (CARD,)),
        KnownRoute(IPv4Network("203.0.113.0/24"), (CARD,)),
        KnownRoute(IPv4Network("203.0.113.2/32"), (CARD,), "local"),
    ]


@dataclass
class FakeComputerNetwork:
    script: Script
    living: Callable[[str], bool] = lambda _: True
    """Whether there is such a namespace."""
    known: list[KnownRoute] = field(default_factory=_routes)
    forwarding: dict[str, bool] = field(default_factory=lambda: {"all": False, "lo": False, CARD: False})
    cables: dict[str, UplinkCable] = field(default_factory=dict)
    on: set[str] = field(default_factory=set)
    """Cables that are switched on."""
    servers: list[IPv4Address] = field(default_factory=lambda: [IPv4Address("203.0.113.1")])
    names: dict[str, list[IPv4Address]] = field(default_factory=dict)
    caller: Callable[[], FakeProcess | None] = lambda: None
    _taken: bool = False
    _by: FakeProcess | None = None
    """The process that holds the lock; when it is killed, the lock is free."""

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        while self._taken and (self._by is None or self._by.alive):  # noqa: ASYNC110  nobody tells of a kill
            await asyncio.sleep(0.05)
        self._taken, self._by = True, self.caller()
        try:
            yield
        finally:
            self._taken = False

    async def routes(self) -> list[KnownRoute]:
        await self.script.meet("network", "routes")
        local = [
            route
            for link, cable in self.cables.items()
            for route in (
                KnownRoute(IPv4Network(cable.subnet[1]), (link,), "local"),
                *([KnownRoute(cable.subnet, (link,))] if link in self.on else []),
            )
        ]
        return [*self.known, *local]

    async def links(self) -> set[str]:
        await self.script.meet("network", "links")
        return {name for name in self.forwarding if name != "all"}

    async def joined(self, link: str, inside: str, namespace: Path) -> bool:
        await self.script.meet("network", "joined", link)
        cable = self.cables.get(link)
        return cable is not None and (cable.inside, cable.namespace) == (inside, namespace)

    async def join(self, cable: UplinkCable) -> None:
        await self.script.meet("network", "join", cable.link)
        if cable.link in self.forwarding or not self.living(str(cable.namespace)):
            raise CommandFailed(["ip", "link", "add", cable.link], 2, "there is such a link, or no such namespace")
        self.cables[cable.link] = cable
        self.forwarding[cable.link] = self.forwarding["all"]
        self.script.change("network", "join", cable.link)

    async def switch_on(self, cable: UplinkCable) -> None:
        await self.script.meet("network", "switch_on", cable.link)
        if self.cables.get(cable.link) != cable:
            raise CommandFailed(["ip", "link", "set", cable.link, "up"], 1, "there is no such cable")
        if cable.link not in self.on:
            self.on.add(cable.link)
            self.script.change("network", "switch_on", cable.link)

    async def remove(self, link: str) -> None:
        await self.script.meet("network", "remove", link)
        if link in self.cables:
            self._cut(link)
            self.script.change("network", "remove", link)

    def forwards(self, interface: str) -> bool:
        return self.forwarding.get(interface, False)

    def set_forwarding(self, interface: str, on: bool) -> None:
        wanted = self.forwarding if interface == "all" else [interface]
        for name in wanted:
            if self.forwarding.get(name, on) is not on:
                self.forwarding[name] = on
                self.script.change("network", "set_forwarding", name)

    def nameservers(self) -> list[IPv4Address]:
        return list(self.servers)

    def addresses_of(self, host: str) -> list[IPv4Address]:
        try:
            return [IPv4Address(host)]
        except ValueError:
            return list(self.names.get(host, ()))

    # what happens to it

    def vanish(self, namespace: str) -> None:
        """A namespace is gone, and with it the cables that led there."""
        for link in [link for link, cable in self.cables.items() if str(cable.namespace) == namespace]:
            self._cut(link)

    def restart(self) -> None:
        """The computer is started again: its cables are gone, and forwarding is off."""
        for link in list(self.cables):
            self._cut(link)
        self.forwarding = dict.fromkeys(self.forwarding, False)

    def _cut(self, link: str) -> None:
        del self.cables[link], self.forwarding[link]
        self.on.discard(link)
