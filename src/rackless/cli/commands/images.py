"""`rackless images …`: what is built once and shared by all labs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import click
from rich.table import Table

from rackless.cli.groups import SuggestingGroup
from rackless.cli.options import console_for, json_option, listing_options, print_as, print_json
from rackless.cli.progress import shown
from rackless.events import Bus
from rackless.operations import images as image_operations
from rackless.operations.this_computer import this_computer
from rackless.run.paths import Roots


@click.group(cls=SuggestingGroup)
def images() -> None:
    """The cache of images that labs share: deploy ramdisk, node image, Ironic's environment."""


@images.command("list")
@listing_options
def list_images(form: str) -> None:
    """List what is in the cache, how large and how old it is, who uses it, and whether it is still made so."""
    found = asyncio.run(image_operations.listing(Roots.from_environment(), this_computer()))
    if print_as(form, found):
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("NAME", "WHAT", "SIZE", "AGE", "STATE", "USED BY"):
        table.add_column(column, no_wrap=True)
    for entry in found:
        state = {True: "current", False: "old", None: "unknown"}[entry["current"]]
        table.add_row(
            entry["name"] if form == "wide" else _short(entry["name"]),
            entry["what"],
            _size(entry["bytes"]),
            _age(entry["built"]),
            state,
            ", ".join(entry["used_by"]),
        )
    console_for(form).print(table)


@images.command()
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines, the entries last.")
def build(as_json: bool) -> None:
    """Build what is missing or damaged, so that the next `up` need not."""
    bus = Bus()
    with shown(bus, as_json=as_json):
        found = asyncio.run(image_operations.build(Roots.from_environment(), bus, this_computer()))
    if as_json:
        print_json(found)


@images.command()
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines, what was found last.")
def verify(as_json: bool) -> None:
    """Read every byte and compare it with what was built."""
    bus = Bus()
    with shown(bus, as_json=as_json):
        found = asyncio.run(image_operations.verify(Roots.from_environment(), bus, this_computer()))
    if as_json:
        print_json(found)


@images.command()
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@json_option()
def prune(dry_run: bool, as_json: bool) -> None:
    """Remove what no lab uses and what is not made any more."""
    done: dict[str, Any] = asyncio.run(
        image_operations.prune(Roots.from_environment(), Bus(), this_computer(), dry_run=dry_run)
    )
    if as_json:
        print_json(done)
        return
    for item in done["removed"]:
        click.echo(f"{'would remove' if dry_run else 'removed'} {item['name']}  {_size(item['bytes'])}")
    click.echo(f"{_size(done['bytes'])} {'would be' if dry_run else 'are'} free again")


def _short(name: str) -> str:
    kind, _, key = name.rpartition("-")
    return f"{kind}-{key[:12]}"


def _size(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"


def _age(built: str) -> str:
    spent = (datetime.now(UTC) - datetime.fromisoformat(built)).total_seconds()
    for unit, seconds in (("d", 86400), ("h", 3600), ("min", 60)):
        if spent >= seconds:
            return f"{spent / seconds:.0f} {unit}"
    return "now"
