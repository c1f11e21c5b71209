"""`rackless list`: the labs on this computer."""

from __future__ import annotations

import asyncio

import click
from rich.console import Console
from rich.table import Table

from rackless.cli.options import json_option, print_json
from rackless.operations import lab as operations
from rackless.run.paths import Roots


@click.command(name="list")
@json_option("One JSON list.")
def list_labs(as_json: bool) -> None:
    """List the labs on this computer."""
    labs = asyncio.run(operations.list_labs(Roots.from_environment()))
    if as_json:
        print_json(labs)
        return
    if not labs:
        click.echo("no lab is on this computer; `rackless up` makes one")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("LAB", "DAEMON", "REACHED", "SERVERS", "DOMAIN", "SPACE"):
        table.add_column(column, no_wrap=True)
    for lab in labs:
        table.add_row(
            lab["lab"], lab["daemon"], lab["reached"] or "-", str(lab["servers"]), lab["domain"], f"{lab['mib']} MiB"
        )
    Console(highlight=False).print(table)
