"""What a host's networkConfig (NMState) says: its address in the machine network and the NIC that has it, its gateway, its name
servers. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from rackless.installer.install_config.values import parse_ip


@dataclass(frozen=True, slots=True)
class HostNetwork:
    address: IPv4Address | None = None
    mac: str = ""
    """Of the NIC itself, where the file names it."""
    gateway: IPv4Address | None = None
    nics: int = 1
    """Ethernet interfaces that the file knows."""
    kind: str = ""
    """Of the interface that has the address: ethernet, bond, vlan, …"""
    vlan: int | None = None
    prefix: int | None = None
    """Of the address, in bits."""
    mtu: int | None = None
    name_servers: tuple[IPv4Address, ...] = ()


def read(config: Any, machine: IPv4Network) -> HostNetwork:
    if not isinstance(config, dict):
        return HostNetwork()
    interfaces = [one for one in _list(config.get("interfaces")) if isinstance(one, dict)]
    wires = [one for one in interfaces if one.get("type") in (None, "", "ethernet")]
    found = next(((one, place) for one in interfaces if (place := _address(one, machine)) is not None), None)
    gateway, servers = _gateway(config, machine), tuple(_name_servers(config))
    if found is None:
        return HostNetwork(gateway=gateway, nics=max(len(wires), 1), name_servers=servers)
    interface, (address, prefix) = found
    vlan = interface.get("vlan")
    return HostNetwork(
        address,
        str(interface.get("mac-address") or ""),
        gateway,
        max(len(wires), 1),
        str(interface.get("type") or "ethernet"),
        _integer(vlan.get("id")) if isinstance(vlan, dict) else None,
        prefix,
        _integer(interface.get("mtu")),
        servers,
    )


def _address(interface: dict[str, Any], machine: IPv4Network) -> tuple[IPv4Address, int | None] | None:
    """And its prefix length."""
    family = interface.get("ipv4")
    if not isinstance(family, dict) or family.get("enabled") is False or family.get("dhcp") is True:
        return None
    for one in _list(family.get("address")):
        address = parse_ip(str(one.get("ip"))) if isinstance(one, dict) else None
        if isinstance(address, IPv4Address) and address in machine:
            return address, _integer(one.get("prefix-length"))
    return None


def _name_servers(config: dict[str, Any]) -> Iterator[IPv4Address]:
    resolver = config.get("dns-resolver")
    wanted = resolver.get("config") if isinstance(resolver, dict) else None
    for one in _list(wanted.get("server")) if isinstance(wanted, dict) else []:
        if isinstance(address := parse_ip(str(one)), IPv4Address):
            yield address


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _gateway(config: dict[str, Any], machine: IPv4Network) -> IPv4Address | None:
    routes = config.get("routes")
    for route in _list(routes.get("config")) if isinstance(routes, dict) else []:
        if isinstance(route, dict) and route.get("destination") == "0.0.0.0/0":
            hop = parse_ip(str(route.get("next-hop-address")))
            if isinstance(hop, IPv4Address) and hop in machine:
                return hop
    return None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
