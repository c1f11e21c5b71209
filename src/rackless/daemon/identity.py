"""Who a lab is: its certificate authority and the passwords made for it."""

from __future__ import annotations

from dataclasses import dataclass

from rackless.lab.certificates import Authority
from rackless.lab.secrets import ensure_password
from rackless.run.paths import LabPaths

USERNAME = "admin"


@dataclass(frozen=True, slots=True)
class Identity:
    paths: LabPaths

    def authority(self) -> Authority:
        return Authority.ensure(self.paths.pki, f"rackless lab {self.paths.name}")

    def password(self, what: str) -> str:
        return ensure_password(self.paths.secrets / f"{what}.password")
