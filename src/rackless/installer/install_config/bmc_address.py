"""BMC addresses: which driver a scheme means, and what it can do (Metal3's hardware library, as vendored)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rackless.installer.install_config import go_url
from rackless.installer.install_config.values import parse_ip

_HOST = re.compile(
    r"(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9\-]{0,61}[A-Za-z0-9])\Z"
)


@dataclass(frozen=True, slots=True)
class Scheme:
    driver: str
    boot: str
    secure_boot: bool
    needs_provisioning_network: bool
    needs_system_path: bool = False
    transports: tuple[str, ...] = ("http", "https")


def _redfish(driver: str, boot: str = "ipxe") -> Scheme:
    return Scheme(driver, boot, True, boot == "ipxe", needs_system_path=True)


SCHEMES: dict[str, Scheme] = {
    "ipmi": Scheme("ipmi", "ipxe", False, True, transports=()),
    "libvirt": Scheme("ipmi", "ipxe", False, True, transports=()),
    "redfish": _redfish("redfish"),
    "ilo5-redfish": _redfish("redfish"),
    "idrac-redfish": _redfish("idrac"),
    "redfish-virtualmedia": _redfish("redfish", "redfish-virtual-media"),
    "ilo5-virtualmedia": _redfish("redfish", "redfish-virtual-media"),
    "idrac-virtualmedia": _redfish("idrac", "idrac-redfish-virtual-media"),
    "idrac": Scheme("idrac", "ipxe", False, True),
    "ilo4": Scheme("ilo", "ilo-ipxe", True, True, transports=("https",)),
    "ilo5": Scheme("ilo5", "ilo-ipxe", True, True, transports=("https",)),
    "ilo4-virtualmedia": Scheme("ilo", "ilo-virtual-media", True, False, transports=("https",)),
    "irmc": Scheme("irmc", "ipxe", True, True, transports=()),
    "ibmc": Scheme("ibmc", "ipxe", False, True),
}


class BmcAddressError(ValueError):
    """What the installer would say of the address."""


@dataclass(frozen=True, slots=True)
class BmcAddress:
    name: str
    scheme: Scheme
    transport: str
    host: str
    port: int
    path: str

    @property
    def identity(self) -> tuple[str, int, str]:
        """Two addresses with the same identity are the same host, however they are written."""
        return (self.host.lower(), self.port, self.path.rstrip("/"))

    @property
    def is_redfish(self) -> bool:
        return self.scheme.needs_system_path

    @property
    def virtual_media(self) -> bool:
        return not self.scheme.needs_provisioning_network


def parse(address: str) -> BmcAddress:
    if not address:
        raise BmcAddressError("missing BMC address")
    url = _url(address)
    if url.host and parse_ip(url.host) is None and not _HOST.match(url.host):
        raise BmcAddressError(
            f"failed to parse BMC address information: BMC address hostname/IP : [{url.host}] is invalid"
        )
    name, plus, transport = url.scheme.partition("+")
    scheme = SCHEMES.get(name)
    if scheme is None or (plus and transport not in scheme.transports):
        raise BmcAddressError(f"Unknown BMC type '{url.scheme}' for address {address}")
    if not transport:
        transport = "udp" if scheme.driver == "ipmi" else "https"
    default = {"udp": 623, "http": 80}.get(transport, 443)
    return BmcAddress(name, scheme, transport, url.host, int(url.port or default), url.path)


def _url(address: str) -> go_url.Url:
    failed = "failed to parse BMC address information: "
    try:
        url = go_url.parse(address)
    except go_url.UrlError as error:
        # not a URL, but it may be host:port, which means IPMI
        host, colon, port = address.rpartition(":")
        if ":" in address and (not colon or (":" in host.strip("[]") and not host.startswith("["))):
            raise BmcAddressError(failed + str(error)) from error
        return go_url.Url("ipmi", host.strip("[]") or address, port if port.isdigit() else "", "", "")
    try:
        if url.opaque:
            url = go_url.parse(address.replace(":", "://", 1))
        if not url.scheme and not url.host:
            url = go_url.parse("ipmi://" + address)
    except go_url.UrlError as error:
        raise BmcAddressError(failed + str(error)) from error
    return url
