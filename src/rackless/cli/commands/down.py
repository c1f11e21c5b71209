"""`rackless down`: stop the lab and keep everything; `up` starts it again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from rackless.cli.options import json_option, lab_name, named_lab
from rackless.cli.progress import interruptible, shown
from rackless.events import Bus
from rackless.operations import lab as operations
from rackless.run.paths import Roots


@click.command()
@named_lab
@click.option("--force", is_flag=True, help="Do not wait for the systems to shut down: pull the plugs.")
@json_option("Events as JSON lines.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def down(file: Path | None, name: str | None, force: bool, as_json: bool, quiet: bool) -> None:
    """Stop the lab: shut the servers down, end its processes, keep disks, records and secrets."""
    bus, lab, roots = Bus(), lab_name(file, name), Roots.from_environment()
    with interruptible(lambda: operations.describe_left(lab, roots), lab), shown(bus, as_json=as_json, quiet=quiet):
        asyncio.run(operations.down(lab, roots, bus, force=force))
