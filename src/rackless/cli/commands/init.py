"""`rackless init`: a commented lab.yaml that fits this machine."""

from __future__ import annotations

from pathlib import Path

import click

from rackless.cli.options import json_option, print_json
from rackless.daemon.sizing import choose_profile
from rackless.errors import InputError
from rackless.run.files import write
from rackless.run.paths import Roots
from rackless.spec.lab import Profile
from rackless.spec.template import render


@click.command()
@click.option("--profile", type=click.Choice([profile.value for profile in Profile]), help="Which servers.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("lab.yaml"), show_default=True)
@click.option("--name", default="lab", show_default=True, help="The lab's name.")
@click.option("--force", is_flag=True, help="Replace the file when it exists.")
@json_option()
def init(profile: str | None, output: Path, name: str, force: bool, as_json: bool) -> None:
    """Write a lab.yaml that fits this machine, with a word on every field that one may want to change."""
    if output.exists() and not force:
        raise InputError(f"{output} is there already", hint="add --force to replace it, or -o FILE to write another")
    chosen, why = choose_profile(profile, Roots.from_environment())
    write(output, render(name, chosen, why))
    if as_json:
        print_json({"file": str(output), "profile": chosen.value, "why": why})
    else:
        click.echo(f"{output}: {chosen.value}; {why}\nnext: rackless validate, rackless plan, sudo rackless up")
