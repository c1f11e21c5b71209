"""`rackless uninstall`: removes what all labs share. Packages stay; they are the computer's."""

from __future__ import annotations

import click

from rackless.cli.options import confirm, json_option, print_json
from rackless.operations import lab as operations
from rackless.run.paths import Roots


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@json_option()
def uninstall(yes: bool, dry_run: bool, as_json: bool) -> None:
    """Remove the image cache and Ironic's environment. Labs have to be destroyed first; Debian packages stay."""
    roots = Roots.from_environment()
    size = operations.shared_bytes(roots) >> 20
    if not dry_run:
        if not yes:
            confirm(f"Remove {roots.cache} ({size} MiB)?", would=f"uninstall would remove {roots.cache}")
        operations.uninstall(roots)
    if as_json:
        print_json({"folder": str(roots.cache), "mib": size, "removed": not dry_run})
    else:
        click.echo(f"{'would remove' if dry_run else 'removed'} {roots.cache} ({size} MiB)")
