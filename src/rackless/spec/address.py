"""Addresses of either family. Every value that carries one has this type; today `spec.units` lets IPv4 in and says so of IPv6."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network

Ip = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network
IpInterface = IPv4Interface | IPv6Interface
