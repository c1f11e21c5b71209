"""The cluster network as libvirt's network XML. Pure: golden-tested, no connection."""

from __future__ import annotations

import hashlib
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
    ET.SubElement(root, "domain", name=network.domain, localOnly="yes")
    dns = ET.SubElement(root, "dns", forwardPlainNames="no")
    wildcards: list[str] = []
    for record in network.records:
        plain = [name for name in record.names if not name.startswith("*.")]
        wildcards += [f"address=/{name[2:]}/{record.address}" for name in record.names if name.startswith("*.")]
        if plain:
            host = ET.SubElement(dns, "host", ip=str(record.address))
            for name in plain:
                ET.SubElement(host, "hostname").text = name
    ip = ET.SubElement(root, "ip", address=str(network.gateway.ip), netmask=str(network.gateway.netmask))
    dhcp = ET.SubElement(ip, "dhcp")
    for reservation in network.reservations:
        host = ET.SubElement(dhcp, "host", mac=reservation.mac, name=reservation.name, ip=str(reservation.address))
        ET.SubElement(host, "lease", expiry="0")
    options = ET.SubElement(root, f"{{{DNSMASQ}}}options")
    for value in wildcards:
        ET.SubElement(options, f"{{{DNSMASQ}}}option", value=value)
    # said outright: its default depends on the version, and a lab may have more servers than that
    ET.SubElement(options, f"{{{DNSMASQ}}}option", value=f"dhcp-lease-max={max(1000, 4 * len(network.reservations))}")
    # a comment in dnsmasq's file: networks have no metadata of their own in this libvirt
    key = hashlib.sha256(ET.tostring(root)).hexdigest()
    ET.SubElement(options, f"{{{DNSMASQ}}}option", value=f"{_KEY}{key}")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode")


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
