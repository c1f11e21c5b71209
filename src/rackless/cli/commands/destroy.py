"""`rackless destroy`: the lab is gone and nothing of it is left."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from rackless.cli.options import lab_name, lab_options, print_json
from rackless.cli.progress import interruptible, shown
from rackless.daemon import operations
from rackless.errors import InputError
from rackless.events import Bus
from rackless.run.paths import Roots


@click.command()
@lab_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
def destroy(file: Path | None, name: str | None, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Remove the lab: servers, disks, networks, processes. Packages and the image cache stay."""
    lab = lab_name(file, name)
    roots = Roots.from_environment()
    if lab not in roots.labs():
        if as_json:
            print_json({"lab": lab, "there": False})
        else:
            click.echo(f"there is no lab named {lab}; nothing to do")
        return
    if dry_run:
        _show(lab, operations.owned(lab, roots), as_json)
        return
    if not yes:
        if not sys.stdin.isatty():
            raise InputError(f"destroy would remove the lab {lab}", hint="add --yes to say that it should")
        click.confirm(f"Remove the lab {lab} with all its servers and disks?", abort=True)
    bus = Bus()
    with interruptible(lambda: operations.describe_left(lab, roots), lab), shown(bus, as_json=as_json):
        asyncio.run(operations.destroy(lab, roots, bus))


def _show(lab: str, owned: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json({"lab": lab, "there": True, "removes": owned})
        return
    click.echo(f"destroy would remove, of the lab {lab}:")
    for thing in owned:
        size = f"  {thing['bytes'] >> 20} MiB" if "bytes" in thing else ""
        click.echo(f"  {thing['kind']} {thing['id']}{size}")
        for process in thing.get("processes", ()):
            click.echo(f"    process {process['pid']}  {process['command'][:90]}")
