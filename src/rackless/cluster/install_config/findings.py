"""What a check says: findings with their place, and the installer's verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from rackless.cluster.install_config.release import Release

if TYPE_CHECKING:
    from rackless.cluster.install_config.config import Config


class Severity(StrEnum):
    ERROR = "error"
    """The installer rejects it."""
    FATAL_LATER = "fatal-later"
    """The installer accepts it, and it cannot work."""
    WARNING = "warning"


class Phase(Enum):
    """Where the installer stops, in the order it comes to them."""

    UNMARSHAL = "unmarshal"
    CONVERT = "convert"
    PANIC = "panic"
    LOAD = "load"
    CLUSTER = "cluster"


PHASE_ORDER = tuple(Phase)
PHASE_WORDS = {
    Phase.UNMARSHAL: "rejected while reading the file",
    Phase.CONVERT: "rejected while converting old fields",
    Phase.PANIC: "the installer panics",
    Phase.LOAD: "rejected on load, by every command",
    Phase.CLUSTER: "rejected only in `create cluster`, after install-config.yaml has been consumed",
}


@dataclass(frozen=True, slots=True)
class Problem:
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
    phase: Phase | None = None


Check = Callable[["Config"], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the installer (`phase`), or of experience (no phase: it accepts what the rule finds)."""

    name: str
    check: Check
    severity: Severity = Severity.ERROR
    phase: Phase | None = None
    since: Release | None = None
    until: Release | None = None

    def holds_in(self, release: Release) -> bool:
        return not (self.since and release < self.since) and not (self.until and release > self.until)


def load_rule(name: str, check: Check, since: Release | None = None, until: Release | None = None) -> Rule:
    return Rule(name, check, Severity.ERROR, Phase.LOAD, since, until)


def cluster_rule(name: str, check: Check, since: Release | None = None, until: Release | None = None) -> Rule:
    return Rule(name, check, Severity.ERROR, Phase.CLUSTER, since, until)


def fatal_rule(name: str, check: Check, since: Release | None = None, until: Release | None = None) -> Rule:
    return Rule(name, check, Severity.FATAL_LATER, None, since, until)


def doubt_rule(name: str, check: Check, since: Release | None = None, until: Release | None = None) -> Rule:
    return Rule(name, check, Severity.WARNING, None, since, until)


@dataclass(frozen=True, slots=True)
class Report:
    release: Release
    findings: tuple[Finding, ...]

    @property
    def rejected_at(self) -> Phase | None:
        phases = {finding.phase for finding in self.findings if finding.severity is Severity.ERROR}
        return next((phase for phase in PHASE_ORDER if phase in phases), None)

    @property
    def accepted(self) -> bool:
        return self.rejected_at is None

    @property
    def clean(self) -> bool:
        """Nothing above a warning."""
        return all(finding.severity is Severity.WARNING for finding in self.findings)
