"""`rackless web`: the lab in a browser."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackless.cli.options import DEFAULT_FILE, json_option, lab_name, load_spec, named_lab, print_json

if TYPE_CHECKING:
    from rackless.web.server import WebSettings


@click.command()
@named_lab
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port to listen on [any that is free].")
@click.option(
    "--address", default="127.0.0.1", show_default=True, help="The address to listen on; TLS unless loopback."
)
@click.option("--read-only", is_flag=True, help="Viewers change nothing and type at no console.")
@json_option("One JSON line with the link when it is ready.")
def web(file: Path | None, name: str | None, port: int, address: str, read_only: bool, as_json: bool) -> None:
    """Show the lab in a browser, until stopped: the rack, servers with consoles, the install, the objects.

    The link it prints can be used once; the browser that used it is remembered. With LAB, --name or -f only that lab is shown,
    without them all labs on this computer.
    """
    from rackless.operations.lab_registry import require_lab
    from rackless.run.paths import Roots
    from rackless.web.server import WebSettings

    roots = Roots.from_environment()
    if name is not None:  # the lab of a lab.yaml may be made while the page is open
        require_lab(name, roots)
    only = name or (load_spec(file, None).name if file is not None else None)
    first = only or (lab_name(None, None) if DEFAULT_FILE.exists() or os.environ.get("RACKLESS_LAB") else None)
    asyncio.run(_serve(WebSettings(roots, address, port, read_only, only, first), as_json))


async def _serve(settings: WebSettings, as_json: bool) -> None:
    from rackless.cli.words import to_json
    from rackless.operations.this_computer import this_computer
    from rackless.web import server

    def ready(place: server.WebPlace) -> None:
        if as_json:
            print_json({"url": place.url, "port": place.port, "read_only": place.read_only, "ca": place.ca})
            return
        click.echo(f"open once: {place.url}")
        if place.ca is not None:
            click.echo(f"trust this CA: {place.ca}")
        click.echo("Ctrl-C ends it", err=True)

    serving = asyncio.ensure_future(server.serve(settings, this_computer(), to_json, ready))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        pass
