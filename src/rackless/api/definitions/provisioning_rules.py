"""What OpenShift's cluster-baremetal-operator refuses of a Provisioning, in its words; here the server itself refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import parse_qs, urlsplit

from rackless.api.kinds.kind import Writing
from rackless.api.status import Cause, Json, invalid_value

NAME = "provisioning-configuration"
Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


def provisioning_problems(writing: Writing) -> list[Cause]:
    if writing.subresource:
        return []
    spec = writing.new.get("spec") or {}
    found = list(_problems(spec))
    if writing.new["metadata"]["name"] != NAME:
        found.append(("metadata.name", f'Provisioning object is a singleton and must be named "{NAME}"'))
    return [
        invalid_value(path, spec.get(path.removeprefix("spec."), writing.new["metadata"]["name"]), why)
        for path, why in found
    ]


def mode_of(spec: Json) -> str:
    return spec.get("provisioningNetwork") or ("Unmanaged" if spec.get("provisioningDHCPExternal") else "Managed")


def _problems(spec: Json) -> Iterator[tuple[str, str]]:
    mode = mode_of(spec)
    yield from _image(spec.get("provisioningOSDownloadURL") or "")
    given, cidr = spec.get("provisioningIP") or "", spec.get("provisioningNetworkCIDR") or ""
    if mode == "Disabled" and not given and not cidr:
        return
    own = _address(given)
    if own is None:
        yield "spec.provisioningIP", f'could not parse provisioningIP "{given}"'
    elif mode == "Managed":
        network = _network(cidr)
        if network is None:
            yield "spec.provisioningNetworkCIDR", f'could not parse provisioningNetworkCIDR "{cidr}"'
        else:
            yield from _managed(spec, own, network)
    if mode == "Managed" and not spec.get("provisioningDHCPRange"):
        yield "spec.provisioningDHCPRange", "provisioningDHCPRange is required in Managed mode but is not set"


def _image(url: str) -> Iterator[tuple[str, str]]:
    if not url:
        return
    at, parts = "spec.provisioningOSDownloadURL", urlsplit(url)
    if not parts.scheme and not parts.path.startswith("/"):
        yield at, f'the provisioningOSDownloadURL provided: "{url}" is invalid'
        return
    if parts.scheme not in ("http", "https"):
        yield at, f'unsupported scheme "{parts.scheme}" in provisioningOSDownloadURL {url}'
        return
    checksum = parse_qs(parts.query).get("sha256", [""])[0]
    if not checksum:
        yield at, f'the sha256 parameter in the provisioningOSDownloadURL "{url}" is missing'
    elif len(checksum) != 64:
        yield at, f'the sha256 parameter in the provisioningOSDownloadURL "{url}" is invalid'
    # the operator takes compressed ones only; the node image is not, and Ironic here takes it as it is
    if not parts.path.endswith((".qcow2.gz", ".qcow2.xz", ".qcow2")):
        yield (
            at,
            f'the provisioningOSDownloadURL provided: "{url}" is an OS image and must end in .qcow2.gz or .qcow2.xz',
        )


def _managed(spec: Json, own: Address, network: Network) -> Iterator[tuple[str, str]]:
    cidr = spec["provisioningNetworkCIDR"]
    if network.version == 6 and network.prefixlen < 64:
        why = "provisioningNetworkCIDR mask must be greater than or equal to 64 for managed IPv6 networks"
        yield "spec.provisioningNetworkCIDR", why
    if own not in network:
        why = f'provisioningIP "{own}" is not in the range defined by the provisioningNetworkCIDR "{cidr}"'
        yield "spec.provisioningIP", why
    gateway = None
    if text := spec.get("provisioningNetworkGateway"):
        gateway = _address(text)
        yield from _gateway(text, gateway, own, network)
        if gateway is None:
            return
    yield from _range(spec.get("provisioningDHCPRange") or "", own, gateway, network)


def _gateway(text: str, gateway: Address | None, own: Address, network: Network) -> Iterator[tuple[str, str]]:
    at = "spec.provisioningNetworkGateway"
    if gateway is None:
        yield at, f'could not parse provisioningNetworkGateway "{text}"'
        return
    if gateway not in network:
        yield (
            at,
            f'provisioningNetworkGateway "{text}" is not in the range defined by the provisioningNetworkCIDR "{network}"',
        )
    if gateway == own:
        yield at, f'provisioningNetworkGateway "{text}" cannot be the same as provisioningIP "{own}"'
    unusable = {network.network_address} | ({network.broadcast_address} if network.version == 4 else set())
    if gateway in unusable and not (network.version == 4 and network.prefixlen >= 31):
        yield at, f'provisioningNetworkGateway "{text}" is not a usable host address (network or broadcast address)'


def _range(text: str, own: Address, gateway: Address | None, network: Network) -> Iterator[tuple[str, str]]:
    if not text:
        return
    at = "spec.provisioningDHCPRange"
    parts = text.replace(", ", ",").split(",")
    if len(parts) != 2:
        yield at, f'"{text}" is not a valid provisioningDHCPRange.  DHCP range format: start_ip,end_ip'
        return
    ends = []
    for part in parts:
        if (end := _address(part)) is None:
            yield at, f'could not parse provisioningDHCPRange, "{part}" is not a valid IP'
            return
        if end not in network:
            yield (
                at,
                f'invalid provisioningDHCPRange, IP "{end}" is not part of the provisioningNetworkCIDR "{network}"',
            )
        ends.append(end)
    first, last = map(int, ends)
    if first <= int(own) <= last:
        why = f'invalid provisioningIP "{own}", value must be outside of the provisioningDHCPRange "{text}"'
        yield "spec.provisioningIP", why
    if gateway is not None and first <= int(gateway) <= last:
        why = f'invalid provisioningNetworkGateway "{gateway}", value must be outside of the provisioningDHCPRange "{text}"'
        yield "spec.provisioningNetworkGateway", why


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None
