"""Networks: the links a lab is made of, and the network with DHCP and DNS on it."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Bridge:
    name: str
    addresses: tuple[IPv4Interface, ...] = ()


@dataclass(frozen=True, slots=True)
class Veth:
    """A cable between two bridges."""

    name: str
    peer: str
    bridge: str
    peer_bridge: str


@dataclass(frozen=True, slots=True)
class Reservation:
    mac: str
    name: str
    address: IPv4Address


@dataclass(frozen=True, slots=True)
class Record:
    """One address and the names that lead to it; a name may start with `*.`."""

    address: IPv4Address
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Network:
    """A network with a gateway, DHCP reservations and DNS, on a bridge of its own."""

    name: str
    bridge: str
    gateway: IPv4Interface
    domain: str
    reservations: tuple[Reservation, ...]
    records: tuple[Record, ...]


class Links(Protocol):
    async def ensure_bridge(self, bridge: Bridge) -> bool: ...

    async def ensure_veth(self, veth: Veth) -> bool: ...

    async def names(self) -> set[str]: ...


class Networks(Protocol):
    async def ensure_network(self, network: Network) -> bool:
        """Defined and active as described. True when something changed."""
        ...

    async def ensure_bridge_network(self, name: str, bridge: str) -> bool:
        """Show an existing bridge under `name`, for installers that ask libvirt for their bridges."""
        ...

    async def active(self) -> set[str]: ...
