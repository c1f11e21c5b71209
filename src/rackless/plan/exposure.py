"""Port forwards of `rackless expose` as values: which port of the hypervisor leads to which address and port inside a lab. Pure.

A forward is known by its protocol and by where it listens: two labs never share one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal

from rackless.plan.model import LabPlan

What = Literal["bmc", "api", "cluster", "apps", "ssh"]
Protocol = Literal["tcp", "udp"]
LOOPBACK = "127.0.0.1"
PORTS = range(17000, 18000)
"""The range for ports that nobody named: below the kernel's ephemeral ports, above those of the labs' APIs."""
API_PORT = 6443


@dataclass(frozen=True, slots=True)
class InnerPlace:
    """An address and port inside the lab that can be exposed, by TCP, by UDP or by both."""

    what: What
    name: str
    """The server's name, or what it is: `api`, `https`."""
    address: str
    tcp: int | None = None
    udp: int | None = None
    host: str = ""
    """Its DNS name, which its certificate is valid for."""


@dataclass(frozen=True, slots=True)
class Forward:
    what: What
    name: str
    protocol: Protocol
    address: str
    port: int
    """Where the hypervisor listens."""
    target: str
    target_port: int
    host: str = ""

    @property
    def id(self) -> str:
        return f"{self.protocol}/{self.place}"

    @property
    def place(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def outside(self) -> bool:
        """Whether others than this computer can reach it."""
        return not ip_address(self.address).is_loopback


def places(plan: LabPlan, what: What) -> list[InnerPlace]:
    """The places of this kind that can be exposed, in the order of the servers."""
    match what:
        case "bmc":
            return [
                InnerPlace("bmc", s.name, str(s.bmc_address), s.redfish_port, s.ipmi_port, bmc_name(s.name, plan))
                for s in plan.servers
            ]
        case "ssh":
            return [InnerPlace("ssh", s.name, str(s.address), 22, host=s.fqdn) for s in plan.servers]
        case "api":
            return [InnerPlace("api", "api", str(plan.gateway.ip), API_PORT)]
        case "cluster":
            return [InnerPlace("cluster", "cluster", str(plan.api_vip), API_PORT, host=f"api.{plan.domain}")]
        case "apps":
            vip, host = str(plan.ingress_vip), f"*.apps.{plan.domain}"
            return [InnerPlace("apps", "https", vip, 443, host=host), InnerPlace("apps", "http", vip, 80, host=host)]


def bmc_name(server: str, plan: LabPlan) -> str:
    """The DNS name in a BMC's certificate, for clients that reach it at another address than its own."""
    return f"{server}-bmc.{plan.domain}"


def forwards(
    wanted: Sequence[InnerPlace],
    address: str,
    first: int | None,
    taken: Collection[int],
    known: Collection[Forward] = (),
) -> list[Forward]:
    """One port for each place: `first` and those after it, else the first that are free; one that is exposed there already
    keeps its port. Raises LookupError when there are not enough."""
    kept = {(one.what, one.name): one.port for one in known if one.address == address}
    free = iter(range(first, 65536)) if first is not None else (port for port in PORTS if port not in taken)
    found: list[Forward] = []
    for place in wanted:
        port = kept.get((place.what, place.name)) if first is None else None
        if port is None:
            port = next(free, None)
        if port is None:
            raise LookupError(f"there is no free port for {place.name}")
        found += _of(place, address, port)
    return found


def _of(place: InnerPlace, address: str, port: int) -> Iterator[Forward]:
    if place.tcp is not None:
        yield Forward(place.what, place.name, "tcp", address, port, place.address, place.tcp, place.host)
    if place.udp is not None:
        yield Forward(place.what, place.name, "udp", address, port, place.address, place.udp, place.host)


def hosts_lines(known: Sequence[Forward]) -> list[str]:
    """For /etc/hosts. A wildcard has no line there."""
    lines = [f"{one.address} {one.host}" for one in known if one.host and not one.host.startswith("*")]
    return list(dict.fromkeys(lines))


def dnsmasq_lines(known: Sequence[Forward]) -> list[str]:
    """For dnsmasq, alone or as NetworkManager runs it: a name and all below it."""
    lines = [f"address=/{one.host.removeprefix('*.')}/{one.address}" for one in known if one.host]
    return list(dict.fromkeys(lines))
