"""`rackless kubeconfig`: kubectl on the host, for the lab's Kubernetes API."""

from __future__ import annotations

from pathlib import Path

import click

from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.operations.access import cluster_kubeconfig, host_kubeconfig
from rackless.run.files import write
from rackless.run.paths import Roots


@click.command()
@lab_options
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write it here, for you only.")
@click.option("--cluster", is_flag=True, help="For the API of the cluster on the lab's nodes, at its VIP.")
@json_option("One JSON object: the kubeconfig itself, or, with -o, the file.")
def kubeconfig(file: Path | None, name: str | None, output: Path | None, cluster: bool, as_json: bool) -> None:
    """Print a kubeconfig for the lab's Kubernetes API. It holds the administrator's key."""
    make = cluster_kubeconfig if cluster else host_kubeconfig
    text = make(lab_name(file, name), Roots.from_environment())
    if output is None:
        click.echo(text, nl=False)  # kubeconfigs may be JSON, and this one is
        return
    write(output, text, mode=0o600)
    if as_json:
        print_json({"file": str(output)})
    else:
        click.echo(f"kubectl --kubeconfig {output} get {'nodes' if cluster else 'bmh'}", err=True)
