"""`rackless status`: what is there now, from what is observed."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackless.cli import timeline_view
from rackless.cli.options import console_for, lab_name, listing_options, named_lab, print_as
from rackless.codec import encode
from rackless.diagnosis.chrome_trace import chrome_trace as trace_of
from rackless.diagnosis.timeline import to_json
from rackless.diagnosis.timeline_svg import timeline_svg
from rackless.operations import lab as operations
from rackless.operations.estimates import known_estimates
from rackless.operations.lab import AbsentLab
from rackless.operations.lab_events import host_timeline
from rackless.operations.output_files import write_output
from rackless.operations.runs import choose, install_steps, lab_runs
from rackless.protocol.messages import InstallStatus, LabStatus
from rackless.run.paths import Roots


@click.command()
@named_lab
@click.option(
    "--timeline",
    "as_timeline",
    is_flag=True,
    help="Show how long each phase of each host took, and what is usual here; of an install by a bootstrap each step, too.",
)
@click.option(
    "--chrome-trace",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write every step of the last run as a trace that ui.perfetto.dev opens.",
)
@click.option(
    "--svg",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write every step of the last run as a picture.",
)
@click.option(
    "--run", "number", default=-1, show_default=True, help="Another run than the last: `rackless compare --list`."
)
@listing_options
def status(
    file: Path | None,
    name: str | None,
    as_timeline: bool,
    chrome_trace: Path | None,
    svg: Path | None,
    number: int,
    form: str,
) -> None:
    """Show what is there now."""
    lab, roots, console = lab_name(file, name), Roots.from_environment(), console_for(form)
    if chrome_trace is not None or svg is not None:
        written = _write_run(lab, roots, number, chrome_trace, svg)
        if not print_as(form, written):
            for place in written["files"]:
                click.echo(f"{place}: {written['steps']} steps of run {written['run']}")
        return
    show = _show_timeline if as_timeline else _show_status
    show(lab, roots, console, form)


def _show_status(lab: str, roots: Roots, console: Console, form: str) -> None:
    found = asyncio.run(operations.status(lab, roots))
    if not print_as(form, encode(found)):
        render(found, console, wide=form == "wide")


def _show_timeline(lab: str, roots: Roots, console: Console, form: str) -> None:
    found, known = asyncio.run(host_timeline(lab, roots)), known_estimates(roots)
    install = asyncio.run(install_steps(lab, roots))
    if print_as(form, to_json(found, known, install)):
        return
    if install:
        console.print(timeline_view.render_install(install))
        console.print()
    console.print(timeline_view.render(found, known))
    for line in timeline_view.waits(found, known):
        console.print(Text.assemble(("▸ ", "cyan"), line))


def _write_run(lab: str, roots: Roots, number: int, chrome_trace: Path | None, svg: Path | None) -> dict[str, Any]:
    run = choose(asyncio.run(lab_runs(lab, roots)), number, f"the lab {lab}")
    written = []
    if chrome_trace is not None:
        write_output(chrome_trace, json.dumps(trace_of(lab, run, time.time())), mode=0o644)
        written.append(str(chrome_trace))
    if svg is not None:
        write_output(svg, timeline_svg(lab, run, time.time()), mode=0o644)
        written.append(str(svg))
    return {"run": run.number, "steps": len(run.spans), "files": written}


def render(found: LabStatus | AbsentLab, console: Console, *, wide: bool = False) -> None:
    if isinstance(found, AbsentLab):
        console.print(
            Text.assemble(
                ("lab ", "dim"),
                (found.lab, "bold"),
                "  is stopped" if found.daemon == "stopped" else "  its daemon is not running",
            )
        )
        console.print(Text.assemble(("do: ", "bold cyan"), "`rackless up` starts it and goes on"))
        return
    console.print(Text.assemble(("lab ", "dim"), (found.lab, "bold"), ("  domain ", "dim"), found.domain))
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="dim")
    more = ("MACHINE", "BOOT", "MEDIA") if wide else ()
    for column in ("SERVER", "ROLE", "POWER", "HOST", "NODE", "ADDRESS", "BMC", *more):
        table.add_column(column, no_wrap=True)
    for server in found.servers:
        table.add_row(
            Text(server.name, "bold"),
            server.role,
            _power(server.power),
            Text(server.host or "-", "red" if server.error else ""),
            Text(server.node or "-", "green" if server.node else "dim"),
            server.address,
            server.bmc.removeprefix("https://"),
            *([server.machine or "-", server.boot or "-", server.media or "-"] if wide else []),
        )
    for metal in found.metal:
        table.add_row(
            Text(metal.name, "bold"),
            "metal",
            _power(metal.power),
            Text((metal.host or "-") if metal.taken else "not taken", "red" if metal.error else ""),
            Text(metal.node or "-", "green" if metal.node else "dim"),
            "-",
            urlsplit(metal.bmc).netloc or metal.bmc,
            *([metal.machine or "-", "-", "-"] if wide else []),
        )
    console.print(table)
    errors = [(server.name, server.error) for server in found.servers] + [(one.name, one.error) for one in found.metal]
    for name, error in errors:
        if error:
            console.print(Text.assemble((f"{name}: ", "bold red"), error))
    for fault in found.faults:
        console.print(Text.assemble((f"fault {fault.id}: ", "bold yellow"), fault.text))
    for part in found.parts:
        if not part.running or part.restarts:
            again = "once" if part.restarts == 1 else f"{part.restarts} times"
            state = f"was started again {again}" if part.running else "is not running"
            log = f" (log: {part.log})" if part.log else ""
            console.print(Text.assemble(("! ", "yellow"), f"{part.name} {state}: {part.reason}{log}"))
    if cut_off := found.cut_off:
        what = ", ".join(cut_off[:3]) + (f" and {len(cut_off) - 3} more" if len(cut_off) > 3 else "")
        console.print(Text.assemble(("! ", "yellow"), f"the last `rackless up` was cut off at: {what}"))
        console.print(Text.assemble(("do: ", "bold cyan"), "`rackless up` goes on"))
    for warning in found.warnings:
        console.print(Text.assemble(("! ", "yellow"), warning))
    _render_cluster(found, console)


def _render_cluster(found: LabStatus, console: Console) -> None:
    if found.install is not None:
        _render_install(found.install, console)
        return
    etcd, vip = found.etcd, found.vip
    there = (etcd and etcd.complete) or (vip and vip.holders)
    if (etcd or vip) and not there and found.reached not in ("hosts", "cluster"):
        console.print(Text("· etcd and the API VIP come when the hosts are provisioned", "dim"))
        return
    if etcd is not None:
        console.print(Text.assemble(_mark(etcd.complete), "etcd: ", etcd.detail))
        if etcd.leader:  # without a leader the detail says it all
            for member in etcd.members:
                if member.problem:
                    console.print(Text.assemble("    ", (member.name, "bold"), f": {member.problem}"))
    if vip is not None:
        console.print(Text.assemble(_mark(vip.ready), "API VIP: ", vip.detail))


def _render_install(install: InstallStatus, console: Console) -> None:
    where = f"openshift-install ({install.payload}): "
    if install.state == "complete":
        console.print(Text.assemble(_mark(True), where, "complete; `rackless kubeconfig` opens the cluster"))
    elif install.state == "running":
        console.print(Text.assemble(("▸ ", "cyan"), where, f"runs, at: {install.phase}"))
    else:
        how = f"ended with {install.code}" if install.state == "failed" else "was cut off"
        why = f": {install.detail}" if install.detail else ""
        console.print(Text.assemble(_mark(False), where, f"{how}, at: {install.phase}{why}"))
        console.print(Text.assemble(("do: ", "bold cyan"), "`rackless why` says more; `rackless up` runs it again"))


def _mark(good: bool) -> tuple[str, str]:
    return ("✓ ", "green") if good else ("✗ ", "red")


def _power(power: str | None) -> Text:
    return Text(power or "unknown", {"on": "green", "starting": "yellow"}.get(power or "", "dim"))
