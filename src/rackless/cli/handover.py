"""Becoming another program for a person, or, with `--json`, running it for a program and reporting the result."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import click

from rackless.cli.options import print_json
from rackless.errors import HypervisorError
from rackless.operations.this_computer import local_processes


def become(argv: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    os.execvpe(argv[0], list(argv), {**os.environ, **(env or {})})


def run_here(argv: Sequence[str]) -> NoReturn:
    """Runs a program as a child at our terminal and ends with its exit code. Unlike after `become`, callers can remove its
    files then."""
    # the program does not inherit a handler, as it would `SIG_IGN`: Ctrl-C ends the program, and we wait for that
    child, early = 0, list[int]()

    def pass_on(number: int, _: object) -> None:
        if child == 0:
            early.append(number)
            return
        with suppress(ProcessLookupError):
            os.kill(child, number)

    handlers: dict[int, Callable[[int, Any], None]] = {
        **dict.fromkeys((signal.SIGINT, signal.SIGQUIT), lambda *_: None),  # the terminal tells the program, too
        **dict.fromkeys((signal.SIGTERM, signal.SIGHUP), pass_on),
    }
    heard = [number for number in handlers if signal.getsignal(number) is not signal.SIG_IGN]  # as nohup has it
    before = {number: signal.signal(number, handlers[number]) for number in heard}
    try:
        try:
            child = os.posix_spawnp(argv[0], list(argv), os.environ)
        except FileNotFoundError as error:
            raise HypervisorError(
                f"there is no {argv[0]} on this computer", hint="`rackless doctor` says which package has it"
            ) from error
        for number in early:
            pass_on(number, None)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        for number, was in before.items():
            signal.signal(number, was)
    raise click.exceptions.Exit(code if code >= 0 else 128 - code)


def run_told(argv: Sequence[str], about: Mapping[str, Any], env: Mapping[str, str] | None = None) -> NoReturn:
    """Runs the program without a terminal; prints one JSON object with its output, and ends with its exit code."""
    done = asyncio.run(local_processes().run(argv, env={**os.environ, **(env or {})}, check=False))
    print_json({**about, "returncode": done.code, "stdout": done.stdout, "stderr": done.stderr})
    raise click.exceptions.Exit(done.code if done.code >= 0 else 128 - done.code)


def tell(argv: Sequence[str], about: Mapping[str, Any], env: Mapping[str, str] | None = None) -> None:
    """Prints, as JSON, the command that a person at a terminal would get."""
    print_json({**about, "argv": list(argv), "environment": dict(env or {})})
