"""`rackless status`: what is there now, from what is observed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.daemon import operations
from rackless.run.paths import Roots

WATCH_EVERY = 2.0


@click.command()
@lab_options
@click.option("--watch", is_flag=True, help="Show it again every two seconds; Ctrl-C ends it.")
@json_option("One JSON object; with --watch, one a line.")
def status(file: Path | None, name: str | None, watch: bool, as_json: bool) -> None:
    """Show what is there now."""
    lab, roots, console = lab_name(file, name), Roots.from_environment(), Console(highlight=False)
    while True:
        found = asyncio.run(operations.status(lab, roots))
        if watch and console.is_terminal and not as_json:
            console.clear()
        if as_json:
            print_json(found)
        else:
            render(found, console)
        if not watch:
            return
        time.sleep(WATCH_EVERY)


def render(found: dict[str, Any], console: Console) -> None:
    if found["daemon"] != "running":
        console.print(
            Text.assemble(
                ("lab ", "dim"),
                (found["lab"], "bold"),
                "  is stopped" if found["daemon"] == "stopped" else "  its daemon is not running",
            )
        )
        console.print(Text.assemble(("do: ", "bold cyan"), "`rackless up` starts it and goes on"))
        return
    console.print(Text.assemble(("lab ", "dim"), (found["lab"], "bold"), ("  domain ", "dim"), found["domain"]))
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="dim")
    for column in ("SERVER", "ROLE", "POWER", "HOST", "NODE", "ADDRESS", "BMC"):
        table.add_column(column, no_wrap=True)
    for server in found["servers"]:
        table.add_row(
            Text(server["name"], "bold"),
            server["role"],
            _power(server["power"]),
            Text(server["host"] or "-", "red" if server["error"] else ""),
            Text(server["node"] or "-", "green" if server["node"] else "dim"),
            server["address"],
            server["bmc"].removeprefix("https://"),
        )
    console.print(table)
    for server in found["servers"]:
        if server["error"]:
            console.print(Text.assemble((f"{server['name']}: ", "bold red"), server["error"]))
    for fault in found.get("faults", ()):
        console.print(Text.assemble((f"fault {fault['id']}: ", "bold yellow"), fault["text"]))
    for part in found["parts"]:
        if not part["running"] or part["restarts"]:
            again = "once" if part["restarts"] == 1 else f"{part['restarts']} times"
            state = f"was started again {again}" if part["running"] else "is not running"
            log = f" (log: {part['log']})" if part["log"] else ""
            console.print(Text.assemble(("! ", "yellow"), f"{part['name']} {state}: {part['reason']}{log}"))
    for warning in found["warnings"]:
        console.print(Text.assemble(("! ", "yellow"), warning))
    if (etcd := found["etcd"]) is not None:
        mark = ("✓ ", "green") if etcd["complete"] else ("✗ ", "red")
        console.print(Text.assemble(mark, "etcd: ", etcd["detail"]))


def _power(power: str | None) -> Text:
    return Text(power or "unknown", {"on": "green", "starting": "yellow"}.get(power or "", "dim"))
