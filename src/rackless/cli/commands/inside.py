"""`rackless exec -- CMD` and `rackless shell`: on the lab's own networks, with its names, its libvirt, its resolver."""

from __future__ import annotations

import os
from pathlib import Path

import click

from rackless.cli.options import lab_name, lab_options
from rackless.daemon import access
from rackless.run.paths import Roots


@click.command(name="exec", context_settings={"ignore_unknown_options": True})
@lab_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_inside(file: Path | None, name: str | None, command: tuple[str, ...]) -> None:
    """Run a command inside the lab, such as `rackless exec -- virsh list` or `-- kubectl get bmh`."""
    lab, roots = lab_name(file, name), Roots.from_environment()
    argv = access.inside_command(lab, command, roots)
    os.execvpe(argv[0], argv, {**os.environ, **access.inside_environment(lab, roots)})


@click.command()
@lab_options
def shell(file: Path | None, name: str | None) -> None:
    """Open a shell inside the lab: its networks, its DNS, its libvirt, your files."""
    lab, roots = lab_name(file, name), Roots.from_environment()
    program = os.environ.get("SHELL", "/bin/bash")
    argv = access.inside_command(lab, [program], roots)
    click.echo(f"inside the lab {lab}; `exit` leads back", err=True)
    os.execvpe(argv[0], argv, {**os.environ, **access.inside_environment(lab, roots), "debian_chroot": f"lab {lab}"})
