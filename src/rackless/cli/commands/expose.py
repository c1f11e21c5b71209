"""`rackless expose` and `rackless unexpose`: ports of this computer that lead into the lab, for other people's tools."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from rackless.cli.completing import servers_argument
from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.codec import encode
from rackless.operations import expose as operations
from rackless.operations.this_computer import this_computer
from rackless.plan.exposure import LOOPBACK, Forward, What, dnsmasq_lines, hosts_lines
from rackless.plan.resolvers import Resolver, drop_in
from rackless.run.paths import Roots

THINGS = ("bmc", "api", "cluster", "apps", "ssh")


@click.command()
@lab_options
@click.argument("what", required=False, type=click.Choice(THINGS))
@servers_argument
@click.option("--address", default=LOOPBACK, show_default=True, help="Where this computer listens.")
@click.option("--port", type=click.IntRange(1, 65535), help="The port, or the first of several [free ones from 17000].")
@click.option("--list", "listing", is_flag=True, help="Say what is exposed, all of it or of WHAT, and expose nothing.")
@click.option(
    "--resolver",
    type=click.Choice([resolver.value for resolver in Resolver]),
    help="Print commands by which this computer's resolver knows the names of what is exposed; nothing is done.",
)
@click.option("--undo", is_flag=True, help="With --resolver: the commands by which it is as before.")
@json_option()
def expose(
    file: Path | None,
    name: str | None,
    what: What | None,
    servers: tuple[str, ...],
    address: str,
    port: int | None,
    listing: bool,
    resolver: str | None,
    undo: bool,
    as_json: bool,
) -> None:
    """Have ports of this computer lead to the lab's BMCs (of all SERVERS, or of some), its API, its cluster's API, the cluster's
    ingress, or its nodes' ssh.

    A BMC has one number for both: Redfish at its TCP port, IPMI at its UDP port. Ports stay open while labd is started
    again, come back with `rackless up`, and go with the lab.
    """
    lab, roots = lab_name(file, name), Roots.from_environment()
    if undo and resolver is None:
        raise click.UsageError("--undo is of --resolver")
    if resolver is not None:
        named = operations.exposed(lab, roots) if undo else operations.names_to_resolve(lab, roots)
        made = drop_in(Resolver(resolver), lab, named)
        if as_json:
            print_json({"lab": lab, **asdict(made), "script": made.script, "way_back": made.way_back})
        else:
            click.echo(made.way_back if undo else made.script, nl=False)
        return
    if listing:
        found = operations.exposed(lab, roots, what=what, servers=servers)
        if as_json:
            print_json({"lab": lab, **_told(found)})
        else:
            _show(found)
        return
    if what is None:
        raise click.UsageError(f"say what to expose ({', '.join(THINGS)}), or --list")
    done = asyncio.run(
        operations.expose(lab, what, roots, this_computer(), servers=servers, address=address, port=port)
    )
    if as_json:
        print_json({"lab": lab, "open": done.open, **_told(done.forwards)})
        return
    _show(done.forwards)
    if not done.open:
        click.echo("the lab does not run: `rackless up` opens these ports", err=True)
    if any(one.outside for one in done.forwards):
        click.echo(
            f"warning: everybody who reaches {address} reaches these ports, and what is behind them asks only for its own "
            "password or key",
            err=True,
        )


@click.command()
@lab_options
@click.argument("what", required=False, type=click.Choice(THINGS))
@servers_argument
@click.option("--all", "everything", is_flag=True, help="All that is exposed of the lab.")
@json_option()
def unexpose(
    file: Path | None, name: str | None, what: What | None, servers: tuple[str, ...], everything: bool, as_json: bool
) -> None:
    """Close what `rackless expose` opened."""
    if (what is None) != everything:
        raise click.UsageError("say what to close, or --all")
    lab, roots = lab_name(file, name), Roots.from_environment()
    gone = asyncio.run(operations.unexpose(lab, roots, this_computer(), what=what, servers=servers))
    if as_json:
        print_json({"lab": lab, "closed": [one.id for one in gone]})
    else:
        click.echo("\n".join(f"closed {one.id}" for one in gone) or "nothing of that was exposed")


def _told(found: Sequence[Forward]) -> dict[str, object]:
    return {
        "forwards": [{**encode(one), "id": one.id} for one in found],
        "hosts": hosts_lines(found),
        "dnsmasq": dnsmasq_lines(found),
        "ssh": _tunnel(found),
    }


def _show(found: Sequence[Forward]) -> None:
    if not found:
        click.echo("nothing is exposed; `rackless expose bmc` exposes the BMCs")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("WHAT", "NAME", "HERE", "INSIDE"):
        table.add_column(column, no_wrap=True)
    for one in found:
        table.add_row(one.what, one.name, one.id, f"{one.target}:{one.target_port}")
    Console(highlight=False, soft_wrap=True).print(table)
    for title, lines in (
        ("for /etc/hosts, where names are wanted:", hosts_lines(found)),
        (
            "or for dnsmasq; `--resolver dnsmasq|networkmanager|resolved` prints what puts them in place, and with --undo away:",
            dnsmasq_lines(found),
        ),
        ("from another computer:", [tunnel] if (tunnel := _tunnel(found)) else []),
    ):
        if lines:
            click.echo(f"\n{title}")
            click.echo("\n".join(f"  {line}" for line in lines))


def _tunnel(found: Sequence[Forward]) -> str:
    """ssh carries TCP only, so IPMI stays on this computer."""
    ways = dict.fromkeys(f"-L {one.port}:{one.place}" for one in found if one.protocol == "tcp" and not one.outside)
    user = os.environ.get("SUDO_USER") or os.environ.get("USER") or "root"
    return f"ssh -N {' '.join(ways)} {user}@{socket.gethostname()}" if ways else ""
