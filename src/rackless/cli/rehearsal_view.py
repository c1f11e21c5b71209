"""The report of a rehearsal, as a person reads it."""

from __future__ import annotations

import click

from rackless.cluster.openshift.report import LineVerdict, Report

_MARKS = {
    LineVerdict.PROVEN: ("✓", "green"),
    LineVerdict.FAILED: ("✗", "red"),
    LineVerdict.NOT_REACHED: ("–", "yellow"),
}


def show(report: Report) -> None:
    click.echo()
    click.secho(f"rehearsal of {report.cluster}", bold=True)
    for finding in report.findings:
        mark, colour = _MARKS[finding.verdict]
        click.echo(f"  {click.style(mark, fg=colour)} {finding.subject:<22} {finding.saw}")
        if finding.remedy and finding.verdict is not LineVerdict.PROVEN:
            click.echo(f"    {'':<22} do: {finding.remedy}")
    click.echo(f"not proven by {_run(report)}:" if report.installs else "not proven by asking:")
    for words in report.not_proven:
        click.echo(f"  · {words}")
    if report.deviations:
        click.echo("otherwise than at the site:")
        for words in report.deviations:
            click.echo(f"  · {words}")
    click.echo("times: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in report.durations().items()))
    click.secho(_verdict(report), fg="green" if report.good else "red", bold=True)


def _verdict(report: Report) -> str:
    took = f"after {report.seconds:.0f} s"
    if not report.installs:
        return f"the servers are as the config says, {took}" if report.good else f"not ready, {took}: see above"
    if report.fault:
        as_expected = "as it does at a site" if report.good else f"where {report.expected} was expected"
        return f"{report.fault}: the installer ended with {report.exit_code} {took}, {as_expected}"
    if report.good:
        return f"the installer came to its end {took}: all that {_run(report)} can prove was proven"
    return f"not ready, {took}: see above"


def _run(report: Report) -> str:
    return "a real install" if report.kind == "real" else f"a {report.kind} rehearsal"
