"""`rackless ssh SERVER [-- CMD]`: a shell on a provisioned node."""

from __future__ import annotations

from pathlib import Path

import click

from rackless.cli.completing import server_argument
from rackless.cli.handover import run_here, run_told, tell
from rackless.cli.options import json_option, lab_name, lab_options
from rackless.operations import access
from rackless.operations.this_computer import this_computer
from rackless.run.paths import Roots


@click.command(context_settings={"ignore_unknown_options": True})
@lab_options
@json_option(
    "With a command: one JSON object with returncode, stdout, stderr. Without: the command line that would run."
)
@server_argument
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def ssh(file: Path | None, name: str | None, as_json: bool, server: str, command: tuple[str, ...]) -> None:
    """Open a shell on the node SERVER, or run a command there; `bootstrap` is the bootstrap machine of an install."""
    lab, roots = lab_name(file, name), Roots.from_environment()
    about = {"lab": lab, "server": server, "command": list(command)}
    with access.way_in(lab, server, roots, this_computer()) as way:
        argv = way.ssh(command)
        if as_json and command:
            run_told(argv, about)
        if as_json:
            tell(argv, about)
            return
        run_here(argv)
