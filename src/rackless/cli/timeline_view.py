"""The timeline as tables: of hosts, a row for each and a column for each phase, with what is usual on this computer; of an install,
a row for each step."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from rackless.cli.durations import rounded, spent, usually
from rackless.diagnosis.estimates import Estimates, Usual, phase_key
from rackless.diagnosis.install_steps import SeenStep
from rackless.diagnosis.timeline import Phase


def render(found: dict[str, list[Phase]], known: Estimates | None = None) -> Table:
    known = known or Estimates()
    names = list(dict.fromkeys(phase.name for phases in found.values() for phase in phases))
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="dim")
    table.add_column("HOST", no_wrap=True)
    for name in names:
        table.add_column(name.partition(" ")[0].upper(), justify="right", no_wrap=True)
    table.add_column("IN ALL", justify="right", no_wrap=True)
    for host, phases in found.items():
        last = {phase.name: phase for phase in phases}
        whole = Text(_seconds(_end(phases[-1]) - phases[0].began), "bold") if phases else Text("-", "dim")
        table.add_row(Text(host, "bold"), *(_cell(last.get(name)) for name in names), whole)
    usual = [known.usual(phase_key(name)) for name in names]
    if any(usual):
        table.add_row(Text("usually here", "dim"), *map(_usual_cell, usual), "")
    return table


def render_install(steps: Sequence[SeenStep]) -> Table:
    """With the numbers of the steps in the design of bare-metal IPI (DESIGN) and in an installer's lab on libvirt (LAB)."""
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="dim")
    for name in ("DESIGN", "LAB", "STEP OF THE INSTALL"):
        table.add_column(name, no_wrap=True)
    for name in ("AFTER", "TOOK"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in steps:
        took = _cell(Phase(each.step.name, each.began, each.seconds, each.outcome, each.tries))
        after = spent(each.began - steps[0].began)
        table.add_row(each.step.design, Text(each.step.lab or "-", "dim"), Text(each.step.name, "bold"), after, took)
    return table


def waits(found: dict[str, list[Phase]], known: Estimates) -> list[str]:
    """For each host that is working: what it waits for, and how long that usually takes."""
    lines = []
    for host, phases in found.items():
        if phases and phases[-1].seconds is None:
            last = phases[-1]
            usual = known.usual(phase_key(last.name))
            told = [last.name, last.waits, usually(usual) if usual is not None else ""]
            lines.append(f"{host}: {', '.join(part for part in told if part)}")
    return lines


def _usual_cell(usual: Usual | None) -> Text:
    if usual is None:
        return Text("-", "dim")
    return Text(rounded(usual.median), "dim")


def _cell(phase: Phase | None) -> Text:
    if phase is None:
        return Text("-", "dim")
    again = f" (try {phase.tries})" if phase.tries > 1 else ""
    if phase.seconds is None:
        return Text(f"{_seconds(time.time() - phase.began)}…{again}", "yellow")
    return Text(f"{_seconds(phase.seconds)}{again}", "red" if phase.outcome == "failed" else "")


def _end(phase: Phase) -> float:
    return phase.began + phase.seconds if phase.seconds is not None else time.time()


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"
