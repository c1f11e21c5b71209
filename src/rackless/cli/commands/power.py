"""`rackless power SERVER on|off|cycle|shutdown`: the power button, by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.codec import encode
from rackless.operations import servers as hands
from rackless.protocol.messages import PowerAction
from rackless.run.paths import Roots


@click.command()
@lab_options
@click.argument("server")
@click.argument("action", type=click.Choice(["on", "off", "cycle", "shutdown", "status"]), default="status")
@json_option()
def power(file: Path | None, name: str | None, server: str, action: PowerAction, as_json: bool) -> None:
    """Switch SERVER on or off, cycle it (plug out and in), or ask its system to shut down; say how it stands.

    A host that the lab provisions is kept on or off as said here, until it is said otherwise.
    """
    found = asyncio.run(hands.power(lab_name(file, name), server, action, Roots.from_environment()))
    if as_json:
        print_json(encode(found))
    else:
        click.echo(f"{server} is {found.power}")
