"""`rackless ssh SERVER [-- CMD]`: a shell on a provisioned node."""

from __future__ import annotations

import os
from pathlib import Path

import click

from rackless.cli.options import lab_name, lab_options
from rackless.daemon import access
from rackless.run.paths import Roots


@click.command(context_settings={"ignore_unknown_options": True})
@lab_options
@click.argument("server")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def ssh(file: Path | None, name: str | None, server: str, command: tuple[str, ...]) -> None:
    """Open a shell on the node SERVER, or run a command there."""
    lab = lab_name(file, name)
    argv = access.ssh_command(lab, server, command, Roots.from_environment())
    os.execvp(argv[0], argv)
