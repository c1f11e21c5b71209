"""Static addresses of a host, as its Secrets give them: OpenStack's network_data, which Metal3 calls networkData. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any

STATIC = ("ipv4", "ipv6")
TYPES = (*STATIC, "ipv4_dhcp", "ipv6_dhcp", "ipv6_slaac")


def problem(data: Mapping[str, Any]) -> str:
    """Why these addresses cannot be given to the deploy ramdisk; empty when they can."""
    return next(_problems(data), "")


def _problems(data: Mapping[str, Any]) -> Iterator[str]:
    for name in ("links", "networks", "services"):
        if not isinstance(data.get(name), list):
            yield f"{name} is not a list"
            return
    links = {}
    for link in data["links"]:
        if not isinstance(link, dict) or not link.get("id"):
            yield "a link without an id"
            return
        if link.get("type") in ("bond", "vlan"):
            yield f"the link {link['id']} is a {link['type']}, which the deploy ramdisk does not make"
        elif not link.get("ethernet_mac_address"):
            yield f"the link {link['id']} has no ethernet_mac_address"
        links[link["id"]] = link
    for network in data["networks"]:
        name = network.get("id") or "without an id" if isinstance(network, dict) else "that is no mapping"
        if not isinstance(network, dict) or network.get("type") not in TYPES:
            yield f"the type of the network {name} is none of {', '.join(TYPES)}"
        elif network.get("link") not in links:
            yield f"the network {name} is on the link {network.get('link')}, which is not there"
        elif network["type"] in STATIC and not _address(network.get("ip_address")):
            yield f"the ip_address of the network {name} is no address"


def _address(text: Any) -> bool:
    try:
        return bool(ip_address(str(text).partition("/")[0]))
    except ValueError:
        return False
