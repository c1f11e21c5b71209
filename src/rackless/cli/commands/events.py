"""`rackless events`: what happened to the lab, and, followed, what happens."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from rackless.cli.following import follow, last_lines
from rackless.cli.options import json_option, lab_name, lab_options
from rackless.daemon.known import require_lab
from rackless.run.paths import Roots

_BEFORE = 2000
"""Lines read before those that are shown, where the titles of their steps are."""


@click.command()
@lab_options
@click.option("--follow", "following", is_flag=True, help="Go on with what happens from now on; Ctrl-C ends it.")
@click.option("-n", "--lines", default=200, show_default=True, help="How many of the last events.")
@json_option("JSON lines, as they are kept.")
def events(file: Path | None, name: str | None, following: bool, lines: int, as_json: bool) -> None:
    """Show the lab's events: every step with its outcome and time, and every warning."""
    paths = require_lab(lab_name(file, name), Roots.from_environment())
    journal = paths.logs / "events.jsonl"
    if as_json:
        for line in follow(journal, lines) if following else last_lines(journal, lines):
            click.echo(line)
        return
    titles: dict[str, str] = {}
    told = [describe(line, titles) for line in last_lines(journal, _BEFORE + lines)]
    for shown in [words for words in told if words is not None][-lines:]:
        click.echo(shown)
    if following:
        for line in follow(journal, 0):
            if (new := describe(line, titles)) is not None:
                click.echo(new)


def describe(line: str, titles: dict[str, str]) -> str | None:
    """One event as a line for people; a step is told when it ends, and remembered by its title until then."""
    try:
        event: dict[str, Any] = json.loads(line)
    except ValueError:  # a line cut short by a crash
        return None
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event["at"]))
    match event["event"]:
        case "step-started":
            titles[event["step"]] = event["title"]
            return None
        case "step-finished":
            title = titles.pop(event["step"], event["step"])
            detail = f"  {event['detail']}" if event["detail"] else ""
            return f"{at}  {event['outcome']:<9}  {title}  {event['seconds']:.1f} s{detail}"
        case "note" if event["level"] != "progress":
            return f"{at}  {event['level']:<9}  {event['message']}"
    return None
