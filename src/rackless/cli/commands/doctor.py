"""`rackless doctor`: what this computer can do, what is missing, and what mends it."""

from __future__ import annotations

import asyncio
import textwrap
from dataclasses import asdict

import click
from rich.console import Console
from rich.text import Text

from rackless.cli.options import json_option, print_json
from rackless.errors import FINDINGS
from rackless.operations.doctor import examine
from rackless.operations.this_computer import this_computer
from rackless.run.paths import Roots

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "missing": ("✗", "bold red")}


@click.command()
@json_option()
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Look at this computer and say what a lab would lack. Changes nothing.

    Exit code 0: a lab can be made; 10: something is missing.
    """
    checks = asyncio.run(examine(Roots.from_environment(), this_computer()))
    missing = [check for check in checks if check.verdict == "missing"]
    if as_json:
        print_json({"ready": not missing, "checks": [asdict(check) for check in checks]})
    else:
        console = Console(highlight=False, soft_wrap=True)
        for check in checks:
            mark, style = _MARKS[check.verdict]
            first, *more = textwrap.wrap(check.saw, max(console.width - 24, 40)) if console.is_terminal else [check.saw]
            console.print(Text.assemble((f"{mark} ", style), f"{check.about:<22}", first))
            for line in more:
                console.print(" " * 24 + line)
            if check.fix and check.verdict != "ok":
                console.print(Text.assemble("  " + " " * 22, ("do: ", "bold cyan"), check.fix))
        console.print("a lab cannot be made here yet" if missing else "ready: `rackless up` makes a lab")
    if missing:
        ctx.exit(FINDINGS)
