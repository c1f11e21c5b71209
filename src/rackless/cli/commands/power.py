"""`rackless power SERVER… on|off|cycle|reset|nmi|shutdown`: the power button, by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import click

from rackless.cli.completing import actions
from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.codec import encode
from rackless.operations import servers as server_operations
from rackless.protocol.messages import PowerAction, PowerState
from rackless.run.paths import Roots

ACTIONS: tuple[PowerAction, ...] = get_args(PowerAction)


@click.command()
@lab_options
@click.argument("words", nargs=-1, metavar="SERVER... [on|off|cycle|reset|nmi|shutdown|status]", shell_complete=actions)
@click.option("--all", "everyone", is_flag=True, help="Every server of the lab.")
@json_option("One JSON object; a list of them for several servers.")
def power(file: Path | None, name: str | None, words: tuple[str, ...], everyone: bool, as_json: bool) -> None:
    """Switch SERVERs on or off, cycle them (plug out and in), press their reset button, send them an NMI, or ask their
    systems to shut down; say how they stand.

    A host that the lab provisions is kept on or off as said here, until it is said otherwise.
    """
    servers, action = _understand(words, everyone)
    lab, roots = lab_name(file, name), Roots.from_environment()
    if everyone:
        servers = server_operations.server_names(lab, roots)
    found = asyncio.run(server_operations.power_all(lab, servers, action, roots))
    if as_json:
        print_json(encode(found[0] if len(found) == 1 and not everyone else found))
    else:
        for one in found:
            click.echo(_stands(one, action))


def _stands(found: PowerState, action: PowerAction) -> str:
    power = found.power or "not known to libvirt"
    if action == "shutdown" and power != "off":
        return f"{found.server} is {power}: its system was asked to shut down"
    return f"{found.server} is {power}"


def _understand(words: tuple[str, ...], everyone: bool) -> tuple[list[str], PowerAction]:
    """The servers, and the action, which is the last word when it is one."""
    servers = list(words)
    action: PowerAction = "status"
    if servers and (len(servers) > 1 or everyone):
        action = next((one for one in ACTIONS if one == servers[-1]), "status")
        if servers[-1] in ACTIONS:
            servers.pop()
    if everyone and servers:
        unknown = f"{servers[-1]!r} is none of {', '.join(ACTIONS)}" if len(servers) == 1 else "both are named"
        raise click.UsageError(f"name servers or say --all, not both: {unknown}")
    if not everyone and not servers:
        raise click.UsageError("name a server, or say --all")
    if len(servers) > 1 and servers[0] in ACTIONS:
        raise click.UsageError(f"the action comes last: `rackless power {' '.join(servers[1:])} {servers[0]}`")
    return servers, action
