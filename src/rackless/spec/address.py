"""IP addresses, IPv4 or IPv6. Every field that holds one has this type; `spec.units` accepts IPv4 today and refuses IPv6,
saying so."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network

Ip = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network
IpInterface = IPv4Interface | IPv6Interface
