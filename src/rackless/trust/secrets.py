"""Passwords and ssh keys of a lab: made once, kept 0600, named by what they open."""

from __future__ import annotations

import secrets
import string
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from rackless.run.files import write, write_secret

_LETTERS = string.ascii_letters + string.digits
_LENGTH = 16
"""What IPMI's oldest clients take; 95 bits."""


@dataclass(frozen=True, slots=True)
class SshKey:
    private: Path
    public: str


def ensure_password(path: Path) -> str:
    """An empty file is none: a power cut may leave one where an older program wrote."""
    if not path.exists() or not path.read_text().strip():
        write_secret(path, "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH)) + "\n")
    return path.read_text().strip()


def ensure_ssh_key(path: Path, comment: str) -> SshKey:
    """An ed25519 key pair in OpenSSH's format: `path` and `path.pub`."""
    public = path.with_name(path.name + ".pub")
    if not (path.exists() and public.exists() and _readable(path) and public.read_text().strip()):
        key = ed25519.Ed25519PrivateKey.generate()
        write_secret(
            path,
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
            ),
        )
        text = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        write(public, f"{text.decode()} {comment}\n")
    return SshKey(path, public.read_text().strip())


def _readable(path: Path) -> bool:
    try:
        serialization.load_ssh_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True
