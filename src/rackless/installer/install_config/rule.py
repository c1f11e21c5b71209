"""A rule: a function from a config to what is wrong with it, in which releases, and how bad that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rackless.installer.install_config.config import Config
from rackless.installer.install_config.findings import InstallerPhase, RuleProblem, Severity
from rackless.installer.install_config.release import Release

Check = Callable[[Config], Iterator[RuleProblem]]


@dataclass(frozen=True, slots=True)
class ConfigRule:
    """One rule of the installer (`phase`), or of experience (no phase: it accepts what the rule finds)."""

    name: str
    check: Check
    severity: Severity = Severity.ERROR
    phase: InstallerPhase | None = None
    since: Release | None = None
    until: Release | None = None

    def holds_in(self, release: Release) -> bool:
        return not (self.since and release < self.since) and not (self.until and release > self.until)


def load_rule(name: str, check: Check, since: Release | None = None, until: Release | None = None) -> ConfigRule:
    return ConfigRule(name, check, Severity.ERROR, InstallerPhase.LOAD, since, until)


def cluster_rule(name: str, check: Check, since: Release | None = None, until: Release | None = None) -> ConfigRule:
    return ConfigRule(name, check, Severity.ERROR, InstallerPhase.CLUSTER, since, until)


def fatal_rule(name: str, check: Check, since: Release | None = None, until: Release | None = None) -> ConfigRule:
    return ConfigRule(name, check, Severity.FATAL_LATER, None, since, until)


def doubt_rule(name: str, check: Check, since: Release | None = None, until: Release | None = None) -> ConfigRule:
    return ConfigRule(name, check, Severity.WARNING, None, since, until)
