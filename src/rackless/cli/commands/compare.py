"""`rackless compare`: what was slower in one run than in another."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackless.cli.durations import spent
from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.codec import encode
from rackless.diagnosis.comparison import Difference
from rackless.diagnosis.runs import Run
from rackless.operations.runs import Compared, compare_runs, lab_runs
from rackless.run.paths import Roots


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("before", required=False, default="-2", metavar="[RUN]")
@click.argument("after", required=False, default="-1", metavar="[RUN]")
@lab_options
@click.option("--list", "listing", is_flag=True, help="List the runs of the lab instead.")
@json_option()
def compare(before: str, after: str, file: Path | None, name: str | None, listing: bool, as_json: bool) -> None:
    """Say what was slower in the second run than in the first.

    A run is one `rackless up` of the lab and what followed it: 1 is the first that is kept, -1 the last. It may also be
    of another lab or computer: an archive of `rackless gather`, or a file of `events --json`; FILE:2 is the second run in it.

    Without a RUN the last two of the lab are compared.
    """
    console, roots = Console(highlight=False, markup=False, emoji=False), Roots.from_environment()
    if listing:
        runs = asyncio.run(lab_runs(lab_name(file, name), roots))
        print_json([_summary(run) for run in runs]) if as_json else _show_runs(runs, console)
        return
    needs_lab = any(run.lstrip("-").isdigit() for run in (before, after))
    found = asyncio.run(compare_runs(lab_name(file, name) if needs_lab else "", before, after, roots))
    if as_json:
        print_json(
            {
                "runs": [_summary(found.before), _summary(found.after)],
                "steps": [encode(one) | {"seconds": one.seconds, "noticed": one.noticed} for one in found.differences],
            }
        )
    else:
        _show(found, console)


def _summary(run: Run) -> dict[str, object]:
    failed = sum(span.outcome == "failed" for span in run.spans)
    return {"run": run.number, "began": run.began, "seconds": run.seconds, "steps": len(run.spans), "failed": failed}


def _show_runs(runs: list[Run], console: Console) -> None:
    table = _table("RUN", "BEGAN", "TOOK", "STEPS", "FAILED")
    for run in runs:
        told = _summary(run)
        table.add_row(str(run.number), _clock(run.began), spent(run.seconds), str(told["steps"]), str(told["failed"]))
    console.print(table if runs else "no run of this lab is kept")


def _show(found: Compared, console: Console) -> None:
    noticed = [one for one in found.differences if one.noticed]
    if noticed:
        table = _table("STEP", "FIRST", "SECOND", "DIFFERENCE")
        for one in noticed:
            colour = "red" if one.seconds > 0 else "green"
            table.add_row(_step(one), _spent(one.before), _spent(one.after), Text(f"{_signed(one.seconds)}", colour))
        console.print(table)
    alike = len(found.differences) - len(noticed)
    if alike:
        console.print(Text(f"{alike} steps took about as long in both", "dim"))
    before, after = found.before, found.after
    whole = after.seconds - before.seconds
    verdict = "about as long" if abs(whole) < 1 else f"{spent(abs(whole))} {'longer' if whole > 0 else 'less'}"
    console.print(
        f"from the first step to the last the second took {verdict}: {spent(after.seconds)} ({_clock(after.began)}), "
        f"after {spent(before.seconds)} ({_clock(before.began)})",
        soft_wrap=True,
    )


def _step(one: Difference) -> str:
    name = one.subject.partition("/")[2]
    return f"{name}: {one.phase}" if name else one.phase


def _spent(seconds: float | None) -> str:
    return "-" if seconds is None else spent(seconds)


def _signed(seconds: float) -> str:
    return f"{'+' if seconds > 0 else '−'}{spent(abs(seconds))}"


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="dim")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table
