"""`rackless host …`: the hosts, as BareMetalHost records."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click
import yaml
from rich.console import Console
from rich.table import Table

from rackless.cli.options import lab_name, lab_options
from rackless.cli.progress import shown
from rackless.daemon import host_operations
from rackless.errors import InputError
from rackless.events import Bus
from rackless.run.paths import Roots


@click.group()
def host() -> None:
    """Hosts of the lab: known by their BMCs, kept as BareMetalHost records."""


@host.command("list")
@lab_options
@click.option("--json", "as_json", is_flag=True, help="The records as JSON.")
def list_hosts(file: Path | None, name: str | None, as_json: bool) -> None:
    """List the hosts."""
    records = _records(file, name)
    if as_json:
        click.echo(json.dumps(records))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("NAME", "STATE", "ONLINE", "ERROR", "BMC"):
        table.add_column(column, no_wrap=True)
    for record in records:
        status = record.get("status", {})
        state = status.get("provisioning", {}).get("state", "")
        bmc = record["spec"].get("bmc", {}).get("address", "").partition("/redfish/")[0]
        table.add_row(
            record["metadata"]["name"], state, str(record["spec"]["online"]).lower(), status.get("errorType", ""), bmc
        )
    Console(highlight=False).print(table)


@host.command()
@lab_options
@click.argument("host_name", metavar="HOST")
@click.option("--json", "as_json", is_flag=True, help="The record as JSON.")
def show(file: Path | None, name: str | None, host_name: str, as_json: bool) -> None:
    """Show everything that is known of HOST."""
    for record in _records(file, name):
        if record["metadata"]["name"] == host_name:
            click.echo(json.dumps(record) if as_json else yaml.safe_dump(record, sort_keys=False).rstrip())
            return
    raise InputError(f"there is no host {host_name}", hint="`rackless host list` shows the hosts there are")


@host.command()
@lab_options
@click.argument("host_name", metavar="HOST")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
def deprovision(file: Path | None, name: str | None, host_name: str, as_json: bool) -> None:
    """Take the system off HOST and clean it; `rackless up` puts it on again."""
    lab = lab_name(file, name)
    bus = Bus()
    with shown(bus, as_json=as_json):
        asyncio.run(host_operations.deprovision(lab, host_name, Roots.from_environment(), bus))


def _records(file: Path | None, name: str | None) -> list[dict[str, Any]]:
    lab = lab_name(file, name)
    return asyncio.run(host_operations.hosts(lab, Roots.from_environment()))
