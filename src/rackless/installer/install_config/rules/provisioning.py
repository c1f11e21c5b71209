"""The provisioning network, which the installer checks only in `create cluster`."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.installer.install_config import bmc_address
from rackless.installer.install_config.config import DISABLED, MANAGED, METAL, BareMetalPlatform, Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import cluster_rule
from rackless.installer.install_config.values import Address, edge_of, is_domain, overlap, parse_ip


def _with_network(config: Config) -> BareMetalPlatform | None:
    metal = config.metal
    return metal if metal and metal.provisioning != DISABLED and metal.cidr else None


def addresses(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    machine = config.networking.machine_cidrs
    for name, value in (("bootstrapProvisioningIP", metal.bootstrap_ip), ("clusterProvisioningIP", metal.cluster_ip)):
        address, path = parse_ip(value), f"{METAL}.{name}"
        if metal.disabled:
            if value and not any(address in one for one in machine):
                yield RuleProblem(
                    path,
                    f"without a provisioning network {value} must be in a machine network",
                    "take an address of a machine network, or remove it",
                )
            continue
        if metal.cidr and address not in metal.cidr:
            yield RuleProblem(
                path,
                f"{value} is not in the provisioning network {metal.cidr}",
                "take an address of that network, or remove it",
            )
        if name.startswith("bootstrap") and address and any(address in one for one in machine):
            yield RuleProblem(path, f"{value} is in a machine network", "take an address of the provisioning network")


def network(config: Config) -> Iterator[RuleProblem]:
    metal, path = _with_network(config), f"{METAL}.provisioningNetworkCIDR"
    if metal is None or metal.cidr is None:
        return
    cidr = metal.cidr
    if metal.provisioning == MANAGED and cidr.version == 6 and cidr.prefix < 64:
        yield RuleProblem(path, f"{cidr} is too large: the DHCP server can serve /64 or less", "use a /64")
    if cidr.has_host_bits:
        yield RuleProblem(
            path, f"{cidr} has bits set beyond its prefix; the network is {cidr.network}", f"write {cidr.network}"
        )
    for other in config.networking.machine_cidrs:
        if cidr.version == other.version and overlap(cidr, other):
            yield RuleProblem(
                path,
                f"{cidr} overlaps the machine network {other}",
                "choose another network",
                at=path if metal.written_cidr else METAL,
            )


def gateway(config: Config) -> Iterator[RuleProblem]:
    metal, path = _with_network(config), f"{METAL}.provisioningNetworkGateway"
    address = parse_ip(metal.gateway) if metal else None
    if metal is None or metal.cidr is None or address is None:
        return
    if address not in metal.cidr:
        yield RuleProblem(
            path, f"{address} is not in the provisioning network {metal.cidr}", "take an address of that network"
        )
        return
    if address == parse_ip(metal.cluster_ip):
        yield RuleProblem(path, f"{address} is also clusterProvisioningIP", "use two addresses")
    edge = edge_of(metal.cidr.network, address) if address.version == 4 else ""
    if edge:
        yield RuleProblem(path, f"{address} is the {edge} address of {metal.cidr}", "take another address")
    bounds = dhcp_bounds(metal)
    if bounds and bounds[0] <= address <= bounds[1]:  # type: ignore[operator]
        yield RuleProblem(path, f"{address} lies in the DHCP range", "move the range or the gateway")


def dhcp_bounds(metal: BareMetalPlatform) -> tuple[Address, Address] | None:
    parts = [parse_ip(part) for part in metal.dhcp_range.split(",")]
    if len(parts) != 2 or parts[0] is None or parts[1] is None or parts[0].version != parts[1].version:
        return None
    return parts[0], parts[1]


def dhcp_range(config: Config) -> Iterator[RuleProblem]:
    metal, path = _with_network(config), f"{METAL}.provisioningDHCPRange"
    if metal is None or metal.cidr is None or not metal.dhcp_range:
        return
    reason = _bad_range(metal)
    if reason:
        yield RuleProblem(path, reason, f"write START,END with two addresses of {metal.cidr.network}")
        return
    bounds = dhcp_bounds(metal)
    for name, value in (("clusterProvisioningIP", metal.cluster_ip), ("bootstrapProvisioningIP", metal.bootstrap_ip)):
        address = parse_ip(value)
        if bounds and address and address.version == bounds[0].version and bounds[0] <= address <= bounds[1]:  # type: ignore[operator]
            yield RuleProblem(
                f"{METAL}.{name}", f"{value} lies in the DHCP range {metal.dhcp_range}", "move the range or the address"
            )


def _bad_range(metal: BareMetalPlatform) -> str:
    parts = metal.dhcp_range.split(",")
    if len(parts) != 2:
        return f"{metal.dhcp_range!r} is not two addresses"
    if parts[0] == "<nil>":
        return f"{metal.cidr} is too small for the default range, which begins at the tenth address"
    for part in parts:
        address = parse_ip(part)
        if address is None:
            return f"{part!r} is not an IP address" + (" (no spaces)" if part != part.strip() else "")
        if metal.cidr and address not in metal.cidr:
            return f"{part} is not in the provisioning network {metal.cidr}"
    return ""


def ntp(config: Config) -> Iterator[RuleProblem]:
    metal = _with_network(config)
    for index, one in enumerate(metal.ntp_servers if metal else ()):
        if parse_ip(one) is None and not is_domain(one):
            yield RuleProblem(
                METAL,
                f"the time server {one!r} is neither an address nor a domain name",
                "correct it",
                at=f"{METAL}.additionalNTPServers[{index}]",
            )


def interface(config: Config) -> Iterator[RuleProblem]:
    metal = _with_network(config)
    if metal and not metal.interface:
        yield RuleProblem(
            f"{METAL}.provisioningNetworkInterface",
            f"{config.release} must be told the hosts' NIC on the provisioning network",
            "name it, e.g. enp1s0",
            at=METAL,
        )


def schemes_without_network(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None or not metal.disabled:
        return
    for host in config.hosts:
        try:
            address = bmc_address.parse(host.bmc_address)
        except bmc_address.BmcAddressError as error:
            if host.bmc_address:
                yield RuleProblem(
                    f"{host.path}.bmc",
                    str(error),
                    "write an address such as redfish-virtualmedia+https://HOST/redfish/v1/Systems/1",
                    at=f"{host.at}.bmc.address",
                )
            continue
        if address.scheme.needs_provisioning_network:
            yield RuleProblem(
                f"{host.path}.bmc",
                f"{address.name} boots by PXE, which needs a provisioning network, and that is Disabled",
                "use redfish-virtualmedia (or idrac-/ilo5-virtualmedia)",
                at=f"{host.at}.bmc.address",
            )


RULES = (
    cluster_rule("provisioning-ip", addresses),
    cluster_rule("provisioning-network", network),
    cluster_rule("provisioning-gateway", gateway, since=Release(4, 22)),
    cluster_rule("provisioning-dhcp-range", dhcp_range),
    cluster_rule("ntp-servers", ntp, since=Release(4, 18)),
    cluster_rule("provisioning-interface", interface, until=Release(4, 8)),
    cluster_rule("bmc-scheme", schemes_without_network, since=Release(4, 11)),
)
