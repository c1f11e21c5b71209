"""Networks: the links a lab is made of, and the networks with DHCP and DNS on them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from rackless.ports.booting import BootFiles
from rackless.ports.namespaces import Room
from rackless.spec.address import Ip, IpInterface, IpNetwork


@dataclass(frozen=True, slots=True)
class Bridge:
    name: str
    addresses: tuple[IpInterface, ...] = ()
    mtu: int | None = None
    """None leaves it to the kernel."""


@dataclass(frozen=True, slots=True)
class Veth:
    """A cable between two bridges."""

    name: str
    peer: str
    bridge: str
    peer_bridge: str
    mtu: int | None = None


@dataclass(frozen=True, slots=True)
class Vlan:
    """A tagged network on the wire of a bridge: the lab's own leg in it."""

    name: str
    bridge: str
    tag: int
    address: IpInterface


@dataclass(frozen=True, slots=True)
class Leg:
    """A cable from a bridge here into another network namespace, with an address at its far end."""

    name: str
    bridge: str
    inside: str
    """What the far end is called in the other namespace."""
    address: IpInterface
    gateway: Ip | None = None


@dataclass(frozen=True, slots=True)
class Impairment:
    """What happens to packets that leave by a link."""

    delay_ms: int = 0
    loss_percent: float = 0.0
    rate_bits: int | None = None
    """A second; None is as fast as it goes."""

    @property
    def plain_rate(self) -> bool:
        """Whether it is a rate and no more, which more kernels can."""
        return self.rate_bits is not None and not self.delay_ms and not self.loss_percent


@dataclass(frozen=True, slots=True)
class Route:
    to: IpNetwork
    via: Ip


@dataclass(frozen=True, slots=True)
class Reservation:
    mac: str
    name: str
    address: Ip


@dataclass(frozen=True, slots=True)
class Record:
    """One address and the names that lead to it; a name may start with `*.`."""

    address: Ip
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tag:
    """Clients of DHCP that are treated alike, by their MACs; a byte may be `*`."""

    name: str
    macs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pool:
    """Addresses that DHCP gives away; with a tag, to its clients only."""

    first: Ip
    last: Ip
    tag: str = ""


@dataclass(frozen=True, slots=True)
class HandedRoutes:
    """Static routes that DHCP hands out; with a tag, to its clients only."""

    routes: tuple[Route, ...]
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Network:
    """A network with a gateway, DHCP reservations and DNS, on a bridge of its own."""

    name: str
    bridge: str
    mac: str
    """The gateway's. It stays when the network is made anew, so that guests' ARP caches stay right."""
    gateway: IpInterface
    domain: str
    reservations: tuple[Reservation, ...]
    records: tuple[Record, ...]
    tags: tuple[Tag, ...] = ()
    pools: tuple[Pool, ...] = ()
    routes: tuple[HandedRoutes, ...] = ()
    forwarders: tuple[Ip, ...] = ()
    ntp: bool = False
    """Tell the clients that the gateway knows the time."""
    mtu: int | None = None
    """Of its bridge, told to the clients; None leaves it to the kernel."""
    dhcp: bool = True
    """Whether DHCP is answered at all."""
    router: bool = True
    """Tell the clients that the gateway leads elsewhere."""
    boot: BootFiles | None = None
    """What servers that boot from it are given, if they are."""


class Links(Protocol):
    async def ensure_loopback(self) -> None:
        """The loopback is up, and the namespace answers and forwards as a lab needs it."""
        ...

    async def ensure_bridge(self, bridge: Bridge) -> bool: ...

    async def ensure_veth(self, veth: Veth) -> bool: ...

    async def ensure_vlan(self, vlan: Vlan) -> bool: ...

    async def ensure_leg(self, leg: Leg, room: Room, behind: Bridge) -> bool:
        """A leg into another namespace, its address and way back there, and a bridge with addresses behind it."""
        ...

    async def remove(self, name: str) -> None:
        """Silent when it is not there."""
        ...

    async def differs(self, link: Bridge | Veth | Vlan) -> bool:
        """Whether it is missing, or not as described."""
        ...

    async def ensure_route(self, route: Route) -> bool: ...

    async def impair(self, name: str, wanted: Impairment | None) -> bool:
        """Have what leaves by a link be delayed, lost and slowed down, or by None nothing of it; True when it was otherwise.

        Raises HypervisorError where the kernel cannot.
        """
        ...

    async def ports(self, bridge: str) -> set[str]:
        """The links plugged into a bridge."""
        ...

    async def plug(self, bridge: str, links: Sequence[str]) -> None:
        """Plug links into a bridge; those that are gone are passed over."""
        ...

    async def names(self) -> set[str]: ...

    async def await_up(self, names: Collection[str]) -> None:
        """Until these links are operational, as far as they have carrier: programs that list interfaces look at that.

        Links that are not there, or have no carrier, are passed over. Raises GaveUp.
        """
        ...


class Networks(Protocol):
    async def ensure_network(self, network: Network) -> bool:
        """Defined and active as described; started anew when the description changed. True when something changed."""
        ...

    async def differs(self, network: Network) -> bool:
        """Whether the network is active and not as described."""
        ...

    async def ensure_bridge_network(self, name: str, bridge: str) -> bool:
        """Show an existing bridge under `name`, for installers that ask libvirt for their bridges."""
        ...

    async def revive(self, name: str) -> bool:
        """Start what answers DHCP and DNS on an active network again; False when it runs, or the network does not."""
        ...

    def server_pid(self, name: str) -> int | None:
        """The process that answers DHCP and DNS on a network."""
        ...

    async def active(self) -> set[str]: ...
