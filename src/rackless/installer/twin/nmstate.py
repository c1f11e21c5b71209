"""What a host's networkConfig (NMState) says: its address in the machine network, the NIC that has it, its gateway. Pure."""

from __future__ import annotations

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


def read(config: Any, machine: IPv4Network) -> HostNetwork:
    if not isinstance(config, dict):
        return HostNetwork()
    interfaces = [one for one in _list(config.get("interfaces")) if isinstance(one, dict)]
    wires = [one for one in interfaces if one.get("type") in (None, "", "ethernet")]
    found = next(((one, address) for one in interfaces if (address := _address(one, machine)) is not None), None)
    gateway = _gateway(config, machine)
    if found is None:
        return HostNetwork(gateway=gateway, nics=max(len(wires), 1))
    interface, address = found
    vlan = interface.get("vlan")
    tag = vlan.get("id") if isinstance(vlan, dict) else None
    return HostNetwork(
        address,
        str(interface.get("mac-address") or ""),
        gateway,
        max(len(wires), 1),
        str(interface.get("type") or "ethernet"),
        tag if isinstance(tag, int) and not isinstance(tag, bool) else None,
    )


def _address(interface: dict[str, Any], machine: IPv4Network) -> IPv4Address | None:
    family = interface.get("ipv4")
    if not isinstance(family, dict) or family.get("enabled") is False or family.get("dhcp") is True:
        return None
    for one in _list(family.get("address")):
        address = parse_ip(str(one.get("ip"))) if isinstance(one, dict) else None
        if isinstance(address, IPv4Address) and address in machine:
            return address
    return None


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
