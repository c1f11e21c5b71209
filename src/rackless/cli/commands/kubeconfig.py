"""`rackless kubeconfig`: kubectl on the host, for the lab's Kubernetes API."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from rackless.cli.options import json_option, lab_name, named_lab, print_json
from rackless.operations import access
from rackless.operations.this_computer import this_computer
from rackless.run.files import write
from rackless.run.paths import Roots


@click.command()
@named_lab
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write it here, for you only.")
@click.option("--cluster", is_flag=True, help="For the API of the cluster on the lab's nodes, at its VIP.")
@json_option("One JSON object: the kubeconfig itself, or, with -o, the file.")
def kubeconfig(file: Path | None, name: str | None, output: Path | None, cluster: bool, as_json: bool) -> None:
    """Print a kubeconfig for the lab's Kubernetes API. It holds the administrator's key."""
    text = asyncio.run(
        access.kubeconfig(lab_name(file, name), Roots.from_environment(), this_computer(), cluster=cluster)
    )
    about = "the API of the cluster on the lab's nodes" if cluster else "the lab's own API, which has its hosts"
    if output is None:
        click.echo(text, nl=False)  # kubeconfigs may be JSON, and this one is
        if sys.stdout.isatty():
            click.echo(
                f"this is for {about}{'' if cluster else '; --cluster is for the cluster on its nodes'}", err=True
            )
        return
    write(output, text, mode=0o600)
    if as_json:
        print_json({"file": str(output), "api": "cluster" if cluster else "lab"})
    else:
        click.echo(f"for {about}: kubectl --kubeconfig {output} get {'nodes' if cluster else 'bmh'}", err=True)
