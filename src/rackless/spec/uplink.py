"""The way out of a lab, and what near the hypervisor it may reach."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_network
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema, model_validator

from rackless.spec.address import IpNetwork
from rackless.spec.change import Change, setting
from rackless.spec.value import Value

HOST = "host"
"""The word for the hypervisor itself, whose addresses are many and change."""


class Uplink(StrEnum):
    NONE = "none"
    NAT = "nat"


@dataclass(frozen=True, slots=True)
class Reach:
    """Something the lab may reach: one address or a network, all of it or one port; or a port of the hypervisor."""

    network: IpNetwork | None
    """None is the hypervisor, at any of its addresses."""
    port: int | None = None
    """TCP and UDP; None is everything."""

    def __str__(self) -> str:
        if self.network is None:
            return f"{HOST}:{self.port}"
        single = self.network.prefixlen == self.network.max_prefixlen
        where = str(self.network.network_address if single else self.network)
        return where if self.port is None else f"{where}:{self.port}"


def parse_reach(value: Any) -> Any:
    """`192.168.1.5`, `10.0.0.0/8`, either with `:PORT` behind it, or `host:PORT`."""
    if isinstance(value, Reach):
        return value
    if not isinstance(value, str):
        raise ValueError("say what may be reached, such as 192.168.1.5:443 or host:5000")
    where, colon, digits = value.partition(":")
    if colon and not (digits.isascii() and digits.isdigit() and 1 <= int(digits) <= 65535):
        raise ValueError(f"{value!r} has no port from 1 to 65535 behind its colon, such as 192.168.1.5:443")
    port = int(digits) if colon else None
    if where == HOST:
        if port is None:
            raise ValueError("name a port of the hypervisor, such as host:5000; not all of it at once")
        return Reach(None, port)
    try:
        network = ip_network(where)
    except ValueError as error:
        raise ValueError(
            f"{value!r} is neither an IPv4 address or network, such as 192.168.1.5 or 10.0.0.0/8:443, nor host:PORT"
        ) from error
    return Reach(network, port)


ReachEntry = Annotated[
    Reach,
    BeforeValidator(parse_reach),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["192.168.1.5:443", "10.0.0.0/8", "host:5000"]}),
]


class UplinkSpec(Value):
    """The way out. `uplink: nat` is short for a mapping with that mode."""

    mode: Uplink = setting(
        "`none`, or `nat`: through the hypervisor (a veth pair and masquerading, taken away with the lab). Where only `reach` is "
        "given it is `nat`.",
        Change.LIVE,
        default=Uplink.NONE,
    )
    reach: tuple[ReachEntry, ...] = setting(
        "What near the hypervisor the lab may reach: addresses and networks, with `:PORT` only that port, and `host:PORT` "
        "for a service of the hypervisor itself. Otherwise an uplink leads to the Internet only: not to the hypervisor, not "
        "to the networks it is in, not to private or link-local addresses (a cloud's metadata). The name servers that "
        "the lab asks, a `provisioner` and URLs of images need not be named again.",
        Change.LIVE,
        default=(),
    )

    @model_validator(mode="before")
    @classmethod
    def _take_the_short_form(cls, given: Any) -> Any:
        if isinstance(given, str):
            return {"mode": given}
        if isinstance(given, dict) and given.get("reach") and "mode" not in given:
            return {**given, "mode": Uplink.NAT}
        return given
