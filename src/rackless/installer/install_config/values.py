"""Small values read the way the installer (Go) reads them: addresses, networks, MACs, names.

Each function returns the value, or None where the installer would say it is not one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*\Z")
_MAC = re.compile(
    r"([0-9a-f]{2})([:-])(?:[0-9a-f]{2}\2){4}[0-9a-f]{2}\Z|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}\Z", re.IGNORECASE
)


def parse_ip(text: str) -> Address | None:
    if "%" in text:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network as it was written: the host bits are kept, since the installer complains about them."""

    address: Address
    prefix: int

    @property
    def network(self) -> Network:
        return ip_network(f"{self.address}/{self.prefix}", strict=False)

    @property
    def version(self) -> int:
        return self.address.version

    @property
    def has_host_bits(self) -> bool:
        return self.network.network_address != self.address

    def __contains__(self, address: object) -> bool:
        return isinstance(address, IPv4Address | IPv6Address) and address in self.network

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"


def parse_cidr(text: str) -> Cidr | None:
    head, slash, tail = text.partition("/")
    address = parse_ip(head)
    if not slash or address is None or not re.fullmatch(r"[0-9]{1,4}", tail):
        return None
    prefix = int(tail)
    return Cidr(address, prefix) if prefix <= address.max_prefixlen else None


def overlap(one: Cidr, other: Cidr) -> bool:
    """As the installer sees it: one holds the first address of the other (as written, host bits and all)."""
    return other.address in one or one.address in other


def edge_of(network: Network, address: Address) -> str:
    """'network' or 'broadcast' where the address is one nobody can use in that network, else ''."""
    if address == network.network_address and network.prefixlen < network.max_prefixlen - 1:
        return "network"
    if network.version == 4 and network.prefixlen < 31 and address == network.broadcast_address:
        return "broadcast"
    return ""


def parse_mac(text: str) -> str | None:
    """The canonical form (lower case, colons) of an EUI-48 address."""
    if not _MAC.match(text):
        return None
    digits = re.sub(r"[^0-9a-f]", "", text.lower())
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def is_multicast_mac(mac: str) -> bool:
    return bool(int(mac[:2], 16) & 1)


def is_subdomain(text: str) -> bool:
    """RFC 1123 subdomain as Kubernetes reads it: 253 characters, labels of any length."""
    return len(text) <= 253 and bool(_SUBDOMAIN.match(text))


def is_domain(text: str) -> bool:
    return is_subdomain(text.removesuffix("."))
