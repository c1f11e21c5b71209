"""`rackless why`: what is wrong in one sentence, its evidence, and what to do."""

from __future__ import annotations

import asyncio
import textwrap
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.diagnosis.rule import Diagnosis
from rackless.errors import FINDINGS, InputError, RacklessError
from rackless.events import Bus
from rackless.operations.remedies import apply
from rackless.operations.this_computer import this_computer
from rackless.operations.why import WhyAnswer, why_archive, why_installer, why_lab
from rackless.run.paths import Roots

_MOST_EVIDENCE = 8


@click.command()
@click.argument("subject", required=False, default="")
@lab_options
@click.option(
    "--archive", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="An archive of `rackless gather`."
)
@click.option(
    "--installer-dir", type=click.Path(path_type=Path, file_okay=False), help="The folder of an openshift-install run."
)
@click.option("--fix", "fixing", is_flag=True, help="Do what is safe about it; asks before each.")
@click.option("-y", "--yes", is_flag=True, help="With --fix: do not ask.")
@json_option()
@click.pass_context
def why(
    ctx: click.Context,
    subject: str,
    file: Path | None,
    name: str | None,
    archive: Path | None,
    installer_dir: Path | None,
    fixing: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Say what is stuck or wrong, worst first: one sentence, its evidence, and what to do.

    SUBJECT is one thing: a host (ctrl-0), node/NAME, vip/api, cluster/etcd, …; without it, all of the lab.

    With --fix, what is safe is done: programs that ended are started, a server whose agent was never heard of is restarted, a
    host tried again, a certificate of a node of the lab approved. Nothing is tried again before something has changed.

    Exit code 0: nothing is wrong; 10: something is, or was before --fix.
    """
    if fixing and (archive is not None or installer_dir is not None):
        raise InputError("--fix is for a lab that is here", why="an archive and an installer's folder are only read")
    if archive is not None and installer_dir is not None:
        raise InputError("--archive and --installer-dir are two questions", hint="ask one after the other")
    if installer_dir is not None:
        answer = why_installer(installer_dir, subject)
    elif archive is not None:
        answer = why_archive(archive, subject)
    else:
        answer = asyncio.run(why_lab(lab_name(file, name), Roots.from_environment(), this_computer(), subject))
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    if not as_json:
        _show(answer, subject, console)
    done = _fix(answer, lab_name(file, name), yes or as_json, console, as_json) if fixing else None
    if as_json:
        print_json(answer.as_json() | ({"fixed": done} if done is not None else {}))
    if answer.findings:
        ctx.exit(FINDINGS)


def _fix(answer: WhyAnswer, lab: str, yes: bool, console: Console, quiet: bool) -> list[dict[str, object]]:
    """Offers one remedy after the other, the deepest cause first."""
    done: list[dict[str, object]] = []
    for remedy in (found.fix for found in answer.findings):
        if remedy is None or not (yes or click.confirm(f"\n{remedy.offer}?", default=True)):
            continue
        told = {"rule": remedy.rule, "subject": remedy.subject, "cure": remedy.cure.value}
        try:
            outcome = asyncio.run(apply(lab, remedy, Roots.from_environment(), Bus(), this_computer()))
        except RacklessError as error:
            done.append({**told, "applied": False, "why": str(error)})
            mark, said = ("✗ ", "bold red"), f"{remedy.offer}: {error}"
        else:
            done.append({**told, "applied": outcome.applied, "why": outcome.why})
            mark = ("✓ ", "green") if outcome.applied else ("· ", "yellow")
            said = "done: " + remedy.offer if outcome.applied else f"not done: {outcome.why}"
        if not quiet:
            console.print(Text.assemble(mark, said))
    if not done and not quiet and answer.findings:
        console.print(Text("nothing of this can be done by itself", "dim"))
    return done


def _show(answer: WhyAnswer, subject: str, console: Console) -> None:
    if not answer.findings:
        about = f"{subject} of {answer.about}" if subject else answer.about
        console.print(
            Text.assemble(("✓ ", "green"), f"nothing is wrong with {about}, as far as {answer.rules} rules look")
        )
        if answer.looked_at:
            console.print(Text(f"  looked at: {answer.looked_at}", "dim"))
        for line in answer.healed:
            console.print(Text(f"  by itself: {_wrapped(line, 160)[0]}", "dim"))
        return
    for number, found in enumerate(answer.findings):
        if number:
            console.print()
        _show_one(found, console, here=answer.here)


def _show_one(found: Diagnosis, console: Console, *, here: bool) -> None:
    width = max(min(console.width, 120) - 6, 40)
    lines = _wrapped(found.cause.message, width)
    for number, line in enumerate(lines):
        last = number == len(lines) - 1
        mark = ("✗ ", "bold red") if number == 0 else ("  ", "")
        console.print(Text.assemble(mark, (line, "bold"), (f"  {found.rule}" if last else "", "dim")))
    for one in found.cause.evidence[:_MOST_EVIDENCE]:
        seen = f"{one.at}  {one.source}: " if one.at else f"{one.source}: "
        head, *more = _wrapped(seen + one.text, width)
        console.print(Text.assemble("    ", (head[: len(seen)], "dim"), head[len(seen) :]))
        for line in more:
            console.print(f"      {line}")
    if (left := len(found.cause.evidence) - _MOST_EVIDENCE) > 0:
        console.print(Text(f"    … and {left} lines more with --json", "dim"))
    head, *more = _wrapped(found.cause.remedy, width)
    console.print(Text.assemble(("  do: ", "bold cyan"), head))
    for line in more:
        console.print(f"      {line}")
    if found.fix is not None and here:
        console.print(Text.assemble(("  or: ", "bold cyan"), f"`rackless why --fix`: {found.fix.offer}"))


def _wrapped(text: str, width: int) -> list[str]:
    """Wrapped to the terminal, without the control characters that a log may contain."""
    plain = "".join(sign if sign.isprintable() else " " for sign in text)
    return textwrap.wrap(plain, width, break_long_words=False, break_on_hyphens=False) or [""]
