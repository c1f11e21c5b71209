"""`rackless console SERVER`: the serial console. Output is the log's, so that several may watch; input goes to the terminal."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import termios
import threading
import tty
from contextlib import suppress
from pathlib import Path

import click

from rackless.cli.following import chunks, last_lines
from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.daemon import hands
from rackless.run.paths import Roots

_ESCAPE = b"\x1d"
"""Ctrl-], as in telnet and virsh."""


@click.command()
@lab_options
@click.argument("server")
@click.option("-n", "--lines", default=40, show_default=True, help="How many of the last lines to begin with.")
@click.option("--read-only", is_flag=True, help="Only watch; Ctrl-C ends it.")
@json_option("Open none: one JSON object with its log, its terminal while the server is on, and the last lines.")
def console(file: Path | None, name: str | None, server: str, lines: int, read_only: bool, as_json: bool) -> None:
    """Watch SERVER's serial console and type at it. Ctrl-] ends it; what it showed is kept in its log."""
    log, terminal = asyncio.run(hands.find_terminal(lab_name(file, name), server, Roots.from_environment()))
    if as_json:
        shown = list(last_lines(log, lines))
        print_json({"server": server, "log": str(log), "terminal": terminal, "lines": shown})
        return
    if read_only or terminal is None or not sys.stdin.isatty():
        if terminal is None:
            click.echo(f"{server} is off; this is what its console showed, and will show", err=True)
        _watch(log, lines)
        return
    click.echo(f"console of {server}; Ctrl-] ends it", err=True)
    _talk(log, lines, terminal)


def _watch(log: Path, lines: int) -> None:
    for chunk in chunks(log, lines):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def _talk(log: Path, lines: int, terminal: Path) -> None:
    before = termios.tcgetattr(sys.stdin)
    line = os.open(terminal, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        tty.setraw(line, termios.TCSANOW)  # the default throws away what somebody else has just typed
        tty.setraw(sys.stdin, termios.TCSANOW)
        threading.Thread(target=_watch, args=(log, lines), daemon=True).start()
        while True:
            ready, _, _ = select.select([sys.stdin, line], [], [])
            if line in ready:
                with suppress(BlockingIOError):  # somebody else at this console was quicker
                    os.read(line, 4096)  # the log has it; unread, it would hold the server up
            if sys.stdin in ready:
                typed = os.read(sys.stdin.fileno(), 1024)
                if not typed or _ESCAPE in typed:
                    return
                _type(line, typed)
    except OSError:  # the server was switched off
        return
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        os.close(line)
        click.echo("\r\nend of the console", err=True)


def _type(line: int, typed: bytes) -> None:
    """What the server does not take for a second is lost, as on a wire: who types must be able to leave."""
    while typed and select.select([], [line], [], 1.0)[1]:
        with suppress(BlockingIOError):
            typed = typed[os.write(line, typed) :]
