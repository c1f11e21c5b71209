"""`rackless prepare`: what `up` would first do to this computer, and no more."""

from __future__ import annotations

import asyncio

import click

from rackless.cli.progress import shown
from rackless.events import Bus
from rackless.operations.install.cluster import prepare_install
from rackless.operations.lab_registry import require_root
from rackless.operations.prepare import prepare_computer, prepare_rehearsal
from rackless.operations.this_computer import this_computer
from rackless.run.paths import Roots


@click.command()
@click.option("--no-install", is_flag=True, help="Refuse, instead of installing, when packages are missing.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
@click.option("--rehearsal", is_flag=True, help="Also build the live ISO that `rackless rehearse` needs.")
@click.option("--ipi", is_flag=True, help="Also build the payload that a cluster needs which installs itself.")
def prepare(no_install: bool, as_json: bool, rehearsal: bool, ipi: bool) -> None:
    """Install what is missing and build the images, without making a lab; `up` does this too."""
    require_root("prepare this computer")
    bus = Bus()
    with shown(bus, as_json=as_json):
        asyncio.run(_prepare(bus, install=not no_install, rehearsal=rehearsal, ipi=ipi))


async def _prepare(bus: Bus, *, install: bool, rehearsal: bool, ipi: bool) -> None:
    roots = Roots.from_environment()
    drivers = this_computer()
    await prepare_computer(roots, bus, drivers, install=install)
    if rehearsal:
        await prepare_rehearsal(roots, bus, drivers)
    if ipi:
        await prepare_install(roots, bus, drivers)
