"""The check itself: text → every finding, and the installer's verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rackless.installer.install_config import building, decode, document
from rackless.installer.install_config.config import Config
from rackless.installer.install_config.findings import CheckReport, Finding, InstallerPhase, RuleProblem, Severity
from rackless.installer.install_config.release import NEWEST, Release
from rackless.installer.install_config.rule import ConfigRule
from rackless.installer.install_config.rules import ALL
from rackless.installer.install_config.site import Site


def check(text: str, release: Release = NEWEST, site: Site | None = None) -> CheckReport:
    """Every finding, also those that the installer would come to only after the first ones were mended."""
    loaded = document.load(text)
    findings = [
        Finding(Severity.ERROR, "", trouble.line, trouble.column, f"not readable as YAML: {trouble.message}",
                "correct the YAML", "yaml", InstallerPhase.UNMARSHAL)
        for trouble in loaded.troubles
    ]  # fmt: skip
    if loaded.more_documents:
        findings.append(Finding(
            Severity.WARNING, "", loaded.more_documents, 1, "the installer reads the first document only",
            "remove the rest", "one-document"))  # fmt: skip
    if loaded.root is None and loaded.troubles:
        return CheckReport(release, tuple(findings))
    decoded = decode.decode(loaded.root, release) if loaded.root else decode.Decoded({})
    findings += decoded.findings
    findings += _placed(building.conversion_problems(decoded.values), _CONVERT, decoded)
    if not any(finding.path == "" and finding.rule == "type" for finding in findings):
        config = building.build(decoded.values, release, site or Site())
        for rule in ALL:
            if rule.holds_in(release):
                findings += _placed(rule.check(config), rule, decoded)
    return CheckReport(release, tuple(_in_order(findings)))


def read_config(text: str, release: Release = NEWEST, site: Site | None = None) -> Config | None:
    """The file as the installer would hold it; None where it is not even a document of fields."""
    loaded = document.load(text)
    if loaded.root is None or loaded.root.kind != "map":
        return None
    return building.build(decode.decode(loaded.root, release).values, release, site or Site())


_CONVERT = ConfigRule("convert", lambda config: iter(()), Severity.ERROR, InstallerPhase.CONVERT)


def _placed(problems: Iterable[RuleProblem], rule: ConfigRule, decoded: decode.Decoded) -> Iterator[Finding]:
    for problem in problems:
        at = problem.at or problem.path
        if _consequence(at, decoded.dropped):
            continue
        line, column = position(at, decoded.positions)
        yield Finding(rule.severity, problem.path, line, column, problem.message, problem.fix, rule.name, rule.phase)


def _consequence(path: str, dropped: set[str]) -> bool:
    """Whether a complaint is about something that was already said to be of the wrong type."""
    return any(
        path == one or path.startswith((one + ".", one + "[")) or one.startswith((path + ".", path + "["))
        for one in dropped
    )


def position(path: str, positions: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """The place of a field, or of the nearest thing around it that is in the file."""
    while path:
        if path in positions:
            return positions[path]
        cut = max(path.rfind("."), path.rfind("["))
        path = path[:cut] if cut > 0 else ""
    return (1, 1)


def _in_order(findings: list[Finding]) -> list[Finding]:
    unique = dict.fromkeys(findings)
    return sorted(unique, key=lambda finding: (finding.line, finding.column))
