"""From Metal3's BMC address to Ironic's `driver_info` and interfaces. Pure.

    redfish-virtualmedia[+http|+https]://host[:port][/redfish/v1/Systems/1]

`redfish` without virtual media boots over the network, which this engine does not do; it is refused with the address
that would work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from rackless.ports.provisioner import BmcAccess

VIRTUAL_MEDIA = ("redfish-virtualmedia", "ilo5-virtualmedia")
INTERFACES: Mapping[str, str] = {
    "boot_interface": "redfish-virtual-media",
    "deploy_interface": "direct",
    "inspect_interface": "agent",
    "management_interface": "redfish",
    "power_interface": "redfish",
}


class BadAddress(ValueError):
    """An address no host can be reached by; the text says what would be right."""


def driver_info(bmc: BmcAccess) -> dict[str, Any]:
    """How Ironic reaches this BMC. Raises BadAddress."""
    address, system = _redfish(bmc.address)
    verify: bool | str = str(bmc.ca) if bmc.ca and bmc.verify else bmc.verify
    return {
        "redfish_address": address,
        **({"redfish_system_id": system} if system else {}),
        "redfish_username": bmc.username,
        "redfish_password": bmc.password,
        "redfish_verify_ca": verify,
        # Off and on through the BMC instead of a reboot: Ironic waits 15 s after a Redfish reboot.
        "deploy_forces_oob_reboot": True,
    }


def _redfish(address: str) -> tuple[str, str]:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise BadAddress(f"{address} is not a BMC address: {error}") from error
    scheme, _, transport = parts.scheme.partition("+")
    if scheme not in VIRTUAL_MEDIA:
        raise BadAddress(
            f"{address or 'an empty address'} is not a BMC address this engine can use: "
            f"it needs virtual media, as in redfish-virtualmedia://{parts.netloc or 'host'}/redfish/v1/Systems/1"
        )
    if transport not in ("", "http", "https"):
        raise BadAddress(f"{address} is not a BMC address: +{transport} is neither +http nor +https")
    if not parts.hostname or parts.username or parts.query or parts.fragment:
        raise BadAddress(f"{address} is not a BMC address: what is wanted is scheme://host[:port][/path]")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = f"{host}:{port}" if port else host
    path = parts.path.rstrip("/")
    return f"{transport or 'https'}://{netloc}", "" if path in ("", "/redfish/v1") else path
