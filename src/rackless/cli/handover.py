"""Becoming another program for a person, or, with `--json`, running it for a program and telling what came of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from rackless.cli.options import print_json
from rackless.operations.this_computer import local_processes


def become(argv: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    os.execvpe(argv[0], list(argv), {**os.environ, **(env or {})})


def run_here(argv: Sequence[str]) -> NoReturn:
    """Run a program at our terminal, which is back when it ends, and take its exit code; what it was given is cleared up then."""
    # a handler, unlike `SIG_IGN`, is nothing that the program inherits: an interrupt is for it, and we wait for its end
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        code = os.spawnvp(os.P_WAIT, argv[0], list(argv))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    raise click.exceptions.Exit(code if code >= 0 else 128 - code)


def run_told(argv: Sequence[str], about: Mapping[str, Any], env: Mapping[str, str] | None = None) -> NoReturn:
    """Run it to its end without a terminal; one object with its output, and its exit code as ours."""
    done = asyncio.run(local_processes().run(argv, env={**os.environ, **(env or {})}, check=False))
    print_json({**about, "returncode": done.code, "stdout": done.stdout, "stderr": done.stderr})
    raise click.exceptions.Exit(done.code if done.code >= 0 else 128 - done.code)


def tell(argv: Sequence[str], about: Mapping[str, Any], env: Mapping[str, str] | None = None) -> None:
    """What would be run for a person at a terminal."""
    print_json({**about, "argv": list(argv), "environment": dict(env or {})})
