"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from rackless.spec.lab import LabSpec
from rackless.spec.load import load

DEFAULT_FILE = Path("lab.yaml")


def lab_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`-f FILE` and `--name NAME`."""
    command = click.option(
        "-f",
        "--file",
        type=click.Path(path_type=Path),
        help="The lab's description [./lab.yaml, else the default lab].",
    )(command)
    return click.option("--name", help="The lab's name, instead of the one in the file.")(command)


def load_spec(file: Path | None, name: str | None) -> LabSpec:
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    return load(file, name=name)
