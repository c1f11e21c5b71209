"""The validity (not before, not after) of a certificate, read out of its DER encoding, which is not trusted to be well formed."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

_SEQUENCE, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x30, 0x17, 0x18, 0xA0


def validity(pem: str) -> tuple[int, int]:
    """Seconds since 1970. Raises ValueError."""
    start, end = pem.find("-----BEGIN CERTIFICATE-----"), pem.find("-----END CERTIFICATE-----")
    if start < 0 or end < 0:
        raise ValueError("no certificate in PEM")
    der = ssl.PEM_cert_to_DER_cert(pem[start : end + len("-----END CERTIFICATE-----")])
    try:
        signed = _inside(_inside(der, _SEQUENCE), _SEQUENCE)
        fields = _split(signed)
        if fields[0][0] == _VERSION:
            fields = fields[1:]
        tag, times = fields[3]  # after serial number, algorithm and issuer
        if tag != _SEQUENCE:
            raise ValueError("no validity")
        first, last = _split(times)
    except IndexError:
        raise ValueError("a certificate that ends early") from None
    return _moment(*first), _moment(*last)


def _inside(data: bytes, tag: int) -> bytes:
    found, content, _ = _take(data)
    if found != tag:
        raise ValueError(f"not a certificate: {found:#x} where {tag:#x} should be")
    return content


def _split(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while data:
        tag, content, data = _take(data)
        found.append((tag, content))
    return found


def _take(data: bytes) -> tuple[int, bytes, bytes]:
    tag, length, at = data[0], data[1], 2
    if length & 0x80:
        at += length & 0x7F
        length = int.from_bytes(data[2:at], "big")
    if len(data) < at + length:
        raise IndexError
    return tag, data[at : at + length], data[at + length :]


def _moment(tag: int, content: bytes) -> int:
    digits = content.decode("ascii").removesuffix("Z")
    if tag == _UTC_TIME:
        digits = ("19" if digits[:2] >= "50" else "20") + digits
    elif tag != _GENERALIZED_TIME:
        raise ValueError("a time in no known form")
    if len(digits) != 14 or not digits.isdigit():
        raise ValueError(f"no time: {content!r}")
    parts = [int(digits[:4]), *(int(digits[at : at + 2]) for at in range(4, 14, 2))]
    year, month, day, hour, minute, second = parts
    return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp())
