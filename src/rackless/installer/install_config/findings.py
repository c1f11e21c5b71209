"""What a check says: findings with their place, and the installer's verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from rackless.installer.install_config.release import Release


class Severity(StrEnum):
    ERROR = "error"
    """The installer rejects it."""
    FATAL_LATER = "fatal-later"
    """The installer accepts it, and it cannot work."""
    WARNING = "warning"


class InstallerPhase(Enum):
    """Where the installer stops, in the order it comes to them."""

    UNMARSHAL = "unmarshal"
    CONVERT = "convert"
    PANIC = "panic"
    LOAD = "load"
    CLUSTER = "cluster"


PHASE_ORDER = tuple(InstallerPhase)
PHASE_WORDS = {
    InstallerPhase.UNMARSHAL: "rejected while reading the file",
    InstallerPhase.CONVERT: "rejected while converting old fields",
    InstallerPhase.PANIC: "the installer panics",
    InstallerPhase.LOAD: "rejected on load, by every command",
    InstallerPhase.CLUSTER: "rejected only in `create cluster`, after install-config.yaml has been consumed",
}


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """What a rule found. `path` is the installer's; `at` the path in the file where that differs."""

    path: str
    message: str
    fix: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    path: str
    line: int
    column: int
    message: str
    fix: str
    rule: str
    phase: InstallerPhase | None = None


@dataclass(frozen=True, slots=True)
class CheckReport:
    release: Release
    findings: tuple[Finding, ...]

    @property
    def rejected_at(self) -> InstallerPhase | None:
        phases = {finding.phase for finding in self.findings if finding.severity is Severity.ERROR}
        return next((phase for phase in PHASE_ORDER if phase in phases), None)

    @property
    def accepted(self) -> bool:
        return self.rejected_at is None

    @property
    def clean(self) -> bool:
        """Nothing above a warning."""
        return all(finding.severity is Severity.WARNING for finding in self.findings)
