"""A certificate request (PKCS #10), encoded here: importing the library's encoder is more than half of the time to make a key.

The key is made, and signs, with that library (`cryptography`), as everywhere; only the request around it is encoded here.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Sequence

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_SEQUENCE, _SET, _OID, _UTF8, _OCTETS, _BITS, _ZERO = 0x30, 0x31, 0x06, 0x0C, 0x04, 0x03, b"\x02\x01\x00"
_ORGANIZATION, _COMMON_NAME = b"\x55\x04\x0a", b"\x55\x04\x03"
_EXTENSIONS = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x0e"
_ALTERNATIVE_NAMES = b"\x55\x1d\x11"
_ECDSA_SHA256 = b"\x2a\x86\x48\xce\x3d\x04\x03\x02"
_DNS, _IP = 0x82, 0x87
_ATTRIBUTES = 0xA0


def make_request(
    key: ec.EllipticCurvePrivateKey,
    user: str,
    groups: Sequence[str] = (),
    names: Sequence[str] = (),
    addresses: Sequence[str] = (),
) -> bytes:
    """In PEM."""
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    parts = [*((_ORGANIZATION, group) for group in groups), (_COMMON_NAME, user)]
    subject = _tagged(_SEQUENCE, *(_part(kind, text) for kind, text in parts))
    body = _tagged(_SEQUENCE, _ZERO, subject, public, _attributes(names, addresses))
    algorithm = _tagged(_SEQUENCE, _tagged(_OID, _ECDSA_SHA256))
    signature = _tagged(_BITS, b"\x00", key.sign(body, ec.ECDSA(hashes.SHA256())))
    text = base64.b64encode(_tagged(_SEQUENCE, body, algorithm, signature)).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join(["-----BEGIN CERTIFICATE REQUEST-----", *lines, "-----END CERTIFICATE REQUEST-----", ""]).encode()


def _attributes(names: Sequence[str], addresses: Sequence[str]) -> bytes:
    if not names and not addresses:
        return _tagged(_ATTRIBUTES)
    found = [_tagged(_DNS, name.encode("ascii")) for name in names]
    found += [_tagged(_IP, _packed(address)) for address in addresses]
    extension = _tagged(_SEQUENCE, _tagged(_OID, _ALTERNATIVE_NAMES), _tagged(_OCTETS, _tagged(_SEQUENCE, *found)))
    attribute = _tagged(_SEQUENCE, _tagged(_OID, _EXTENSIONS), _tagged(_SET, _tagged(_SEQUENCE, extension)))
    return _tagged(_ATTRIBUTES, attribute)


def _packed(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def _part(kind: bytes, text: str) -> bytes:
    return _tagged(_SET, _tagged(_SEQUENCE, _tagged(_OID, kind), _tagged(_UTF8, text.encode())))


def _tagged(tag: int, *content: bytes) -> bytes:
    whole = b"".join(content)
    if len(whole) < 0x80:
        return bytes((tag, len(whole))) + whole
    length = len(whole).to_bytes((len(whole).bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + whole
