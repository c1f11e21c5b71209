"""A network with DHCP and DNS as libvirt's network XML. Pure: golden-tested, no connection."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from rackless.ports.fabric import Network

DNSMASQ = "http://libvirt.org/schemas/network/dnsmasq/1.0"
ET.register_namespace("dnsmasq", DNSMASQ)
_KEY = "#rackless-key="


def render(network: Network) -> str:
    root = ET.Element("network")
    ET.SubElement(root, "name").text = network.name
    # `open`: libvirt routes and adds no firewall rules; what may leave the lab is decided elsewhere
    ET.SubElement(root, "forward", mode="open")
    ET.SubElement(root, "bridge", name=network.bridge, stp="off", delay="0")
    ET.SubElement(root, "mac", address=network.mac)
    if network.mtu is not None:  # libvirt tells the clients of DHCP, too
        ET.SubElement(root, "mtu", size=str(network.mtu))
    ET.SubElement(root, "domain", name=network.domain, localOnly="yes")
    _dns(root, network)
    ip = ET.SubElement(root, "ip", address=str(network.gateway.ip), netmask=str(network.gateway.netmask))
    if network.dhcp:
        dhcp = ET.SubElement(ip, "dhcp")
        for reservation in network.reservations:
            host = ET.SubElement(dhcp, "host", mac=reservation.mac, name=reservation.name, ip=str(reservation.address))
            ET.SubElement(host, "lease", expiry="0")
    options = ET.SubElement(root, f"{{{DNSMASQ}}}options")
    for value in _options(network):
        ET.SubElement(options, f"{{{DNSMASQ}}}option", value=value)
    # a comment in dnsmasq's file: networks have no metadata of their own in this libvirt
    key = hashlib.sha256(ET.tostring(root)).hexdigest()
    ET.SubElement(options, f"{{{DNSMASQ}}}option", value=f"{_KEY}{key}")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode")


def _dns(root: ET.Element, network: Network) -> None:
    dns = ET.SubElement(root, "dns", forwardPlainNames="no")
    for forwarder in network.forwarders:
        ET.SubElement(dns, "forwarder", addr=str(forwarder))
    # libvirt takes an address once, with all its names
    names: dict[str, list[str]] = {}
    for record in network.records:
        plain = [name for name in record.names if not name.startswith("*.")]
        if plain:
            names.setdefault(str(record.address), []).extend(plain)
    for address, hostnames in names.items():
        host = ET.SubElement(dns, "host", ip=address)
        for name in hostnames:
            ET.SubElement(host, "hostname").text = name


def _options(network: Network) -> Iterator[str]:
    for record in network.records:
        yield from (f"address=/{name[2:]}/{record.address}" for name in record.names if name.startswith("*."))
    if not network.dhcp:
        return
    for tag in network.tags:
        yield from (f"dhcp-mac=set:{tag.name},{mac}" for mac in tag.macs)
    for pool in network.pools:
        only = f"tag:{pool.tag}," if pool.tag else ""
        yield f"dhcp-range={only}{pool.first},{pool.last},{network.gateway.netmask},1h"
    for handed in network.routes:
        # who gets option 121 ignores option 3, so the default route has to be in it
        only = f"tag:{handed.tag}," if handed.tag else ""
        routes = [f"0.0.0.0/0,{network.gateway.ip}", *(f"{route.to},{route.via}" for route in handed.routes)]
        yield f"dhcp-option={only}option:classless-static-route,{','.join(routes)}"
    if network.ntp:
        yield f"dhcp-option=option:ntp-server,{network.gateway.ip}"
    if not network.router:
        yield "dhcp-option=option:router"
        yield "dhcp-option=option:dns-server"
    if network.boot is not None:
        yield from network.boot.lines
    # said outright: its default depends on the version, and a lab may have more servers than that
    yield f"dhcp-lease-max={max(1000, 4 * len(network.reservations))}"


def render_bridge(name: str, bridge: str) -> str:
    """A network that only names an existing bridge."""
    root = ET.Element("network")
    ET.SubElement(root, "name").text = name
    ET.SubElement(root, "forward", mode="bridge")
    ET.SubElement(root, "bridge", name=bridge)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode")


def key_of(xml: str) -> str | None:
    for option in ET.fromstring(xml).iter(f"{{{DNSMASQ}}}option"):
        value = option.get("value", "")
        if value.startswith(_KEY):
            return value.removeprefix(_KEY)
    return None


def bridge_of(xml: str) -> str | None:
    bridge = ET.fromstring(xml).find("bridge")
    return bridge.get("name") if bridge is not None else None
