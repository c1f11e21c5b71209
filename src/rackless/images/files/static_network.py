"""Static addresses from a network_data.json (OpenStack's format, Metal3's networkData), in the deploy ramdisk and on a node.

    static_network.py --now FILE            set them with ip; prints the interfaces that DHCP should leave alone
    static_network.py --networkd FILE DIR   write units for systemd-networkd

Runs where nothing but Python's standard library is there. What it does not know it says, and leaves to DHCP.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

STATIC = ("ipv4", "ipv6")


def by_mac(data: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The static networks of each link, by the link's MAC."""
    macs = {link["id"]: link["ethernet_mac_address"].lower() for link in data.get("links") or () if _plain(link)}
    found: dict[str, list[dict[str, Any]]] = {}
    for network in data.get("networks") or ():
        if network.get("type") in STATIC and network.get("link") in macs:
            found.setdefault(macs[network["link"]], []).append(network)
    return found


def _plain(link: dict[str, Any]) -> bool:
    return link.get("type") not in ("bond", "vlan") and bool(link.get("ethernet_mac_address"))


def address(network: dict[str, Any]) -> str:
    """The address with its prefix length, however the netmask is written."""
    given = str(network["ip_address"])
    if "/" in given:
        return str(ipaddress.ip_interface(given))
    return f"{given}/{_prefix(given, network.get('netmask'))}"


def _prefix(given: str, netmask: Any) -> int:
    version = ipaddress.ip_address(given).version
    if netmask is None:
        return 24 if version == 4 else 64
    if version == 4 or ":" not in str(netmask):
        return ipaddress.ip_network(f"{'0.0.0.0' if version == 4 else '::'}/{netmask}").prefixlen
    return bin(int(ipaddress.IPv6Address(netmask))).count("1")


def routes(network: dict[str, Any]) -> list[tuple[str, str]]:
    """Pairs of destination and gateway."""
    found = []
    anywhere = "0.0.0.0/0" if network["type"] == "ipv4" else "::/0"
    if network.get("gateway"):
        found.append((anywhere, str(network["gateway"])))
    for route in network.get("routes") or ():
        to = str(route["network"])
        if "/" not in to:
            to = f"{to}/{_prefix(to, route.get('netmask'))}"
        found.append((str(ipaddress.ip_network(to)), str(route["gateway"])))
    return list(dict.fromkeys(found))


def name_servers(data: dict[str, Any]) -> list[str]:
    services = list(data.get("services") or ())
    for network in data.get("networks") or ():
        services += network.get("services") or ()
    return list(dict.fromkeys(str(each["address"]) for each in services if each.get("type") == "dns"))


def commands(mac: str, networks: list[dict[str, Any]], interface: str, mtu: Any = None) -> list[list[str]]:
    """The arguments of each `ip` command to run."""
    found = [["link", "set", interface, "up", *(["mtu", str(mtu)] if mtu else [])]]
    for network in networks:
        found.append(["addr", "replace", address(network), "dev", interface])
    for network in networks:
        for to, gateway in routes(network):
            found.append(["route", "replace", to, "via", gateway, "dev", interface])
    return found


def units(data: dict[str, Any]) -> dict[str, str]:
    """Files for systemd-networkd, by name."""
    mtus, servers, found = _mtus(data), name_servers(data), {}
    for number, (mac, networks) in enumerate(sorted(by_mac(data).items())):
        lines = ["[Match]", f"MACAddress={mac}", "", "[Link]", *([f"MTUBytes={mtus[mac]}"] if mtus.get(mac) else [])]
        lines += ["", "[Network]", "DHCP=no", "IPv6AcceptRA=no"]
        lines += [f"Address={address(network)}" for network in networks]
        lines += [f"DNS={server}" for server in servers]
        for network in networks:
            for to, gateway in routes(network):
                lines += ["", "[Route]", f"Destination={to}", f"Gateway={gateway}"]
        found[f"10-static-{number}.network"] = "\n".join([*lines, ""])
    return found


def _mtus(data: dict[str, Any]) -> dict[str, Any]:
    return {link["ethernet_mac_address"].lower(): link.get("mtu") for link in data.get("links") or () if _plain(link)}


def interfaces(root: Path = Path("/sys/class/net")) -> dict[str, str]:
    """The computer's interfaces, by MAC."""
    found = {}
    for path in sorted(root.iterdir()):
        if (path / "device").exists():
            found[(path / "address").read_text().strip().lower()] = path.name
    return found


def set_now(data: dict[str, Any]) -> list[str]:
    there, mtus, done = interfaces(), _mtus(data), []
    for mac, networks in by_mac(data).items():
        if mac not in there:
            sys.stderr.write(f"no interface has the MAC {mac}\n")
            continue
        for command in commands(mac, networks, there[mac], mtus.get(mac)):
            subprocess.run(["ip", *command], check=True)
        done.append(f"{there[mac]} {address(networks[0]).partition('/')[0]}")
    if servers := name_servers(data):
        Path("/etc/resolv.conf").write_text("".join(f"nameserver {server}\n" for server in servers))
    return done


def main(arguments: list[str]) -> None:
    data = json.loads(Path(arguments[1]).read_text())
    if arguments[0] == "--now":
        sys.stdout.write("".join(f"{line}\n" for line in set_now(data)))
    else:
        for name, content in units(data).items():
            Path(arguments[2], name).write_text(content)


if __name__ == "__main__":
    main(sys.argv[1:])
