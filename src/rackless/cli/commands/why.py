"""`rackless why`: one sentence, what it rests on, and what to do."""

from __future__ import annotations

import asyncio
import textwrap
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.diagnosis.rule import Diagnosis
from rackless.errors import FINDINGS, InputError
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
@json_option()
@click.pass_context
def why(
    ctx: click.Context,
    subject: str,
    file: Path | None,
    name: str | None,
    archive: Path | None,
    installer_dir: Path | None,
    as_json: bool,
) -> None:
    """Say what is stuck or wrong, worst first: one sentence, its evidence, and what to do.

    SUBJECT is one thing: a host (ctrl-0), node/NAME, vip/api, cluster/etcd, …; without it, all of the lab.

    Exit code 0: nothing is wrong; 10: something is.
    """
    if archive is not None and installer_dir is not None:
        raise InputError("--archive and --installer-dir are two questions", hint="ask one after the other")
    if installer_dir is not None:
        answer = why_installer(installer_dir, subject)
    elif archive is not None:
        answer = why_archive(archive, subject)
    else:
        answer = asyncio.run(why_lab(lab_name(file, name), Roots.from_environment(), this_computer(), subject))
    if as_json:
        print_json(answer.as_json())
    else:
        _show(answer, subject, Console(highlight=False, soft_wrap=True, markup=False, emoji=False))
    if answer.findings:
        ctx.exit(FINDINGS)


def _show(answer: WhyAnswer, subject: str, console: Console) -> None:
    if not answer.findings:
        about = f"{subject} of {answer.about}" if subject else answer.about
        console.print(
            Text.assemble(("✓ ", "green"), f"nothing is wrong with {about}, as far as {answer.rules} rules look")
        )
        return
    for number, found in enumerate(answer.findings):
        if number:
            console.print()
        _show_one(found, console)


def _show_one(found: Diagnosis, console: Console) -> None:
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


def _wrapped(text: str, width: int) -> list[str]:
    """Without what a log could do to a terminal."""
    plain = "".join(sign if sign.isprintable() else " " for sign in text)
    return textwrap.wrap(plain, width, break_long_words=False, break_on_hyphens=False) or [""]
