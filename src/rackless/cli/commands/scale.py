"""`rackless scale workers N`: grow and shrink the running cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.codec import encode
from rackless.operations.workers import scale_workers
from rackless.run.paths import Roots


@click.command()
@lab_options
@click.argument("what", type=click.Choice(["workers"]))
@click.argument("number", type=click.IntRange(min=0))
@json_option()
def scale(file: Path | None, name: str | None, what: str, number: int, as_json: bool) -> None:
    """Have NUMBER workers: spare servers are claimed and installed, or workers are drained and given back.

    The same as `kubectl scale machineset workers`; `kubectl get machines -w` shows how it goes on.
    """
    done = asyncio.run(scale_workers(lab_name(file, name), number, Roots.from_environment()))
    if as_json:
        print_json(encode(done))
        return
    click.echo(f"{what}: from {done.before} to {done.wanted}")
    if done.wanted - done.before > done.spare:
        click.echo(f"only {done.spare} hosts are spare: the other Machines wait until there are more")
