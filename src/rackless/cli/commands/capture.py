"""`rackless capture SERVER`: the packets of a boot, in a file that Wireshark and tcpdump read."""

from __future__ import annotations

from pathlib import Path

import click

from rackless.cli.completing import server_argument
from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.operations import servers as server_operations
from rackless.operations.this_computer import this_computer
from rackless.run.paths import Roots


@click.command()
@lab_options
@server_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write [SERVER.pcap].")
@click.option("--seconds", type=float, help="How long; without it, until Ctrl-C.")
@click.option(
    "--cycle", is_flag=True, help="Switch the server off and on first, to see its boot from the first packet."
)
@click.option("--network", metavar="NAME", help="Only at its NICs in this network [all of them].")
@click.option("--most-mib", type=click.IntRange(min=1), help="End when the file has so many MiB [no limit].")
@json_option()
def capture(
    file: Path | None,
    name: str | None,
    server: str,
    output: Path | None,
    seconds: float | None,
    cycle: bool,
    network: str | None,
    most_mib: int | None,
    as_json: bool,
) -> None:
    """Record what SERVER says and hears on its networks: DHCP, PXE, HTTP, and the rest."""
    target = output or Path(f"{server}.pcap")
    if seconds is None and not as_json:
        click.echo("recording; Ctrl-C ends it", err=True)
    wanted = server_operations.CaptureWanted(seconds, network, most_mib)
    found = server_operations.capture(
        lab_name(file, name), server, target, wanted, cycle, Roots.from_environment(), this_computer()
    )
    if as_json:
        print_json(found)
    else:
        click.echo(f"{found['file']}: {found['packets']} packets, {found['bytes']} bytes")
