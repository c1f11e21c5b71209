"""Private keys of certificates and tokens: P-256, in PEM, in files that only their owner reads."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

PrivateKey = ec.EllipticCurvePrivateKey
DAMAGED = (OSError, ValueError, TypeError, UnsupportedAlgorithm)
"""What the library raises at a file that is absent, empty, half or of another kind."""


def make_key() -> PrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_key(file: Path) -> PrivateKey:
    """Raises one of `DAMAGED`."""
    key = serialization.load_pem_private_key(file.read_bytes(), None)
    if not isinstance(key, PrivateKey):
        raise ValueError("it is not a key on an elliptic curve")
    return key
