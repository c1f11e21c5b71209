"""`rackless check …`: look at a file of somebody else's program before that program does."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackless.cli.groups import SuggestingGroup
from rackless.errors import FINDINGS, InputError
from rackless.installer.install_config import release as releases
from rackless.installer.install_config.checking import check as check_text
from rackless.installer.install_config.checking import read_config
from rackless.installer.install_config.findings import CheckReport
from rackless.installer.install_config.live import here
from rackless.installer.install_config.site import Site

if TYPE_CHECKING:
    from rackless.installer.install_config.live.running import LiveFindings


@click.group(name="check", cls=SuggestingGroup)
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

    Exit code 0: nothing above a warning; 10: findings; 2: a file could not be read.
    """
    release = releases.parse(version)
    site = here.site(bridges)
    found = unreadable = False
    for number, name in enumerate(files):
        try:
            text = _read(name)
        except OSError as error:
            unreadable = True
            _tell_unreadable(name, error, as_json)
            continue
        seen = _look(text, release) if live else None
        report = check_text(text, release, _better(site, seen))
        found = found or not report.clean or bool(seen and seen.failed)
        if as_json:
            click.echo(json.dumps(as_object(name, report, seen), ensure_ascii=False))
        else:
            if number:
                click.echo()
            _show(name, text, report, seen)
    sys.exit(InputError.exit_code if unreadable else FINDINGS if found else 0)


def _tell_unreadable(name: str, error: OSError, as_json: bool) -> None:
    """Reports a file that cannot be read; the other files are still checked."""
    if as_json:
        why = error.strerror or str(error)
        wrong = {"kind": "InputError", "what": f"{name} cannot be read", "why": why, "exit_code": InputError.exit_code}
        click.echo(json.dumps({"file": name, "error": wrong}, ensure_ascii=False))
    else:
        click.echo(f"{name}: cannot be read: {error.strerror or error}", err=True)


def _read(name: str) -> str:
    """The file's text; bytes that are no UTF-8 are kept, so that the YAML parser reports them."""
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    return data.decode("utf-8-sig", errors="surrogateescape")


def _look(text: str, release: releases.Release) -> LiveFindings | None:
    config = read_config(text, release)
    if config is None or config.metal is None:
        return None
    from rackless.cli import live_view  # sockets and processes, which a plain check does without

    return live_view.run(config)


def _better(site: Site, seen: LiveFindings | None) -> Site:
    """What the live checks saw replaces what was assumed of the site."""
    if seen is None:
        return site
    bridges = site.bridges if seen.bridges is None else seen.bridges
    return replace(site, bridges=bridges, image_answers=here.image_answers)


def _show(name: str, text: str, report: CheckReport, seen: LiveFindings | None) -> None:
    from rackless.cli import findings_view  # not needed for --json

    if seen:
        from rackless.cli import live_view

        live_view.show(seen)
    findings_view.show(name, text, report)
    if seen and seen.failed:
        click.secho("the site is not ready: see above", fg="red", bold=True)


def as_object(name: str, report: CheckReport, seen: LiveFindings | None = None) -> dict[str, object]:
    rejected = report.rejected_at
    found: dict[str, object] = {
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
    if seen:
        from rackless.cli import live_view

        found["live"] = [live_view.as_object(probe) for probe in seen.probes]
    return found
