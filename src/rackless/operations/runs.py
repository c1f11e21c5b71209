"""Runs of `up`, read from events: of a lab's event log, of an archive of `rackless gather`, or of a file of `rackless events
--json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rackless import events
from rackless.codec import BadValue
from rackless.diagnosis.comparison import Difference, compare
from rackless.diagnosis.install_steps import SeenStep, install_timeline
from rackless.diagnosis.runs import Run, find_runs
from rackless.errors import InputError
from rackless.operations.archives import is_archive, unpack
from rackless.operations.lab_events import kept_events
from rackless.operations.lab_registry import recorded_spec, require_lab
from rackless.plan.addressing import plan_lab
from rackless.run.paths import Roots
from rackless.spec.cluster import Method

_ARCHIVED = ("logs/events.1.jsonl", "logs/events.jsonl")
_END_OF_TIME = 1e11
"""Seconds since the epoch; what is later cannot be told as a date."""


@dataclass(frozen=True, slots=True)
class Compared:
    before: Run
    after: Run
    differences: Sequence[Difference]


async def lab_runs(name: str, roots: Roots) -> list[Run]:
    """Also while the daemon is away."""
    return find_runs(await kept_events(require_lab(name, roots), ["*"]))


async def install_steps(name: str, roots: Roots) -> list[SeenStep]:
    """How far the install of a lab came that a bootstrap installs, step by step; nothing of other labs."""
    spec = recorded_spec(require_lab(name, roots))
    if spec is None or spec.cluster.method is not Method.IPI:
        return []
    plan = plan_lab(spec)
    masters = {server.name for server in plan.control_planes}
    return install_timeline(await lab_runs(name, roots), masters, {each.name for each in plan.servers} - masters)


async def compare_runs(lab: str, before: str, after: str, roots: Roots) -> Compared:
    """A run is told by its number in this lab (`1` the first that is kept, `-1` the last), or by a file: its last run, or with
    `FILE:N` the n-th in it."""
    first, second = await _resolve(lab, before, roots), await _resolve(lab, after, roots)
    return Compared(first, second, compare(first, second))


async def _resolve(lab: str, told: str, roots: Roots) -> Run:
    if told.lstrip("-").isdigit():
        return choose(await lab_runs(lab, roots), int(told), f"the lab {lab}")
    name, _, number = told.rpartition(":")
    if name and number.lstrip("-").isdigit() and not Path(told).exists():
        return choose(file_runs(Path(name)), int(number), name)
    return choose(file_runs(Path(told)), -1, told)


def choose(runs: Sequence[Run], number: int, where: str) -> Run:
    """Counted from 1, or below zero from the end."""
    place = number - 1 if number > 0 else len(runs) + number
    if number == 0 or not 0 <= place < len(runs):
        kept = f"there are {len(runs)}" if runs else "there is none"
        raise InputError(
            f"{where} has no run {number}", why=f"of those that are kept, {kept}", hint="`rackless compare --list`"
        )
    return runs[place]


def file_runs(path: Path) -> list[Run]:
    try:
        if is_archive(path):
            found = {name.partition("/")[2]: data for name, data in unpack(path, _is_log).items()}
            return find_runs(_parsed(b"".join(found.get(name, b"") for name in _ARCHIVED)))
        return find_runs(_parsed(path.read_bytes()))
    except OSError as error:
        raise InputError(
            f"{path} is no run: it cannot be read",
            why=str(error),
            hint="name the number of a run (`rackless compare --list`), an archive of `rackless gather`, or a file of events",
        ) from error


def _is_log(member: str) -> bool:
    return member.partition("/")[2] in _ARCHIVED


def _parsed(lines: bytes) -> Iterator[events.Event]:
    """Lines that are no events, cut short or of a newer version, are passed over."""
    for line in lines.splitlines():
        with suppress(ValueError, BadValue, RecursionError):
            value = json.loads(line)
            event = events.from_json(value) if isinstance(value, dict) else None
            if event is not None and 0 <= event.at < _END_OF_TIME:  # neither is so of what is no number
                yield event
