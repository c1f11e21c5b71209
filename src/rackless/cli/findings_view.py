"""Findings as a person reads them: grouped, each with its line and a marker, ending with a verdict."""

from __future__ import annotations

import shutil
import textwrap

import click

from rackless.installer.install_config.findings import (
    PHASE_ORDER,
    PHASE_WORDS,
    CheckReport,
    Finding,
    InstallerPhase,
    Severity,
)

_SECRET = ("pullsecret", "password")
_COLOURS = {Severity.ERROR: "red", Severity.FATAL_LATER: "magenta", Severity.WARNING: "yellow"}


def show(name: str, text: str, report: CheckReport) -> None:
    lines = text.splitlines()
    for title, colour, findings in _groups(report):
        click.secho(f"{title}:", fg=colour, bold=True)
        for finding in findings:
            _show_one(name, lines, finding, colour)
        click.echo()
    click.echo(verdict(name, report))


def _groups(report: CheckReport) -> list[tuple[str, str, list[Finding]]]:
    errors = [one for one in report.findings if one.severity is Severity.ERROR]
    groups = [
        (PHASE_WORDS[phase], _COLOURS[Severity.ERROR], [one for one in errors if one.phase is phase])
        for phase in PHASE_ORDER
    ]
    for severity, title in (
        (Severity.FATAL_LATER, "accepted by the installer, and cannot work"),
        (Severity.WARNING, "doubtful"),
    ):
        groups.append((title, _COLOURS[severity], [one for one in report.findings if one.severity is severity]))
    return [(title[0].upper() + title[1:], colour, found) for title, colour, found in groups if found]


def _show_one(name: str, lines: list[str], finding: Finding, colour: str) -> None:
    width = max(60, min(shutil.get_terminal_size().columns, 120))
    click.echo(f"  {click.style(finding.path or '(file)', bold=True)}  {name}:{finding.line}:{finding.column}")
    source = _source_line(lines, finding, width - 10)
    if source:
        shown, column = source
        click.echo(f"  {finding.line:>5} │ {shown}")
        click.echo(f"        │ {' ' * column}{click.style('^', fg=colour, bold=True)}")
    click.echo(textwrap.fill(finding.message, width, initial_indent="    ", subsequent_indent="    "))
    if finding.fix:
        click.echo(textwrap.fill(finding.fix, width, initial_indent="    fix: ", subsequent_indent="         "))


def _source_line(lines: list[str], finding: Finding, width: int) -> tuple[str, int] | None:
    if not 1 <= finding.line <= len(lines):
        return None
    line = lines[finding.line - 1].encode("utf-8", "replace").decode().replace("\t", " ")
    key, colon, value = line.partition(":")
    bare = key.strip(" -\"'").lower()
    if colon and value.strip() and bare in _SECRET:
        line = f"{key}: (not shown)"
    elif finding.path.lower().startswith("pullsecret") and bare != "pullsecret":
        line = "(not shown)"
    column = finding.column - 1
    if column > width - 8 or column >= len(line) + 1:
        column = len(line) - len(line.lstrip())
    return (line if len(line) <= width else line[: width - 1] + "…"), column


def verdict(name: str, report: CheckReport) -> str:
    counts = {severity: sum(one.severity is severity for one in report.findings) for severity in Severity}
    tally = ", ".join(
        part
        for part in (
            _count(counts[Severity.ERROR], "error"),
            _count(counts[Severity.FATAL_LATER], "fatal later"),
            _count(counts[Severity.WARNING], "warning"),
        )
        if part
    )
    rejected = report.rejected_at
    if rejected is InstallerPhase.PANIC:
        words, colour = f"openshift-install {report.release} panics on it", "red"
    elif rejected is InstallerPhase.CLUSTER:
        words, colour = (
            f"openshift-install {report.release} takes it in `create manifests`, and rejects it in `create cluster`",
            "red",
        )
    elif rejected:
        words, colour = f"openshift-install {report.release} rejects it ({rejected.value})", "red"
    elif counts[Severity.FATAL_LATER]:
        words, colour = f"openshift-install {report.release} accepts it, and the installation cannot succeed", "magenta"
    else:
        words, colour = f"openshift-install {report.release} accepts it", "green"
    return f"{name}: {click.style(words, fg=colour, bold=True)}{f' ({tally})' if tally else ''}"


def _count(number: int, what: str) -> str:
    plural = "s" if number != 1 and what != "fatal later" else ""
    return f"{number} {what}{plural}" if number else ""
