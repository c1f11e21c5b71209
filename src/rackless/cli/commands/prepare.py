"""`rackless prepare`: what `up` would first do to this machine, and no more."""

from __future__ import annotations

import asyncio

import click

from rackless.cli.progress import shown
from rackless.daemon.known import require_root
from rackless.daemon.prepare import prepare_machine
from rackless.events import Bus
from rackless.run.paths import Roots


@click.command()
@click.option("--no-install", is_flag=True, help="Refuse, instead of installing, when packages are missing.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
def prepare(no_install: bool, as_json: bool) -> None:
    """Install what is missing and build the images, without making a lab; `up` does this too."""
    require_root("prepare this machine")
    bus = Bus()
    with shown(bus, as_json=as_json):
        asyncio.run(prepare_machine(Roots.from_environment(), bus, install=not no_install))
