"""keepalived on the machines of a story: VRRP as its configuration has it, in virtual time.

The configuration is the file that a machine really gets. So a virtual router that others do not hear, or two that count to the same
moment, show here as they do on a wire: two machines hold the VIP.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from ipaddress import ip_address

ON_THE_WIRE = 0.001
"""Seconds that an advert takes."""


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """What counts of a keepalived.conf."""

    id: int
    priority: int
    advert: float
    interval: float
    fall: int
    peers: frozenset[str] | None
    """Addresses that adverts go to; None for everybody."""

    @property
    def skew(self) -> float:
        return (256 - self.priority) / 256 * self.advert


def read_settings(text: str) -> RouterSettings:
    def number(word: str) -> float:
        found = re.search(rf"^\s*{word} (\d+)$", text, re.MULTILINE)
        assert found is not None, word
        return float(found[1])

    peers = re.search(r"unicast_peer {([^}]*)}", text)
    return RouterSettings(
        int(number("virtual_router_id")), int(number("priority")), number("advert_int"), number("interval"),
        int(number("fall")), frozenset(peers[1].split()) if peers is not None else None,
    )  # fmt: skip


@dataclass(eq=False)
class VirtualRouter:
    name: str
    address: str
    settings: RouterSettings
    check: Callable[[], bool]
    """keepalived's script: whether this machine leads to an API that is ready."""
    wire: Wire
    holds: bool = False
    _well: bool = False
    _failed: int = 0
    _due: float = 0.0

    async def run(self) -> None:
        """Until it ends; who ends it says how, with `leave` or without a word."""
        loop, settings = asyncio.get_running_loop(), self.settings
        self.wire.routers.append(self)
        checked = loop.time()
        self._wait(3 * settings.advert)
        while True:
            now = loop.time()
            if now >= checked:
                checked = now + settings.interval
                self._look()
            if self._well and now >= self._due:
                if not self.holds:
                    self.holds = True
                    self.wire.changed()
                self.wire.send(self, settings.priority)
                self._due = now + settings.advert
            soonest = min(checked, self._due) if self._well else checked
            await asyncio.sleep(max(soonest - loop.time(), 0.0001))

    def _wait(self, seconds: float) -> None:
        self._due = asyncio.get_running_loop().time() + seconds + self.settings.skew

    def _look(self) -> None:
        if self.check():
            if not self._well:
                self._wait(3 * self.settings.advert)
            self._well, self._failed = True, 0
            return
        self._failed += 1
        if self._failed >= self.settings.fall:
            self._well = False
            self._let_go()

    def _let_go(self) -> None:
        if self.holds:
            self.holds = False
            self.wire.send(self, 0)

    def hear(self, priority: int, sender: VirtualRouter) -> None:
        higher = (priority, ip_address(sender.address)) > (self.settings.priority, ip_address(self.address))
        if self.holds and higher:
            self.holds = False
        if not self.holds:  # whoever has it keeps it (`nopreempt`), and who goes says so with a priority of 0
            self._wait(3 * self.settings.advert if priority else 0.0)

    def leave(self, *, said: bool) -> None:
        """The program ends: asked to, or with its machine."""
        if self in self.wire.routers:
            self.wire.routers.remove(self)
        if said:
            self._let_go()
        self.holds = False


@dataclass
class Wire:
    """Between the machines."""

    changed: Callable[[], None] = lambda: None
    """Called when somebody takes the VIP."""
    routers: list[VirtualRouter] = field(default_factory=list)

    def send(self, sender: VirtualRouter, priority: int) -> None:
        loop, peers = asyncio.get_running_loop(), sender.settings.peers
        for router in self.routers:
            if router is sender or router.settings.id != sender.settings.id:
                continue
            if peers is not None and router.address not in peers:
                continue
            if (router.settings.peers is None) != (peers is None):
                continue  # one by multicast, the other from address to address
            loop.call_later(ON_THE_WIRE, self._deliver, router, priority, sender, context=Context())

    def _deliver(self, router: VirtualRouter, priority: int, sender: VirtualRouter) -> None:
        if router in self.routers:
            router.hear(priority, sender)

    def holders(self) -> list[str]:
        return sorted(router.name for router in self.routers if router.holds)
