"""Values with a unit or a rule, parsed once and typed for ever."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B?|B)?\s*", re.IGNORECASE)
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NAME = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
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


def _parse_cidr(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return IPv4Network(value)
    except ValueError as error:
        raise ValueError(f"{value!r} is not an IPv4 network, such as 192.168.111.0/24 ({error})") from error


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
    IPv4Network, BeforeValidator(_parse_cidr), WithJsonSchema({"type": "string", "examples": ["192.168.111.0/24"]})
]
