"""`rackless status`: what is there now, from what is observed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import click

from rackless.cli.options import lab_options, load_spec
from rackless.daemon import operations
from rackless.run.paths import Roots


@click.command()
@lab_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(file: Path | None, name: str | None, as_json: bool) -> None:
    """Show what is there now."""
    lab = name or load_spec(file, None).name
    found = asyncio.run(operations.status(lab, Roots.from_environment()))
    click.echo(json.dumps(found))
