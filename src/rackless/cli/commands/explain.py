"""`rackless explain PATH`: what a field means, since when, its default and its rules."""

from __future__ import annotations

import click

from rackless.cluster.install_config import explaining
from rackless.errors import InputError

_SUBJECT = "install-config"


@click.command(name="explain")
@click.argument("path")
def explain(path: str) -> None:
    """Explain a field, e.g. install-config.platform.baremetal.apiVIPs."""
    subject, _, rest = path.partition(".")
    if subject.split("[")[0] != _SUBJECT:
        raise InputError(f"nothing is known of {subject}", hint=f"say {_SUBJECT}.{path}")
    click.echo(explaining.explain(rest))
