"""Options that several commands share."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rackless.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from rackless.errors import Problem
    from rackless.spec.lab import LabSpec

DEFAULT_FILE = Path("lab.yaml")
FORMS = ("table", "wide", "json", "yaml")
WATCH_EVERY = 2.0
"""Seconds between two looks of `-w`."""
WIDE = 1000
"""Columns of `-o wide`; a shorter table is not filled up."""


def complete_labs(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from rackless.run.paths import Roots

    with suppress(OSError):  # a completion never complains
        return [name for name in Roots.from_environment().labs() if name.startswith(incomplete)]
    return []


def lab_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`-f FILE` and `--name NAME`."""
    command = click.option(
        "-f",
        "--file",
        type=click.Path(path_type=Path),
        help="The lab's description [./lab.yaml, else the default lab].",
    )(command)
    return click.option("--name", shell_complete=complete_labs, help="The lab's name, instead of the one in the file.")(
        command
    )


def json_option(help: str = "One JSON object.") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option("--json", "as_json", is_flag=True, help=help)


def listing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`-o json|yaml|wide`, `--json` and `-w` for what shows how things stand. The command is given `form`, one of FORMS, and is
    called again and again where it is watched."""

    @functools.wraps(command)
    def merged(*given: Any, output: str | None, as_json: bool, watch: bool, **more: Any) -> None:
        if as_json and output not in (None, "json"):
            raise click.UsageError(f"--json and -o {output} are two forms")
        form = "json" if as_json else output or "table"
        while True:
            if watch and form in ("table", "wide") and sys.stdout.isatty():
                click.clear()
            command(*given, form=form, **more)
            if not watch:
                return
            time.sleep(WATCH_EVERY)

    merged = click.option("--json", "as_json", is_flag=True, help="The same as -o json; with --watch, one a line.")(
        merged
    )
    merged = click.option(
        "-w", "--watch", is_flag=True, help=f"Show it again every {WATCH_EVERY:.0f} seconds; Ctrl-C ends it."
    )(merged)
    return click.option("-o", "--output", type=click.Choice(FORMS[1:]), help="Another form than a table.")(merged)


def print_as(form: str, value: Any) -> bool:
    """Prints the value as JSON or YAML; False when a table was asked for."""
    if form == "json":
        print_json(value)
    elif form == "yaml":
        import yaml

        plain = json.loads(json.dumps(value, default=str))
        click.echo(yaml.safe_dump(plain, sort_keys=False, explicit_start=True), nl=False)
    return form in ("json", "yaml")


def console_for(form: str) -> Console:
    """A console of the terminal's width, or, for `-o wide`, wide enough for every table."""
    from rich.console import Console

    return Console(highlight=False, width=WIDE if form == "wide" else None)


DHCP_AT_A_SITE = click.Choice(["installer", "static-only", "open", "reserved"])
"""`reserved` is the earlier name of `installer`."""


def load_spec(file: Path | None, name: str | None) -> LabSpec:
    """The description that is named, or ./lab.yaml, or that of the default lab. Refused when RACKLESS_LAB names another lab than
    ./lab.yaml: commands that are not about a description would mean that one."""
    from rackless.spec.load import load  # importing it takes longer than most commands that do without

    meant = os.environ.get("RACKLESS_LAB") if file is None and name is None else None
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    spec = load(file, name=name if file is not None else name or meant)
    if meant and spec.name != meant:
        raise InputError(
            f"two labs are named: {meant} by RACKLESS_LAB, and {spec.name} by {DEFAULT_FILE}",
            hint=f"say which is meant: --name {meant}, or -f {DEFAULT_FILE}",
        )
    return spec


def old_spellings(file: Path | None) -> list[Problem]:
    """The old spellings in the lab's description that are still read, each with today's spelling."""
    from rackless.spec.spellings import find_old_spellings

    file = file or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    return find_old_spellings(file.read_text(encoding="utf-8")) if file is not None else []


def tell_old_spellings(found: Sequence[Problem], source: Path | None) -> None:
    for problem in found:
        where = f"{source or DEFAULT_FILE}:{problem.line}" if problem.line else str(source or DEFAULT_FILE)
        click.echo(f"hint: {where}: {problem.path}: {problem.message}; {problem.hint}", err=True)


def named_lab(command: Callable[..., Any]) -> Callable[..., Any]:
    """`-f FILE` and `--name NAME`, or the lab's name as the only argument."""

    @functools.wraps(command)
    def merged(*given: Any, lab: str | None, name: str | None, **more: Any) -> Any:
        if lab is not None and name not in (None, lab):
            raise click.UsageError(f"two labs are named: {lab} and {name}")
        return command(*given, name=lab or name, **more)

    return lab_options(click.argument("lab", required=False, metavar="[LAB]", shell_complete=complete_labs)(merged))


def lab_name(file: Path | None, name: str | None) -> str:
    """The name of an existing lab: as given, or the file's, or RACKLESS_LAB, which a shell inside a lab has, or that of
    ./lab.yaml."""
    if name is None and file is None:
        name = os.environ.get("RACKLESS_LAB") or None
    if name is not None:
        return name
    return load_spec(file, None).name


def confirm(question: str, *, would: str) -> None:
    """Asks a person before something is lost; who cannot be asked has to say --yes. The question is no part of the output."""
    if not sys.stdin.isatty():
        raise InputError(would, hint="add --yes to say that it should")
    click.confirm(question, abort=True, err=True)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, default=str))
