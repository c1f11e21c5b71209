"""apiVIPs and ingressVIPs."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.installer.install_config.config import METAL, BareMetalPlatform, Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import load_rule
from rackless.installer.install_config.values import parse_ip

_PLURAL = Release(4, 12)


def fields(config: Config) -> tuple[str, str]:
    """What the two fields are called in this release."""
    return (
        (f"{METAL}.apiVIPs", f"{METAL}.ingressVIPs")
        if config.release >= _PLURAL
        else (f"{METAL}.apiVIP", f"{METAL}.ingressVIP")
    )


def _each(config: Config, metal: BareMetalPlatform) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(what for, field, addresses)"""
    api, ingress = fields(config)
    yield "API", api, metal.api_vips
    yield "ingress", ingress, metal.ingress_vips


def place(config: Config, field: str, index: int) -> str:
    """Where the address stands in the file: in the list, or in the old singular field."""
    metal = config.values.get("platform")
    metal = metal.get("baremetal") if isinstance(metal, dict) else None
    name = field.rsplit(".", 1)[1]
    if isinstance(metal, dict) and metal.get(name) and name.endswith("s"):
        return f"{field}[{index}]"
    return field.removesuffix("s")


def present(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    for what, field, vips in _each(config, metal):
        if not vips:
            yield RuleProblem(
                field,
                f"there is no VIP for the {what} (without one the installer asks DNS, which this check does not)",
                "set it to a free address of the machine network",
                at=METAL,
            )
        elif len(vips) > 2:
            yield RuleProblem(
                field,
                f"there are {len(vips)} VIPs for the {what}, at most two are possible",
                "keep one for each family",
            )


def addresses(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    for _, field, vips in _each(config, metal):
        for index, vip in enumerate(vips[:2] if len(vips) <= 2 else ()):
            if parse_ip(vip) is None:
                yield RuleProblem(
                    field, f"{vip!r} is not an IP address", "write an IP address", at=place(config, field, index)
                )


def in_machine_network(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None or metal.user_managed:
        return
    networks = config.networking.machine_cidrs
    for what, field, vips in _each(config, metal):
        for index, vip in enumerate(vips if len(vips) <= 2 else ()):
            address = parse_ip(vip)
            if not any(address in one for one in networks):
                names = ", ".join(str(one) for one in networks)
                yield RuleProblem(
                    field,
                    f"the {what} VIP {vip} is in none of the machine networks ({names})",
                    "take an address of a machine network, or correct networking.machineNetwork",
                    at=place(config, field, index),
                )


def different(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None or metal.user_managed or len(metal.api_vips) > 2:
        return
    field, _ = fields(config)
    ingress = {parse_ip(vip) for vip in metal.ingress_vips} - {None}
    for index, vip in enumerate(metal.api_vips):
        if parse_ip(vip) in ingress:
            yield RuleProblem(
                field,
                f"{vip} is the VIP of the API and of the ingress",
                "use two addresses",
                at=place(config, field, index),
            )


def two_families(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    for what, field, vips in _each(config, metal):
        versions = [address.version for address in map(parse_ip, vips) if address]
        if len(vips) == 2 and sorted(versions) != [4, 6]:
            yield RuleProblem(
                field, f"two VIPs for the {what} must be one IPv4 and one IPv6 address", "keep one of each family"
            )


def primary_family(config: Config) -> Iterator[RuleProblem]:
    metal, networking = config.metal, config.networking
    if metal is None or not networking.dual_stack:
        return
    lists = {
        "machine": networking.machine_cidrs,
        "service": networking.service_cidrs,
        "cluster": networking.cluster_cidrs,
    }
    for what, field, vips in _each(config, metal):
        if not 1 <= len(vips) <= 2:
            continue
        address = parse_ip(vips[0])
        version = address.version if address else 4
        wrong = [name for name, cidrs in lists.items() if cidrs and cidrs[0].version != version]
        if wrong:
            yield RuleProblem(
                field,
                f"the first VIP for the {what} is IPv{version}, but the first {' and '.join(wrong)} network is not",
                "put the same family first in all of them",
                at=place(config, field, 0),
            )


RULES = (
    load_rule("vip-present", present),
    load_rule("vip-address", addresses),
    load_rule("vip-in-machine-network", in_machine_network),
    load_rule("vip-different", different),
    load_rule("vip-two-families", two_families),
    load_rule("vip-primary-family", primary_family),
)
