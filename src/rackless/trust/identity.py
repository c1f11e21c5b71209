"""Who a lab is: the authority of its TLS servers (BMCs, Ironic) and the passwords made for it."""

from __future__ import annotations

from dataclasses import dataclass

from rackless.run.paths import LabPaths
from rackless.trust.authority import Authority
from rackless.trust.secrets import ensure_password

USERNAME = "admin"


@dataclass(frozen=True, slots=True)
class Identity:
    paths: LabPaths

    def authority(self) -> Authority:
        return Authority.ensure(self.paths.pki, f"rackless lab {self.paths.name}")

    def password(self, what: str) -> str:
        return ensure_password(self.paths.secrets / f"{what}.password")
