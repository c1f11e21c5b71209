"""`rackless console SERVER`: the serial console. labd reads it and serves any number of people: all see everything, all may
type."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from rackless.cli.completing import server_argument
from rackless.cli.following import last_lines
from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.operations import servers as server_operations
from rackless.operations.this_computer import this_computer
from rackless.run.paths import Roots

_ESCAPE = b"\x1d"
"""Ctrl-], as in telnet and virsh."""


@click.command()
@lab_options
@server_argument
@click.option(
    "-n", "--lines", type=click.IntRange(0, 10_000), default=40, show_default=True,
    help="How many of the last lines to begin with.",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Only watch; Ctrl-C ends it.")
@json_option("Open none: one JSON object with its log, its terminal while the server is on, and the last lines.")
def console(file: Path | None, name: str | None, server: str, lines: int, read_only: bool, as_json: bool) -> None:
    """Watch SERVER's serial console and type at it. Ctrl-] ends it; what it showed is kept in its log."""
    lab, roots = lab_name(file, name), Roots.from_environment()
    if as_json and not this_computer().computer.root():
        seen = asyncio.run(server_operations.look_at_console(lab, server, lines, roots))
        print_json({"server": server, "log": seen.log, "terminal": seen.terminal, "lines": list(seen.lines)})
        return
    if as_json:
        log, terminal = asyncio.run(server_operations.find_terminal(lab, server, roots, this_computer()))
        shown = list(last_lines(log, lines))
        print_json({"server": server, "log": str(log), "terminal": terminal, "lines": shown})
        return
    asyncio.run(_attend(lab, server, lines, roots, typing=not read_only and sys.stdin.isatty()))


async def _attend(lab: str, server: str, lines: int, roots: Roots, *, typing: bool) -> None:
    async with server_operations.console(lab, server, lines, roots, this_computer()) as seat:
        if not seat.on:
            click.echo(f"{server} is off; this is what its console showed, and will show", err=True)
        if seat.write is None or not typing:
            await _show(seat.heard)
            return
        click.echo(f"console of {server}; Ctrl-] ends it", err=True)
        with _keys(seat.write) as left:
            showing = asyncio.ensure_future(_show(seat.heard))
            await asyncio.wait((showing, left), return_when=asyncio.FIRST_COMPLETED)
        click.echo("\r\nend of the console", err=True)
        if not left.done():
            await showing
        showing.cancel()


async def _show(heard: AsyncIterator[bytes]) -> None:
    async for text in heard:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()


@contextmanager
def _keys(write: Callable[[bytes], None]) -> Iterator[asyncio.Future[None]]:
    """Sends keys to the server one by one, without echo on our own terminal; returns when Ctrl-] is typed."""
    loop, keyboard = asyncio.get_running_loop(), sys.stdin.fileno()
    left: asyncio.Future[None] = loop.create_future()

    def struck() -> None:
        keys = os.read(keyboard, 1024)
        if keys and _ESCAPE not in keys:
            write(keys)
        elif not left.done():
            left.set_result(None)

    before = termios.tcgetattr(keyboard)
    tty.setraw(keyboard, termios.TCSANOW)
    loop.add_reader(keyboard, struck)
    try:
        yield left
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
