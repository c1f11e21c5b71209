"""`rackless logs [WHAT]`: the logs of the lab's parts and the consoles of its servers."""

from __future__ import annotations

from pathlib import Path

import click

from rackless.cli.completing import lab_of, offering
from rackless.cli.following import follow, last_lines
from rackless.cli.options import complete_labs, json_option, lab_name, print_json
from rackless.errors import InputError
from rackless.operations.lab_registry import require_lab
from rackless.run.paths import LabPaths, Roots


@click.command()
@click.option(
    "--file", type=click.Path(path_type=Path), help="The lab's description [./lab.yaml, else the default lab]."
)
@click.option("--name", shell_complete=complete_labs, help="The lab's name, instead of the one in the file.")
@click.argument(
    "what",
    required=False,
    shell_complete=offering(lambda context: find_logs(require_lab(lab_of(context), Roots.from_environment()))),
)
@click.option("-f", "--follow", "following", is_flag=True, help="Go on with what is added; Ctrl-C ends it.")
@click.option("-n", "--lines", default=100, show_default=True, help="How many of the last lines.")
@json_option()
def logs(file: Path | None, name: str | None, what: str | None, following: bool, lines: int, as_json: bool) -> None:
    """Show a log: labd, ironic, libvirtd, … or a server's console. Without WHAT, list them."""
    paths = require_lab(lab_name(file, name), Roots.from_environment())
    known = find_logs(paths)
    if what is None:
        if as_json:
            print_json([{"name": log, "path": str(path), "bytes": path.stat().st_size} for log, path in known.items()])
        else:
            for log, path in known.items():
                click.echo(f"{log:<20} {path.stat().st_size:>10} bytes  {path}")
        return
    if what not in known:
        raise InputError(f"there is no log {what}", why=f"there is {', '.join(known)}", hint="name one of those")
    if as_json and not following:
        print_json({"name": what, "path": str(known[what]), "lines": list(last_lines(known[what], lines))})
        return
    for line in follow(known[what], lines) if following else last_lines(known[what], lines):
        click.echo(line)


def find_logs(paths: LabPaths) -> dict[str, Path]:
    """Logs by the names people use: a daemon's, or a server's for its console."""
    places = [*sorted(paths.logs.glob("*.log")), *sorted(paths.console("").parent.glob("*.log"))]
    places += sorted((paths.logs / "libvirt" / "qemu").glob("*.log"))
    found: dict[str, Path] = {}
    for path in places:
        name = f"qemu/{path.stem}" if path.parent.name == "qemu" else path.stem
        found[name] = path
    return found
