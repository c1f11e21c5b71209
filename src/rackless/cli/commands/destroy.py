"""`rackless destroy`: the lab is gone and nothing of it is left."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from rackless.cli.options import lab_options, load_spec
from rackless.cli.progress import shown
from rackless.daemon import operations
from rackless.errors import InputError
from rackless.events import Bus
from rackless.run.paths import Roots


@click.command()
@lab_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
def destroy(file: Path | None, name: str | None, yes: bool, as_json: bool) -> None:
    """Remove the lab: servers, disks, networks, processes. Packages and the image cache stay."""
    lab = name or load_spec(file, None).name
    roots = Roots.from_environment()
    if lab not in roots.labs():
        click.echo(f"there is no lab named {lab}; nothing to do")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise InputError(f"destroy would remove the lab {lab}", hint="add --yes to say that it should")
        click.confirm(f"Remove the lab {lab} with all its servers and disks?", abort=True)
    bus = Bus()
    with shown(bus, as_json=as_json):
        asyncio.run(operations.destroy(lab, roots, bus))
