"""`rackless list`: the labs on this computer."""

from __future__ import annotations

import asyncio

import click
from rich.table import Table

from rackless.cli.options import console_for, listing_options, print_as
from rackless.operations import lab as operations
from rackless.run.paths import Roots


@click.command(name="list")
@listing_options
def list_labs(form: str) -> None:
    """List the labs on this computer."""
    labs = asyncio.run(operations.list_labs(Roots.from_environment()))
    if print_as(form, labs):
        return
    if not labs:
        click.echo("no lab is on this computer; `rackless up` makes one")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    wide = form == "wide"
    for column in ("LAB", "DAEMON", "REACHED", "SERVERS", "DOMAIN", "SPACE", *(["FOLDER"] if wide else [])):
        table.add_column(column, no_wrap=True)
    for lab in labs:
        table.add_row(
            lab["lab"],
            lab["daemon"],
            lab["reached"] or "-",
            "-" if "why" in lab else str(lab["servers"]),
            lab.get("why") or lab["domain"],
            f"{lab['mib']} MiB",
            *([lab["folder"]] if wide else []),
        )
    console_for(form).print(table)
