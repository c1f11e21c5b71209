"""`rackless up`: from nothing, or from wherever it stands, to the whole lab."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
from rich.console import Console

from rackless.cli import rehearsal_view, timeline_view
from rackless.cli.options import lab_options, load_spec, old_spellings, tell_old_spellings
from rackless.cli.progress import interruptible, shown
from rackless.cluster.openshift.report import Report
from rackless.diagnosis.estimates import step_key
from rackless.errors import InputError
from rackless.events import Bus
from rackless.operations import lab as operations
from rackless.operations.estimates import known_estimates
from rackless.operations.lab_events import host_timeline
from rackless.operations.runs import install_steps
from rackless.plan.stages import GOALS, INSTALL_GOALS
from rackless.run.paths import Roots
from rackless.spec.cluster import Method
from rackless.spec.lab import LabSpec


@click.command()
@lab_options
@click.option(
    "--until",
    "goal",
    type=click.Choice([*GOALS, *INSTALL_GOALS]),
    default=GOALS[-1],
    help="Go as far as this goal, and no further; the last three are those of an install by a bootstrap.",
)
@click.option("--replace", is_flag=True, help="Make anew what cannot be changed in place; its disks are lost.")
@click.option("--no-install", is_flag=True, help="Refuse, instead of installing, when packages are missing.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def up(
    file: Path | None, name: str | None, goal: str, replace: bool, no_install: bool, as_json: bool, quiet: bool
) -> None:
    """Make the lab, or go on making it.

    Every step is skipped when it is already done, so running this again after an error, a Ctrl-C or a reboot goes on.
    """
    spec = load_spec(file, name)
    stop = goal if goal in INSTALL_GOALS else ""
    if stop and spec.cluster.method is not Method.IPI:
        raise InputError(
            f"--until {stop} is of a cluster that a bootstrap installs", hint="`cluster: {method: ipi}` in lab.yaml"
        )
    goal = GOALS[-1] if stop else goal
    if not (as_json or quiet):
        tell_old_spellings(old_spellings(file), file)
    bus = Bus()
    roots = Roots.from_environment()
    estimates, servers = known_estimates(roots), sum(group.count for group in spec.servers.values())
    with (
        interruptible(lambda: operations.describe_left(spec.name, roots), spec.name),
        shown(bus, as_json=as_json, quiet=quiet, usual=lambda event: estimates.usual(step_key(event, servers))),
    ):
        asyncio.run(operations.up(spec, roots, bus, goal=goal, install=not no_install, replace=replace))
        if spec.cluster.method is Method.IPI and goal == GOALS[-1]:
            from rackless.operations.install.lab import install_lab

            asyncio.run(install_lab(spec, roots, bus, goal=stop or goal))
        report = _run_installer(spec, roots, bus) if goal == GOALS[-1] else None
    if as_json or quiet:
        return
    if spec.cluster.method is Method.DIRECT and GOALS.index(goal) >= GOALS.index("hosts"):
        Console(highlight=False).print(timeline_view.render(asyncio.run(host_timeline(spec.name, roots)), estimates))
    if spec.cluster.method is Method.IPI and goal == GOALS[-1]:
        Console(highlight=False).print(timeline_view.render_install(asyncio.run(install_steps(spec.name, roots))))
    if report is not None:
        rehearsal_view.show(report)
    click.echo(f"watch it in a browser: `rackless web --name {spec.name}`")


def _run_installer(spec: LabSpec, roots: Roots, bus: Bus) -> Report | None:
    """The installer of OpenShift, where the lab's cluster comes by it."""
    if spec.cluster.method is not Method.OPENSHIFT:
        return None
    from rackless.operations.openshift.lab import install_openshift

    return asyncio.run(install_openshift(spec, roots, bus))
