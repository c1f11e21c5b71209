"""`rackless start`: a lab that was stopped runs again, as it was described and as far as it had come."""

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
@json_option("Events as JSON lines.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def start(file: Path | None, name: str | None, as_json: bool, quiet: bool) -> None:
    """Start a lab that is there: from the description it was made of, as far as it had come.

    `rackless up` does the same from a lab.yaml, and changes the lab where that has changed.
    """
    bus, lab, roots = Bus(), lab_name(file, name), Roots.from_environment()
    with interruptible(lambda: operations.describe_left(lab, roots), lab), shown(bus, as_json=as_json, quiet=quiet):
        asyncio.run(operations.start(lab, roots, bus))
