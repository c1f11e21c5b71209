"""`rackless pivot`: hosts, Machines and sets go to another Kubernetes API, and back."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import click

from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.errors import InputError

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
PHASES = {
    "pausing": "pausing everything here",
    "copying": "writing it there, paused",
    "leaving": "letting it go here; hosts run on",
    "resuming": "going on there",
    "undoing": "taking back what was begun",
}


@click.command()
@lab_options
@click.option(
    "--to", "target", type=_FILE, metavar="KUBECONFIG", help="The API that they go to; the lab's own when left out."
)
@click.option(
    "--from", "source", type=_FILE, metavar="KUBECONFIG", help="The API that has them; the lab's own when left out."
)
@click.option("--namespace", help="Where they are, here and there; the kubeconfig's, else metal3.")
@click.option("--undo", is_flag=True, help="Take back a move that was begun and not ended.")
@click.option(
    "--detach-within", type=click.FloatRange(min=0), default=120.0, show_default=True, metavar="SECONDS",
    help="How long this side's host controller has to make its engine forget the hosts, if it runs.",
)  # fmt: skip
@json_option()
def pivot(
    file: Path | None,
    name: str | None,
    target: Path | None,
    source: Path | None,
    namespace: str | None,
    undo: bool,
    detach_within: float,
    as_json: bool,
) -> None:
    """Move hosts, Machines, sets, health checks and their Secrets, with their status, to another Kubernetes API.

    No host is touched: what runs there runs on, and the other side's engine adopts it. Cut off half-way, the same command goes on;
    --undo takes it back as long as nothing is gone from here.
    """
    from rackless.controllers.pivot.journal import MovePhase
    from rackless.operations.access import kubeconfig
    from rackless.operations.pivot import Ends, keep_kubeconfig
    from rackless.operations.pivot import pivot as move
    from rackless.operations.this_computer import this_computer
    from rackless.run.paths import Roots

    if source is None and target is None:
        raise InputError("it is not said where to", hint="name an API with --to KUBECONFIG, or with --from")

    computer = this_computer()

    def tell(phase: MovePhase) -> None:
        if not as_json:
            click.echo(PHASES[phase.value])

    with tempfile.TemporaryDirectory(prefix="rackless-pivot-") as folder:

        def own() -> Path:
            given = asyncio.run(kubeconfig(lab_name(file, name), Roots.from_environment(), computer, cluster=False))
            return keep_kubeconfig(given.text, Path(folder))

        ends = Ends(source or own(), target or own(), namespace or "")
        done = asyncio.run(move(ends, computer.clock, tell, undo=undo, detach_within=detach_within))
    if done is None:
        print_json({"undone": True}) if as_json else click.echo("all is as it was")
    elif as_json:
        print_json({"id": done.id, "moved": done.counts, "remembered": list(done.remembered)})
    else:
        click.echo(f"moved: {', '.join(f'{many} {kind}' for kind, many in done.counts.items()) or 'the rest of it'}")
        if done.remembered:
            click.echo(
                f"nobody detached {', '.join(done.remembered)} here: an engine that still knows them keeps switching their power; "
                "stop it, or delete their nodes there"
            )
