"""Running a program inside a lab for its owner: through the lab's entrance, with our files and a terminal of its own.

A program inside is no child of ours, so it cannot have our terminal. It gets a new one, and this process copies what is typed
and shown between the two. Without a terminal the program has our input and output as they are, and signals are passed on.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import socket
import sys
import tempfile
import termios
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from rackless.cli.options import print_json
from rackless.protocol import entrance
from rackless.protocol.entrance import Ended, RunInside

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run(place: Path, argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs the program until it ends; returns its exit code."""
    with entrance.knock(place, entrance.RUN) as connection:
        if sys.stdin.isatty() and sys.stdout.isatty():
            return _at_terminal(connection, argv, env)
        entrance.ask(connection, _asked(argv, env, terminal=False), [0, 1, 2])
        with _passing_on(connection):
            return _code(entrance.read_end(connection)[0])


def run_told(place: Path, argv: Sequence[str], env: Mapping[str, str], about: Mapping[str, Any]) -> NoReturn:
    """Runs the program without a terminal; prints one JSON object with its output, and ends with its exit code."""
    with (
        entrance.knock(place, entrance.RUN) as connection,
        open(os.devnull, "rb") as nothing,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        entrance.ask(connection, _asked(argv, env, terminal=False), [nothing.fileno(), out.fileno(), err.fileno()])
        with _passing_on(connection):
            ended = entrance.read_end(connection)[0]
        said = [(file.seek(0), file.read().decode(errors="replace"))[1] for file in (out, err)]
    print_json({**about, "returncode": ended.code, "stdout": said[0], "stderr": said[1] + ended.problem})
    raise click.exceptions.Exit(ended.code)


def _code(ended: Ended) -> int:
    """As a shell ends, which also says why a program could not be run."""
    if ended.problem:
        click.echo(ended.problem, err=True)
    return ended.code


def _asked(argv: Sequence[str], env: Mapping[str, str], *, terminal: bool) -> RunInside:
    umask = os.umask(0o077)
    os.umask(umask)
    return RunInside(tuple(argv), {**os.environ, **env}, os.getcwd(), umask, terminal)


@contextmanager
def _passing_on(connection: socket.socket) -> Iterator[None]:
    def pass_on(number: int, _: object) -> None:
        with suppress(OSError):
            connection.sendall(bytes([number]))

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _at_terminal(connection: socket.socket, argv: Sequence[str], env: Mapping[str, str]) -> int:
    outer, (ours, theirs) = sys.stdin.fileno(), os.openpty()
    try:
        termios.tcsetattr(theirs, termios.TCSANOW, termios.tcgetattr(outer))
        _copy_size(outer, ours)
        errors = theirs if sys.stderr.isatty() else sys.stderr.fileno()
        entrance.ask(connection, _asked(argv, env, terminal=True), [theirs, theirs, errors])
    finally:
        os.close(theirs)
    resized = signal.signal(signal.SIGWINCH, lambda *_: _copy_size(outer, ours))
    before = termios.tcgetattr(outer)
    try:
        tty.setraw(outer, termios.TCSANOW)
        with _passing_on(connection):
            return _code(_carry(connection, outer, ours))
    finally:
        with suppress(termios.error):  # a terminal that was closed
            termios.tcsetattr(outer, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, resized)
        os.close(ours)


def _carry(connection: socket.socket, outer: int, ours: int) -> Ended:
    """Copies input to the program and its output to us, until it has ended and all of its output is shown."""
    watched: list[Any] = [outer, ours, connection]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if ours in ready and not _pass(ours, sys.stdout.fileno()):
            watched.remove(ours)  # no process has it open any more
        if outer in ready and not _pass(outer, ours):
            watched.remove(outer)
        if connection in ready:
            ended = entrance.read_end(connection)[0]
            while ours in watched and select.select([ours], [], [], 0)[0] and _pass(ours, sys.stdout.fileno()):
                pass
            return ended


def _pass(source: int, target: int) -> bool:
    try:
        data = os.read(source, 1 << 16)
        while data:
            data = data[os.write(target, data) :]
            if not data:
                return True
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    return False


def _copy_size(outer: int, ours: int) -> None:
    fcntl.ioctl(ours, termios.TIOCSWINSZ, fcntl.ioctl(outer, termios.TIOCGWINSZ, b"\0" * 8))
