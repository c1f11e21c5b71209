"""Runs live checks and shows their results, to a person or, as JSON, to a program."""

from __future__ import annotations

import asyncio
import textwrap

import click

from rackless.installer.install_config.config import Config
from rackless.installer.install_config.live.probe import Probe, ProbeOutcome
from rackless.installer.install_config.live.running import LiveFindings, observe
from rackless.operations.this_computer import local_processes

_MARKS = {
    ProbeOutcome.OK: ("ok", "green"),
    ProbeOutcome.FAILED: ("FAILED", "red"),
    ProbeOutcome.WARNING: ("doubt", "yellow"),
    ProbeOutcome.UNKNOWN: ("?", "cyan"),
}


def run(config: Config) -> LiveFindings:
    return asyncio.run(observe(config, local_processes()))


def show(seen: LiveFindings) -> None:
    click.secho("On the site:", bold=True)
    for probe in seen.probes:
        word, colour = _MARKS[probe.outcome]
        click.echo(f"  {click.style(f'{word:<6}', fg=colour, bold=True)} {probe.subject}")
        click.echo(textwrap.fill(f"{probe.did}: {probe.saw}", 110, initial_indent=" " * 9, subsequent_indent=" " * 9))
        if probe.fix:
            click.echo(f"         fix: {probe.fix}")
    click.echo()


def as_object(probe: Probe) -> dict[str, str]:
    return {
        "subject": probe.subject,
        "outcome": str(probe.outcome),
        "did": probe.did,
        "saw": probe.saw,
        "fix": probe.fix,
        "path": probe.path,
    }
