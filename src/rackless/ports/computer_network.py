"""The hypervisor's own network, as far as a lab's uplink needs it: routes, the veth pair into the lab, IP forwarding of
interfaces."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KnownRoute:
    """A line of the hypervisor's routing tables; the default route leads to 0.0.0.0/0."""

    network: IPv4Network
    interfaces: tuple[str, ...]
    kind: str = "unicast"
    """In the kernel's words: `unicast`, `local` for an address of its own, `broadcast` …"""


@dataclass(frozen=True, slots=True)
class UplinkCable:
    """A veth pair from the hypervisor into a network namespace, both of whose ends have an address."""

    link: str
    """The hypervisor's end …"""
    inside: str
    """… and the other one."""
    namespace: Path
    subnet: IPv4Network
    """A /30: the hypervisor's end has its first address, the other one the second."""


class ComputerNetwork(Protocol):
    def alone(self) -> AbstractAsyncContextManager[None]:
        """One command at a time changes how interfaces of this network namespace forward; the others wait."""
        ...

    async def routes(self) -> list[KnownRoute]:
        """Of all tables, IPv4."""
        ...

    async def links(self) -> set[str]: ...

    async def joined(self, link: str, inside: str, namespace: Path) -> bool:
        """Whether these two are the ends of one cable."""
        ...

    async def join(self, cable: UplinkCable) -> None:
        """Lay the cable, not switched on yet; it does not speak IPv6."""
        ...

    async def switch_on(self, cable: UplinkCable) -> None:
        """Both ends up, and the namespace's default route through it."""
        ...

    async def remove(self, link: str) -> None:
        """Silent when it is not there."""
        ...

    def forwards(self, interface: str) -> bool:
        """Whether IP forwarding is on for this interface; `all` is `ip_forward`. False when there is no such interface."""
        ...

    def set_forwarding(self, interface: str, on: bool) -> None:
        """Silent when it is not there."""
        ...

    def nameservers(self) -> list[IPv4Address]:
        """The name servers of this computer that a lab can reach: without those on its loopback."""
        ...

    def addresses_of(self, host: str) -> list[IPv4Address]:
        """The addresses of a DNS name; none when it does not resolve."""
        ...
