"""Authorities and certificates as values: what `trust` keeps in a folder, here as two texts.

The one implementation is `trust.authority`; it works on folders, so a private one is lent to it for as long as it signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from rackless.installer.assets.asset import Parts
from rackless.run.files import write_secret
from rackless.trust.authority import LIFETIME, Authority, Use
from rackless.trust.keys import key_pem, make_key

OPTIONS = {"lifetime": f"{LIFETIME.days}d", "key": "P-256"}
"""What is in a certificate besides names; as the reference cluster's."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    certificate: str
    key: str = field(repr=False)

    @property
    def parts(self) -> Parts:
        return {"certificate": self.certificate, "key": self.key}


def read_pair(parts: Parts) -> KeyPair:
    return KeyPair(parts["certificate"], parts["key"])


def make_authority(name: str) -> KeyPair:
    with TemporaryDirectory(prefix="rackless-") as folder:
        authority = Authority.ensure(Path(folder), name)
        return KeyPair(authority.certificate.read_text(), (Path(folder) / "ca.key").read_text())


def sign(
    authority: KeyPair, name: str, hosts: Sequence[str] = (), *, uses: Sequence[Use], groups: Sequence[str] = ()
) -> KeyPair:
    with TemporaryDirectory(prefix="rackless-") as lent:
        folder = Path(lent)
        write_secret(folder / "ca.crt", authority.certificate)
        write_secret(folder / "ca.key", authority.key)
        leaf = Authority.ensure(folder, "").ensure_leaf("leaf", hosts, uses=uses, user=name, groups=groups)
        return KeyPair(leaf.certificate.read_text(), leaf.key.read_text())


def make_token_key() -> str:
    return key_pem(make_key()).decode()
