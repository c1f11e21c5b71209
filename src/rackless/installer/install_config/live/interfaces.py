"""The hypervisor's network interfaces, from the kernel's own files and ioctls: which one sees an address."""

from __future__ import annotations

import fcntl
import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Address, IPv6Interface
from pathlib import Path

from rackless.installer.install_config.values import Address

_SIOCGIFADDR, _SIOCGIFNETMASK, _SIOCGIFHWADDR = 0x8915, 0x891B, 0x8927
_IF_INET6 = Path("/proc/net/if_inet6")


@dataclass(frozen=True, slots=True)
class Interface:
    name: str
    mac: bytes
    addresses: tuple[IPv4Interface | IPv6Interface, ...]

    def sees(self, address: Address) -> bool:
        return any(own.version == address.version and address in own.network for own in self.addresses)

    def has(self, address: Address) -> bool:
        return any(own.ip == address for own in self.addresses)


def observe() -> tuple[Interface, ...]:
    v6 = _v6_addresses()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        made = []
        for _, name in socket.if_nameindex():
            mac = _ask(handle, _SIOCGIFHWADDR, name)
            if mac is not None:
                own = [*_v4_addresses(handle, name), *v6.get(name, ())]
                made.append(Interface(name, mac[18:24], tuple(own)))
    return tuple(made)


def facing(address: Address, preferred: str, known: tuple[Interface, ...]) -> Interface | None:
    """The interface in whose network the address lies; else the one the install-config names, if it is here."""
    seeing = [one for one in known if one.sees(address)]
    by_name = [one for one in known if one.name == preferred]
    return next((one for one in seeing if one.name == preferred), None) or (seeing + by_name or [None])[0]  # type: ignore[list-item]


def _ask(handle: socket.socket, what: int, name: str) -> bytes | None:
    try:
        return fcntl.ioctl(handle, what, struct.pack("256s", name.encode()[:15]))
    except OSError:
        return None


def _v4_addresses(handle: socket.socket, name: str) -> list[IPv4Interface]:
    address, mask = _ask(handle, _SIOCGIFADDR, name), _ask(handle, _SIOCGIFNETMASK, name)
    if address is None or mask is None:
        return []
    return [IPv4Interface(f"{socket.inet_ntoa(address[20:24])}/{socket.inet_ntoa(mask[20:24])}")]


def _v6_addresses(source: Path = _IF_INET6) -> dict[str, list[IPv6Interface]]:
    found: dict[str, list[IPv6Interface]] = {}
    try:
        lines = source.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        digits, _, prefix, _, _, name = line.split()
        found.setdefault(name, []).append(IPv6Interface((IPv6Address(int(digits, 16)), int(prefix, 16))))
    return found
