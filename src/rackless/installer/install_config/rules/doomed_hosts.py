"""Hosts that the installer takes and that will never become nodes."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address

from rackless.installer.install_config import bmc_address
from rackless.installer.install_config.config import MANAGED, Config, HostEntry
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import doubt_rule, fatal_rule
from rackless.installer.install_config.rules.hosts import mtus
from rackless.installer.install_config.rules.provisioning import schemes_without_network
from rackless.installer.install_config.values import is_multicast_mac, parse_ip, parse_mac

_NMSTATE = frozenset(
    "interfaces routes route-rules dns-resolver ovs-db ovn hostname description capture desiredState".split()
)


def boot_macs(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    own = {
        parse_mac(metal.external_mac): "externalMACAddress",
        parse_mac(metal.provisioning_mac): "provisioningMACAddress",
    }
    seen: dict[str, HostEntry] = {}
    for host in config.hosts:
        mac = parse_mac(host.boot_mac)
        reason = ""
        if not host.boot_mac:
            continue
        if mac is None:
            reason = f"{host.boot_mac!r} is not a MAC address; the installer never looks"
        elif is_multicast_mac(mac):
            reason = f"{host.boot_mac} is a multicast address"
        elif mac in own:
            reason = f"{host.boot_mac} is {own[mac]} of the bootstrap VM"
        elif mac in seen and seen[mac].boot_mac != host.boot_mac:
            reason = f"{host.boot_mac} is the MAC of {seen[mac].name}, only written differently"
        if mac:
            seen.setdefault(mac, host)
        if reason:
            yield RuleProblem(
                f"{host.path}.bootMACAddress",
                reason,
                "write the MAC of the NIC the host boots from",
                at=f"{host.at}.bootMACAddress",
            )


def bmc_addresses(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    seen: dict[tuple[str, int, str], HostEntry] = {}
    for host in config.hosts:
        path, at = f"{host.path}.bmc.address", f"{host.at}.bmc.address"
        if not host.bmc_address:
            continue
        try:
            address = bmc_address.parse(host.bmc_address)
        except bmc_address.BmcAddressError as error:
            if not metal.disabled or config.release < Release(4, 11):
                yield RuleProblem(
                    path,
                    f"{error}; the installer does not look, the Metal3 operator will",
                    "write redfish-virtualmedia+https://HOST/redfish/v1/Systems/1, or ipmi://HOST",
                    at=at,
                )
            continue
        if not address.host:
            yield RuleProblem(path, f"{host.bmc_address!r} names no host", "write SCHEME://HOST/…", at=at)
        if address.scheme.needs_system_path and address.path.strip("/") == "":
            yield RuleProblem(
                path, f"{host.bmc_address} lacks the path of the system", "add it, e.g. /redfish/v1/Systems/1", at=at
            )
        other = seen.setdefault(address.identity, host)
        if other is not host and other.bmc_address != host.bmc_address:
            yield RuleProblem(
                path, f"this is the BMC of {other.name}, only written differently", "every host has its own BMC", at=at
            )


def pxe_without_network(config: Config) -> Iterator[RuleProblem]:
    """The same as the installer's own rule of 4.11, for the releases that do not have it."""
    yield from schemes_without_network(config)


def role_less_masters(config: Config) -> Iterator[RuleProblem]:
    """The bootstrap's DHCP answers the listed masters only, once there is a list."""
    metal = config.metal
    if metal is None or metal.provisioning != MANAGED:
        return
    masters = [host for host in config.hosts if host.role == "master"]
    if not masters or len(masters) >= config.control_plane.replicas:
        return
    missing = config.control_plane.replicas - len(masters)
    for host in [host for host in config.hosts if not host.has_role][:missing]:
        yield RuleProblem(
            f"{host.path}.role",
            f"{host.name} becomes a master by default, but the bootstrap's DHCP answers only hosts with role: master",
            "write role: master",
            at=f"{host.at}.role" if host.role else host.at,
        )


def long_labels(config: Config) -> Iterator[RuleProblem]:
    for host in config.hosts:
        if any(len(label) > 63 for label in host.name.split(".")):
            yield RuleProblem(
                f"{host.path}.name",
                "a part of the name is longer than 63 characters: no host can be called so",
                "shorten it",
                at=f"{host.at}.name",
            )


def static_addresses(config: Config) -> Iterator[RuleProblem]:
    """Addresses in networkConfig against each other and against the addresses of the cluster."""
    metal = config.metal
    if metal is None:
        return
    taken = {parse_ip(vip): "a VIP" for vip in (*metal.api_vips, *metal.ingress_vips)}
    taken[parse_ip(metal.static_ip)] = "the bootstrap VM's"
    taken.pop(None, None)
    for host in config.hosts:
        for index, address in nmstate_addresses(host):
            if address in taken:
                yield RuleProblem(
                    f"{host.path}.networkConfig.interfaces[{index}]",
                    f"{address} of {host.name} is also {taken[address]}",
                    "every host has its own address",
                    at=f"{host.at}.networkConfig",
                )
            else:
                taken[address] = f"that of {host.name}"


def nmstate_addresses(host: HostEntry) -> Iterator[tuple[int, IPv4Address | IPv6Address]]:
    config = host.network_config
    interfaces = config.get("interfaces") if isinstance(config, dict) else None
    for index, interface in enumerate(interfaces if isinstance(interfaces, list) else ()):
        for family in ("ipv4", "ipv6"):
            block = interface.get(family) if isinstance(interface, dict) else None
            entries = block.get("address") if isinstance(block, dict) else None
            for entry in entries if isinstance(entries, list) else ():
                text = entry.get("ip") if isinstance(entry, dict) else None
                address = parse_ip(text) if isinstance(text, str) else None
                if address and not address.is_link_local:
                    yield index, address


def quoted_mtu(config: Config) -> Iterator[RuleProblem]:
    for host in config.hosts:
        for index, mtu in mtus(host):
            if isinstance(mtu, str):
                yield RuleProblem(
                    f"{host.path}.networkConfig.interfaces[{index}].mtu",
                    "a quoted mtu makes NMState fail on the host",
                    "remove the quotes",
                    at=f"{host.at}.networkConfig",
                )


def nmstate_form(config: Config) -> Iterator[RuleProblem]:
    for host in config.hosts:
        content = host.network_config
        if not isinstance(content, dict):
            continue
        at = f"{host.at}.networkConfig"
        unknown = [name for name in content if name not in _NMSTATE]
        if unknown:
            yield RuleProblem(
                f"{host.path}.networkConfig",
                f"NMState does not know {', '.join(unknown)}",
                "see nmstate.io for its fields",
                at=at,
            )
        interfaces = content.get("interfaces")
        if interfaces is None:
            yield RuleProblem(
                f"{host.path}.networkConfig",
                "it has no interfaces, so it configures nothing",
                "list the interfaces",
                at=at,
            )
        for index, one in enumerate(interfaces if isinstance(interfaces, list) else ()):
            if not isinstance(one, dict) or not one.get("name"):
                yield RuleProblem(
                    f"{host.path}.networkConfig.interfaces[{index}]", "the interface has no name", "add name", at=at
                )


def profiles(config: Config) -> Iterator[RuleProblem]:
    known = ("", "default", "unknown", "empty", "libvirt", "dell", "dell-raid", "openstack")
    for host in config.hosts:
        if host.hardware_profile not in known:
            yield RuleProblem(
                f"{host.path}.hardwareProfile",
                f"there is no hardware profile {host.hardware_profile!r}",
                "remove it; use rootDeviceHints",
                at=f"{host.at}.hardwareProfile",
            )


RULES = (
    fatal_rule("boot-mac", boot_macs),
    fatal_rule("bmc-address-works", bmc_addresses),
    fatal_rule("pxe-without-network", pxe_without_network, until=Release(4, 10)),
    fatal_rule("role-less-masters", role_less_masters),
    fatal_rule("long-label", long_labels),
    fatal_rule("static-address-taken", static_addresses),
    fatal_rule("quoted-mtu", quoted_mtu, until=Release(4, 19)),
    doubt_rule("nmstate-form", nmstate_form),
    doubt_rule("hardware-profile", profiles),
)
