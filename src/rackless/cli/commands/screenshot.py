"""`rackless screenshot SERVER`: what a monitor on the server would show."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from rackless.cli.completing import server_argument
from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.operations import servers as server_operations
from rackless.operations.this_computer import this_computer
from rackless.run.paths import Roots


@click.command()
@lab_options
@server_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write [SERVER.png].")
@json_option()
def screenshot(file: Path | None, name: str | None, server: str, output: Path | None, as_json: bool) -> None:
    """Take a picture of SERVER's screen."""
    found = asyncio.run(
        server_operations.screenshot(lab_name(file, name), server, output, Roots.from_environment(), this_computer())
    )
    if as_json:
        print_json(found)
    else:
        click.echo(f"{found['file']}  {found['bytes']} bytes")
