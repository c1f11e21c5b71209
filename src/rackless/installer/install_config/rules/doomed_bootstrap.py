"""A bootstrap VM that the installer starts and that no host will reach."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.installer.install_config.config import METAL, Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import fatal_rule
from rackless.installer.install_config.values import edge_of, parse_ip

_IP, _GATEWAY, _DNS = (f"{METAL}.bootstrapExternalStatic{part}" for part in ("IP", "Gateway", "DNS"))


def static_values(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    for path, value in ((_IP, metal.static_ip), (_GATEWAY, metal.static_gateway), (_DNS, metal.static_dns)):
        if value and parse_ip(value) is None:
            yield RuleProblem(path, f"{value!r} is not an IP address; the installer never looks", "write an IP address")


def static_place(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    address = parse_ip(metal.static_ip) if metal else None
    if metal is None or address is None:
        return
    gateway = parse_ip(metal.static_gateway)
    home = next((one for one in config.networking.machine_cidrs if address in one), None)
    if home is None:
        yield RuleProblem(
            _IP,
            f"{address} is in no machine network; the installer then guesses a mask (the classful one, or /64)",
            "take an address of a machine network",
        )
        return
    edge = edge_of(home.network, address)
    if edge:
        yield RuleProblem(_IP, f"{address} is the {edge} address of {home}", "take another address")
    if gateway and gateway not in home:
        yield RuleProblem(
            _GATEWAY,
            f"the gateway {gateway} is not in {home}, the network of the bootstrap VM",
            "take the gateway of that network",
        )
    if gateway == address:
        yield RuleProblem(_GATEWAY, f"{gateway} is the bootstrap VM itself", "take the address of the router")


def one_bridge(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal and not metal.disabled and metal.external_bridge == metal.provisioning_bridge:
        yield RuleProblem(
            f"{METAL}.provisioningBridge",
            f"{metal.provisioning_bridge} is also externalBridge: two DHCP servers would meet on one network",
            "use two bridges, or provisioningNetwork: Disabled",
        )


RULES = (
    fatal_rule("static-bootstrap-values", static_values, since=Release(4, 11)),
    fatal_rule("static-bootstrap-place", static_place, since=Release(4, 11)),
    fatal_rule("one-bridge", one_bridge),
)
