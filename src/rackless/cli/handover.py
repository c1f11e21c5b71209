"""Becoming another program for a person, or, with `--json`, running it for a program and telling what came of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from rackless.cli.options import print_json
from rackless.operations.this_computer import local_processes


def become(argv: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    os.execvpe(argv[0], list(argv), {**os.environ, **(env or {})})


def run_told(argv: Sequence[str], about: Mapping[str, Any], env: Mapping[str, str] | None = None) -> NoReturn:
    """Run it to its end without a terminal; one object with its output, and its exit code as ours."""
    done = asyncio.run(local_processes().run(argv, env={**os.environ, **(env or {})}, check=False))
    print_json({**about, "returncode": done.code, "stdout": done.stdout, "stderr": done.stderr})
    raise click.exceptions.Exit(done.code if done.code >= 0 else 128 - done.code)


def tell(argv: Sequence[str], about: Mapping[str, Any], env: Mapping[str, str] | None = None) -> None:
    """What would be run for a person at a terminal."""
    print_json({**about, "argv": list(argv), "environment": dict(env or {})})
