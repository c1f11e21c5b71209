"""From Metal3's BMC address to Ironic's driver, interfaces and `driver_info`. Pure.

    redfish-virtualmedia[+http|+https]://host[:port][/redfish/v1/Systems/1]   the agent boots from an ISO
    redfish[+http|+https]://host[:port][/redfish/v1/Systems/1]                it boots over the network, by iPXE
    ipmi://host[:port][?privilegelevel=…], or only host[:port]                the same, with IPMI

The schemes mean what they mean to Metal3. Its others are for hardware this engine has no drivers for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from rackless.ports.provisioner import BmcLogin, HostAccess

VIRTUAL_MEDIA, IPXE = "redfish-virtual-media", "ipxe"
_SCHEMES = {
    # scheme: Ironic's driver, its boot interface
    "redfish-virtualmedia": ("redfish", VIRTUAL_MEDIA),
    "ilo5-virtualmedia": ("redfish", VIRTUAL_MEDIA),
    "redfish": ("redfish", IPXE),
    "ilo5-redfish": ("redfish", IPXE),
    "ipmi": ("ipmi", IPXE),
    "libvirt": ("ipmi", IPXE),
}
_TOOLS = {"redfish": "redfish", "ipmi": "ipmitool"}


class BadAddress(ValueError):
    """An address no host can be reached by; the text says what would be right."""


@dataclass(frozen=True, slots=True)
class Driver:
    """How Ironic drives one host."""

    name: str
    boot: str
    info: dict[str, Any] = field(repr=False)

    @property
    def over_network(self) -> bool:
        return self.boot == IPXE

    @property
    def interfaces(self) -> dict[str, str]:
        tool = _TOOLS[self.name]
        return {
            "boot_interface": self.boot,
            "deploy_interface": "direct",
            "inspect_interface": "agent",
            "management_interface": tool,
            "power_interface": tool,
        }


def find_driver(bmc: BmcLogin) -> Driver:
    """Raises BadAddress."""
    parts, port = _parse(bmc.address)
    scheme, _, transport = parts.scheme.partition("+")
    if scheme not in _SCHEMES:
        raise BadAddress(
            f"{bmc.address or 'an empty address'} is not a BMC address this engine can use: it knows "
            f"redfish-virtualmedia://{parts.netloc or 'host'}/redfish/v1/Systems/1, redfish://… and ipmi://…"
        )
    name, boot = _SCHEMES[scheme]
    info = _ipmi(bmc, parts, port) if name == "ipmi" else _redfish(bmc, parts, port, transport)
    # Off and on through the BMC instead of a reboot: Ironic waits 15 s after a Redfish reboot.
    return Driver(name, boot, {**info, "deploy_forces_oob_reboot": True})


def require_bootable(driver: Driver, host: HostAccess, *, network_boot: bool) -> None:
    """Raises BadAddress for a host that could only boot from a network it does not have."""
    if driver.over_network and not network_boot:
        raise BadAddress(
            f"{host.bmc.address} boots over the network, and there is none to boot from: use a redfish-virtualmedia:// "
            "address, or, with the lab's own Ironic, networks.provisioning.mode: managed"
        )
    if driver.over_network and host.network is not None:
        raise BadAddress(
            f"{host.bmc.address} boots over the network, which takes DHCP: static addresses are told by virtual media only"
        )
    if driver.over_network and not host.boot_mac:
        raise BadAddress(f"{host.bmc.address} boots over the network, which needs the host's bootMACAddress")


def _parse(address: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(address if "://" in address or not address else f"ipmi://{address}")
        port = parts.port
    except ValueError as error:
        raise BadAddress(f"{address} is not a BMC address: {error}") from error
    if parts.scheme and (not parts.hostname or parts.username or parts.fragment):
        raise BadAddress(f"{address} is not a BMC address: what is wanted is scheme://host[:port][/path]")
    return parts, port


def _redfish(bmc: BmcLogin, parts: SplitResult, port: int | None, transport: str) -> dict[str, Any]:
    if transport not in ("", "http", "https"):
        raise BadAddress(f"{bmc.address} is not a BMC address: +{transport} is neither +http nor +https")
    if parts.query:
        raise BadAddress(f"{bmc.address} is not a BMC address: what is wanted is scheme://host[:port][/path]")
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    system = parts.path.rstrip("/")
    return {
        "redfish_address": f"{transport or 'https'}://{host}:{port}" if port else f"{transport or 'https'}://{host}",
        **({"redfish_system_id": system} if system not in ("", "/redfish/v1") else {}),
        "redfish_username": bmc.username,
        "redfish_password": bmc.password,
        "redfish_verify_ca": str(bmc.ca) if bmc.ca and bmc.verify else bmc.verify,
    }


def _ipmi(bmc: BmcLogin, parts: SplitResult, port: int | None) -> dict[str, Any]:
    if "+" in parts.scheme or parts.path not in ("", "/"):
        raise BadAddress(f"{bmc.address} is not a BMC address: what is wanted is ipmi://host[:port]")
    level = parse_qs(parts.query).get("privilegelevel", ["ADMINISTRATOR"])[0]
    return {
        "ipmi_address": parts.hostname,
        "ipmi_port": port or 623,
        "ipmi_username": bmc.username,
        "ipmi_password": bmc.password,
        "ipmi_priv_level": level,
    }
