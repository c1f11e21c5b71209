"""Bridges and NICs of the hypervisor that are attached to a lab: reading their state, moving them into the lab, and restoring
them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Device:
    """A link of the hypervisor with the state that is lost when it moves to another namespace, and must be restored."""

    name: str
    bridge: bool = False
    mac: str = ""
    up: bool = False
    mtu: int = 1500
    master: str = ""
    """The bridge or bond that it belongs to."""
    addresses: tuple[str, ...] = ()
    """`192.0.2.5/24`, with words of `ip` behind it for one that expires. Without those that the kernel gives it by itself."""
    routes: tuple[str, ...] = ()
    """Those over it that somebody made, in words of `ip`: `default via 192.0.2.1 metric 100`."""
    managed: bool = False
    """Whether NetworkManager runs and manages it."""


@dataclass(frozen=True, slots=True)
class SiteCable:
    """A veth pair between a bridge of the hypervisor and a network namespace."""

    link: str
    """The hypervisor's end, plugged into the bridge …"""
    bridge: str
    inside: str
    """… and the other one."""
    namespace: Path
    mac: str
    """Of the hypervisor's end. A bridge takes the lowest MAC of its ports, so this one is high."""


class ComputerDevices(Protocol):
    async def look(self, name: str) -> Device | None: ...

    async def holds(self, namespace: Path, name: str) -> bool:
        """Whether a link of this name is in the namespace; False when there is no such namespace."""
        ...

    async def lend(self, name: str, namespace: Path) -> None:
        """Move a NIC into a network namespace. NetworkManager, where it runs, is told to leave it alone first."""
        ...

    async def give_back(self, device: Device, namespace: Path) -> bool:
        """Move a NIC back, if it is still in the namespace, and make it what it was. False when it is nowhere."""
        ...

    async def plug_in(self, cable: SiteCable, bridge: Device) -> None:
        """Lay the cable with the bridge's MTU, both ends up. What is left of an earlier one is removed.

        A bridge without ports would take the cable's MAC; there the cable takes the bridge's.
        """
        ...

    async def plugged(self, cable: SiteCable) -> bool:
        """Whether the cable leads from this bridge into this namespace."""
        ...

    async def unplug(self, cable: SiteCable, bridge: Device) -> None:
        """Silent when it is not there. A bridge that is left without ports has the MAC and the MTU that it had."""
        ...

    def bridges_filter(self) -> bool:
        """Whether what passes a bridge of this computer goes through its firewall (br_netfilter)."""
        ...
