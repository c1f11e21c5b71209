"""`rackless exec -- CMD` and `rackless shell`: on the lab's own networks, with its names, its libvirt, its resolver."""

from __future__ import annotations

import os
from pathlib import Path

import click

from rackless.cli import entering
from rackless.cli.handover import become, run_told, tell
from rackless.cli.options import json_option, lab_name, lab_options
from rackless.operations import access
from rackless.operations.this_computer import this_computer
from rackless.run.paths import LabPaths, Roots


@click.command(name="exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@lab_options
@json_option("Run it without input, and print one JSON object: returncode, stdout, stderr.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_inside(file: Path | None, name: str | None, as_json: bool, command: tuple[str, ...]) -> None:
    """Run a command inside the lab, such as `rackless exec -- virsh list` or `-- kubectl get bmh`."""
    lab, roots = lab_name(file, name), Roots.from_environment()
    about = {"lab": lab, "command": list(command)}
    if not this_computer().computer.root():
        with access.owners_environment(lab, roots) as env:
            if as_json:
                entering.run_told(LabPaths(roots, lab).entrance, command, env, about)
            raise click.exceptions.Exit(entering.run(LabPaths(roots, lab).entrance, command, env))
    argv = access.inside_command(lab, command, roots, this_computer())
    env = access.inside_environment(lab, roots)
    if as_json:
        run_told(argv, about, env)
    become(argv, env)


@click.command()
@lab_options
@json_option("Open none: print the command line that would.")
def shell(file: Path | None, name: str | None, as_json: bool) -> None:
    """Open a shell inside the lab: its networks, its DNS, its libvirt, your files."""
    lab, roots = lab_name(file, name), Roots.from_environment()
    if not this_computer().computer.root():
        argv = [os.environ.get("SHELL", "/bin/bash")]
        if as_json:
            tell(["rackless", "exec", "--name", lab, "--", *argv], {"lab": lab})
            return
        with access.owners_environment(lab, roots) as env:
            click.echo(f"inside the lab {lab}; `exit` leads back", err=True)
            env["debian_chroot"] = f"lab {lab}"
            raise click.exceptions.Exit(entering.run(LabPaths(roots, lab).entrance, argv, env))
    argv = access.inside_command(lab, [os.environ.get("SHELL", "/bin/bash")], roots, this_computer())
    env = {**access.inside_environment(lab, roots), "debian_chroot": f"lab {lab}"}
    if as_json:
        tell(argv, {"lab": lab}, env)
        return
    click.echo(f"inside the lab {lab}; `exit` leads back", err=True)
    become(argv, env)
