"""A host's addresses in NMState, as an installer's `networkConfig` has them, told as network_data. Pure.

The deploy ramdisk and the node image read network_data: fixed addresses, routes and name servers of NICs that are known by their
MACs. Bonds, VLANs and bridges they do not make: NMState that gives those an address is not read at all, because half of it would be
wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_interface, ip_network
from typing import Any

Json = dict[str, Any]
FAMILIES = ("ipv4", "ipv6")


class NotTold(ValueError):
    """It says something that network_data, as it is read here, cannot say."""


def to_network_data(nmstate: Mapping[str, Any], boot_mac: str) -> Json | None:
    """None where it gives no fixed address, or gives them in a way that is not read here."""
    try:
        return _translate(nmstate, boot_mac)
    except (NotTold, KeyError, TypeError, ValueError, AttributeError):
        return None


def _translate(nmstate: Mapping[str, Any], boot_mac: str) -> Json | None:
    interfaces = [each for each in nmstate.get("interfaces") or () if each.get("state") not in ("down", "absent")]
    wires = [each for each in interfaces if each.get("type") in (None, "", "ethernet")]
    links: list[Json] = []
    networks: list[Json] = []
    for each in interfaces:
        own = list(_addresses(each))
        if not own:
            continue
        if each not in wires:
            raise NotTold(f"{each['name']} is a {each['type']}")
        mac = each.get("mac-address") or (boot_mac if len(wires) == 1 else "")
        if not mac:
            raise NotTold(f"{each['name']} has no mac-address")
        mtu = {"mtu": int(each["mtu"])} if each.get("mtu") else {}
        links.append({"id": each["name"], "type": "phy", "ethernet_mac_address": str(mac).lower(), **mtu})
        networks += own
    if not networks:
        return None
    _add_routes(nmstate, networks)
    servers = ((nmstate.get("dns-resolver") or {}).get("config") or {}).get("server") or ()
    return {
        "links": links,
        "networks": networks,
        "services": [{"type": "dns", "address": str(server)} for server in servers],
    }


def _addresses(interface: Mapping[str, Any]) -> Iterator[Json]:
    for family in FAMILIES:
        given = interface.get(family) or {}
        if given.get("enabled") is False or given.get("dhcp") is True:
            continue
        for number, one in enumerate(given.get("address") or ()):
            address = ip_interface(f"{one['ip']}/{one['prefix-length']}")
            yield {
                "id": f"{interface['name']}-{family}-{number}",
                "type": family,
                "link": interface["name"],
                "ip_address": str(address.ip),
                "netmask": str(address.netmask),
                "routes": [],
            }


def _add_routes(nmstate: Mapping[str, Any], networks: list[Json]) -> None:
    for each in (nmstate.get("routes") or {}).get("config") or ():
        if each.get("state") == "absent":
            continue
        to, hop = ip_network(each["destination"], strict=False), str(each["next-hop-address"])
        via = each.get("next-hop-interface")
        family = f"ipv{to.version}"
        found = [one for one in networks if one["type"] == family and via in (None, one["link"])]
        if not found:
            raise NotTold(f"the route to {to} is by {via}, which has no fixed address")
        found[0]["routes"].append({"network": str(to.network_address), "netmask": str(to.netmask), "gateway": hop})
