"""`rackless destroy`: the lab is gone and nothing of it is left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from rackless.cli.options import confirm, lab_name, named_lab, print_json
from rackless.cli.progress import interruptible, shown
from rackless.events import Bus
from rackless.operations import lab as operations
from rackless.operations.lab_registry import require_root
from rackless.run.paths import Roots


@click.command()
@named_lab
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@click.option(
    "--orphans",
    "only_orphans",
    is_flag=True,
    help="End labs that run on although their files were deleted, whatever their name; what is left of their folders stays.",
)
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
def destroy(file: Path | None, name: str | None, yes: bool, dry_run: bool, only_orphans: bool, as_json: bool) -> None:
    """Remove the lab: servers, disks, networks, processes. Packages and the image cache stay."""
    roots = Roots.from_environment()
    if only_orphans:
        _destroy_orphans(roots, yes=yes, dry_run=dry_run, as_json=as_json)
        return
    lab = lab_name(file, name)
    if lab not in roots.labs():
        if as_json:
            print_json({"lab": lab, "there": False})
        elif any(orphan["lab"] == lab for orphan in asyncio.run(operations.find_orphans(roots))):
            click.echo(f"the lab {lab} runs, but its files were deleted; `rackless destroy --orphans` ends it")
        else:
            click.echo(f"there is no lab named {lab}; nothing to do")
        return
    if dry_run:
        _show(lab, operations.owned(lab, roots), as_json)
        return
    if not yes:
        confirm(f"Remove the lab {lab} with all its servers and disks?", would=f"destroy would remove the lab {lab}")
    bus = Bus()
    with interruptible(lambda: operations.describe_left(lab, roots), lab), shown(bus, as_json=as_json):
        asyncio.run(operations.destroy(lab, roots, bus))


def _destroy_orphans(roots: Roots, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    require_root("see and end labs that nobody knows")
    found = asyncio.run(operations.find_orphans(roots))
    if not yes or dry_run:
        if as_json:
            print_json({"orphans": found})
        for orphan in found if not as_json else ():
            click.echo(f"the lab {orphan['lab']} of {orphan['folder']}: {orphan['why']}")
            for process in orphan["processes"]:
                click.echo(f"    process {process['pid']}  {process['command'][:90]}")
        if dry_run:
            return
    if found and not yes:
        confirm("End all of these processes?", would="destroy would end the processes above")
    bus = Bus()
    with shown(bus, as_json=as_json):
        ended = asyncio.run(operations.destroy_orphans(roots, bus))
    if not ended and not as_json:
        click.echo("no lab runs on without its files; nothing to do")


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
