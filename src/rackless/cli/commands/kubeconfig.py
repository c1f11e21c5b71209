"""`rackless kubeconfig`: kubectl outside the lab, for the API of its cluster or of the lab itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from rackless.cli.options import json_option, lab_name, named_lab, print_json
from rackless.operations import access
from rackless.operations.output_files import write_output
from rackless.operations.this_computer import this_computer
from rackless.run.paths import Roots


@click.command()
@named_lab
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write it here, for you only.")
@click.option(
    "--of",
    type=click.Choice(["lab", "cluster"]),
    help="`lab` is the lab's own API, which has its hosts; `cluster` that of the cluster on its nodes, at its VIP "
    "[cluster, once there is one].",
)
@click.option("--cluster", is_flag=True, help="The same as --of cluster.")
@json_option("One JSON object: the kubeconfig itself, or, with -o, the file.")
def kubeconfig(
    file: Path | None, name: str | None, output: Path | None, of: str | None, cluster: bool, as_json: bool
) -> None:
    """Print a kubeconfig, and say for which API it is. It holds the administrator's key."""
    if cluster and of == "lab":
        raise click.UsageError("--cluster is --of cluster")
    wanted = None if of is None and not cluster else cluster or of == "cluster"
    given = asyncio.run(
        access.kubeconfig(lab_name(file, name), Roots.from_environment(), this_computer(), cluster=wanted)
    )
    about = "the cluster on the lab's nodes" if given.cluster else "the lab itself, which has its hosts"
    other = "" if wanted is not None else f"; --of {'lab' if given.cluster else 'cluster'} is for the other"
    if output is None:
        click.echo(given.text, nl=False)  # JSON is YAML, and kubectl reads it
        click.echo(f"this is for the API of {about}{other}", err=True)
        return
    write_output(output, given.text)
    if as_json:
        print_json({"file": str(output), "api": "cluster" if given.cluster else "lab"})
    else:
        kind = "nodes" if given.cluster else "bmh"
        click.echo(f"for the API of {about}{other}: kubectl --kubeconfig {output} get {kind}", err=True)
