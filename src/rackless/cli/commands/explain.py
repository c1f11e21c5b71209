"""`rackless explain PATH`: what a field means, since when, its default and its rules."""

from __future__ import annotations

import click

from rackless.errors import InputError


@click.command(name="explain")
@click.argument("path")
def explain(path: str) -> None:
    """Explain a field, e.g. install-config.platform.baremetal.apiVIPs or lab.networks."""
    subject, _, rest = path.partition(".")
    if subject == "install-config":
        from rackless.cluster.install_config import explaining

        click.echo(explaining.explain(rest))
    elif subject in ("lab", "lab-yaml"):
        click.echo(_lab(rest))
    else:
        raise InputError(f"nothing is known of {subject}", hint=f"say install-config.{path} or lab.{path}")


def _lab(path: str) -> str:
    from rackless.spec.explain import CLASSES, fields

    known = [one for one in fields() if not path or one.path == path or one.path.startswith(f"{path}.")]
    if not known:
        raise InputError(f"a lab has no field {path}", hint="`rackless explain lab` lists them")
    return "\n\n".join(
        f"{one.path}\n  {one.meaning}"
        + (f"\n  default: {one.default}" if one.default else "")
        + f"\n  change: {one.change}, {CLASSES[one.change]}"
        for one in known
    )
