"""Values with a unit or a rule, parsed once and typed for ever."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network, summarize_address_range
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from rackless.spec.address import Ip, IpNetwork

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B?|B)?\s*", re.IGNORECASE)
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")
_NAME = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
_DEVICE = re.compile(r"(?!\.{1,2}$)[^\s/:]{1,15}")
_DOMAIN = re.compile(r"(?=.{1,200}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


def parse_size(value: Any) -> int:
    """`2GiB`, `2 GB`, `512M` or a number of bytes; always powers of two, as memory is sold."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a size is a number with a unit, such as 2GiB or 512MiB")
    if isinstance(value, int):
        return value
    match = _SIZE.fullmatch(value)
    if not match:
        raise ValueError(f"{value!r} is not a size; write a number with a unit, such as 2GiB or 512MiB")
    unit = (match[2] or "").upper().removesuffix("B").removesuffix("I")
    return int(float(match[1]) * _FACTORS[unit])


def render_size(size: int) -> str:
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B"


def _check_name(limit: int) -> AfterValidator:
    def check(value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError(f"{value!r} is not a name; use lower-case letters, digits and '-', a letter first")
        if len(value) > limit:
            raise ValueError(f"{value!r} is too long; {limit} characters at most")
        return value

    return AfterValidator(check)


def _check_domain(value: str) -> str:
    if not _DOMAIN.fullmatch(value):
        raise ValueError(f"{value!r} is not a domain name, such as lab.test")
    return value


def _check_device(value: str) -> str:
    if not _DEVICE.fullmatch(value):
        raise ValueError(f"{value!r} is not the name of a network device, such as eth1 or br0")
    return value


def _parse_cidr(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        found = ip_network(value)
    except ValueError as error:
        raise ValueError(f"{value!r} is not an IPv4 network, such as 192.168.111.0/24 ({error})") from error
    return _only_four(found)


def _parse_address(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        found = ip_address(value)
    except ValueError as error:
        raise ValueError(f"{value!r} is not an IPv4 address, such as 192.168.111.5") from error
    return _only_four(found)


def _only_four(found: Ip | IpNetwork) -> Ip | IpNetwork:
    if found.version == 6:
        raise ValueError(f"{found} is IPv6, which labs do not have yet; give an IPv4 one")
    return found


def _refuse_several(value: Any) -> Any:
    if isinstance(value, list | tuple):
        raise ValueError("several networks (dual stack) are not possible yet; give one IPv4 network")
    return value


def _parse_range(value: Any) -> Any:
    if isinstance(value, str):
        first, dash, last = value.partition("-")
        if not dash:
            raise ValueError(f"{value!r} is not a range, such as 192.168.111.10-192.168.111.19")
        value = (first.strip(), last.strip())
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError("a range has a first and a last address, such as 192.168.111.10-192.168.111.19")
    begin, end = (ip_address(str(_parse_address(part))) for part in value)
    if int(end) < int(begin):
        raise ValueError(f"the range ends at {end}, before it starts at {begin}")
    return begin, end


def split_range(value: str) -> list[IpNetwork]:
    """The networks that a range of addresses is made of."""
    first, last = _parse_range(value)
    return list(summarize_address_range(first, last))


def _check_mac(value: str) -> str:
    mac = value.lower().replace("-", ":")
    if not _MAC.fullmatch(mac):
        raise ValueError(f"{value!r} is not a MAC address, such as 52:54:00:12:34:56")
    if int(mac[:2], 16) & 1:
        raise ValueError(f"{value!r} is a group address; the first byte of a NIC's MAC is even")
    return mac


def _check_record(value: str) -> str:
    bare = value.removeprefix("*.").removesuffix(".")
    if not _DOMAIN.fullmatch(bare):
        raise ValueError(f"{value!r} is not a name for a record, such as registry or *.dev")
    return value


Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(render_size, return_type=str),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["2GiB"]}),
]
LabName = Annotated[str, _check_name(32)]
GroupName = Annotated[str, _check_name(24)]
DomainName = Annotated[str, AfterValidator(_check_domain)]
Cidr = Annotated[
    IpNetwork,
    BeforeValidator(_parse_cidr),
    BeforeValidator(_refuse_several),
    WithJsonSchema({"type": "string", "examples": ["192.168.111.0/24"]}),
]
Address = Annotated[
    Ip, BeforeValidator(_parse_address), WithJsonSchema({"type": "string", "examples": ["192.168.111.5"]})
]
AddressRange = Annotated[
    tuple[Ip, Ip],
    BeforeValidator(_parse_range),
    PlainSerializer(lambda pair: f"{pair[0]}-{pair[1]}", return_type=str),
    WithJsonSchema({"type": "string", "examples": ["192.168.111.10-192.168.111.19"]}),
]
Mac = Annotated[str, AfterValidator(_check_mac)]
RecordName = Annotated[str, AfterValidator(_check_record)]
InterfaceName = Annotated[str, _check_name(15)]
"""Linux takes 15 characters for the name of a link."""
DeviceName = Annotated[str, AfterValidator(_check_device)]
"""Of a link that others have named: whatever Linux takes."""
