"""`rackless check …`: look at a file of somebody else's program before that program does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from rackless.cluster.install_config import release as releases
from rackless.cluster.install_config.checking import check as check_text
from rackless.cluster.install_config.findings import Report
from rackless.cluster.install_config.live import here

_UNREADABLE = 2
_FOUND = 1


@click.group(name="check")
def check() -> None:
    """Check a file before somebody else's program reads it."""


@check.command(name="install-config")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--version", "version", default=str(releases.NEWEST), show_default=True, help="Version of the installer.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each file and line.")
@click.option(
    "--bridge", "bridges", multiple=True, metavar="NAME", help="A bridge of the provisioning host (repeatable)."
)
@click.option("--live", is_flag=True, help="Also ask the site: DNS, addresses in use, BMCs, bridges, clock, space.")
def install_config(files: tuple[str, ...], version: str, as_json: bool, bridges: tuple[str, ...], live: bool) -> None:
    """Find what the installer rejects, in either of its phases, and what it accepts and then dies of.

    Exit code 0: nothing above a warning; 1: findings; 2: a file could not be read.
    """
    release = releases.parse(version)
    site = here.site(bridges)
    worst = 0
    for number, name in enumerate(files):
        try:
            text = _read(name)
        except OSError as error:
            click.echo(f"{name}: cannot be read: {error.strerror or error}", err=True)
            worst = _UNREADABLE
            continue
        report = check_text(text, release, site)
        if not report.clean:
            worst = max(worst, _FOUND)
        if as_json:
            click.echo(json.dumps(as_object(name, report), ensure_ascii=False))
        else:
            from rackless.cli import findings_view  # not needed for --json

            if number:
                click.echo()
            findings_view.show(name, text, report)
        if live and _live(name, text, release, as_json):
            worst = max(worst, _FOUND)
    sys.exit(worst)


def _read(name: str) -> str:
    """The text; bytes that are no UTF-8 stay visible as such, for YAML to complain of."""
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    return data.decode("utf-8-sig", errors="surrogateescape")


def _live(name: str, text: str, release: releases.Release, as_json: bool) -> bool:
    from rackless.cli import live_view

    return live_view.run(name, text, release, as_json)


def as_object(name: str, report: Report) -> dict[str, object]:
    rejected = report.rejected_at
    return {
        "file": name,
        "version": str(report.release),
        "installer": {"accepted": report.accepted, "rejectedAt": rejected.value if rejected else "none"},
        "findings": [
            {
                "severity": str(one.severity),
                "path": one.path,
                "line": one.line,
                "column": one.column,
                "message": one.message,
                "fix": one.fix,
                "rule": one.rule,
                "phase": one.phase.value if one.phase else None,
            }
            for one in report.findings
        ],
    }
