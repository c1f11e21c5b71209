"""`rackless plan`: what `up` would do, each thing with its reason; nothing is changed."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackless.cli.options import json_option, lab_options, load_spec, old_spellings, print_json, tell_old_spellings
from rackless.operations import lab as operations
from rackless.operations import sizing
from rackless.plan.actions import DESTRUCTIVE, Verb
from rackless.plan.stages import GOALS
from rackless.run.paths import Roots

_STYLES = {Verb.KEEP: "dim", Verb.REFUSE: "bold red", **dict.fromkeys(DESTRUCTIVE, "red"), Verb.RESTART: "yellow"}

_LEVELS = {"error": "bold red", "warning": "yellow", "info": "dim"}


@click.command()
@lab_options
@click.option(
    "--until", "goal", type=click.Choice(GOALS), default=GOALS[-1], help="Look as far as this goal, and no further."
)
@json_option()
def plan(file: Path | None, name: str | None, goal: str, as_json: bool) -> None:
    """Show what `up` would do, and why. What it would keep is shown too."""
    spec = load_spec(file, name)
    actions = asyncio.run(operations.plan(spec, Roots.from_environment(), goal=goal))
    budget = sizing.budget(spec, Roots.from_environment(), actions)
    if as_json:
        findings = [asdict(finding) for finding in budget]
        hints = [asdict(hint) for hint in old_spellings(file)]
        listed = [asdict(action) for action in actions]
        print_json({"lab": spec.name, "actions": listed, "budget": findings, "hints": hints})
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for action in actions:
        style = _STYLES.get(action.verb, "green")
        table.add_row(Text(action.verb, style), Text(action.subject, "" if style != "dim" else style), action.reason)
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    for finding in budget:
        console.print(Text.assemble((f"{finding.level}: ", _LEVELS[finding.level]), finding.says))
        if finding.fix:
            console.print(Text.assemble(("  do: ", "bold cyan"), finding.fix))
    tell_old_spellings(old_spellings(file), file)
    work = [action for action in actions if action.verb is not Verb.KEEP]
    console.print(f"{len(work)} to do, {len(actions) - len(work)} as wanted")
    if any(action.verb in DESTRUCTIVE for action in actions):
        console.print("what is recreated or removed loses its disks, and is done only by `rackless up --replace`")
