"""`rackless gather`: one archive for a bug report."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import click

from rackless.cli.options import json_option, lab_name, named_lab, print_json
from rackless.operations.gather import gather as gather_lab
from rackless.operations.this_computer import this_computer
from rackless.run.paths import Roots


@click.command()
@named_lab
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The archive [rackless-LAB-TIME.tar.gz].")
@json_option()
def gather(file: Path | None, name: str | None, output: Path | None, as_json: bool) -> None:
    """Gather logs, events, records and what libvirt and the kernel say into one archive. Secrets are blotted out."""
    lab = lab_name(file, name)
    target = output or Path(f"rackless-{lab}-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    found = asyncio.run(gather_lab(lab, target, Roots.from_environment(), this_computer()))
    if as_json:
        print_json(found)
    else:
        click.echo(
            f"{found['file']}: {found['files']} files, {found['bytes'] >> 10} KiB; look through it before giving it away"
        )
