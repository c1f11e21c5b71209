"""`rackless ssh SERVER [-- CMD]`: a shell on a provisioned node."""

from __future__ import annotations

from pathlib import Path

import click

from rackless.cli.handover import become, run_told, tell
from rackless.cli.options import json_option, lab_name, lab_options
from rackless.operations import access
from rackless.run.paths import Roots


@click.command(context_settings={"ignore_unknown_options": True})
@lab_options
@json_option(
    "With a command: one JSON object with returncode, stdout, stderr. Without: the command line that would run."
)
@click.argument("server")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def ssh(file: Path | None, name: str | None, as_json: bool, server: str, command: tuple[str, ...]) -> None:
    """Open a shell on the node SERVER, or run a command there."""
    lab = lab_name(file, name)
    argv = access.ssh_command(lab, server, command, Roots.from_environment())
    about = {"lab": lab, "server": server, "command": list(command)}
    if as_json and command:
        run_told(argv, about)
    if as_json:
        tell(argv, about)
        return
    become(argv)
