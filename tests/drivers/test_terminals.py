from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest

from rackless.drivers.libvirt.terminal import read_terminal
from rackless.drivers.terminals import TerminalConsoles
from rackless.ports.console import NoConsole


@pytest.fixture
def guest() -> Iterator[tuple[int, Path]]:
    """The server's end of a terminal, and the path of the other."""
    master, slave = pty.openpty()
    yield master, Path(os.ttyname(slave))
    for end in (master, slave):
        os.close(end)


def consoles(log: Path, terminal: Path | None) -> TerminalConsoles:
    async def find(server: str) -> Path | None:
        return terminal

    return TerminalConsoles(lambda server: log, find)


async def test_all_who_listen_hear_what_is_added_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    console = consoles(log, None)
    early = console.attach("a")[0]
    log.write_bytes(b"long ago")
    async with asyncio.timeout(30):
        assert await anext(early) == b"long ago"
    await early.aclose()
    first, second = console.attach("a")[0], console.attach("a")[0]
    with log.open("ab") as file:
        file.write(b"login: ")
    async with asyncio.timeout(30):
        assert await anext(first) == b"login: "
        assert await anext(second) == b"login: "
    log.write_bytes(b"new")
    async with asyncio.timeout(30):
        assert await anext(first) == b"new"
    await first.aclose()
    await second.aclose()


async def test_what_is_typed_reaches_the_terminal_of_the_running_server(
    tmp_path: Path, guest: tuple[int, Path]
) -> None:
    log = tmp_path / "log"
    log.touch()
    heard, write = consoles(log, guest[1]).attach("a")
    listening = asyncio.ensure_future(anext(heard))
    write(b"ro")
    write(b"ot\r")
    pasted = b"a long line that somebody pasted\r" * 100
    typed = b""
    async with asyncio.timeout(30):
        while len(typed) < 5:
            typed += await asyncio.to_thread(os.read, guest[0], 100)
        for start in range(0, len(pasted), 1000):
            write(pasted[start : start + 1000])
        while len(typed) < 5 + len(pasted):
            typed += await asyncio.to_thread(os.read, guest[0], 100)
    assert typed == b"root\r" + pasted
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await heard.aclose()


async def test_what_is_typed_at_a_server_that_is_off_is_lost(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    heard, write = consoles(log, None).attach("a")
    write(b"anybody there?")
    await asyncio.sleep(0.01)
    await heard.aclose()


def test_a_server_without_a_place_for_its_log_has_no_console(tmp_path: Path) -> None:
    with pytest.raises(NoConsole):
        consoles(tmp_path / "nowhere/none", None).attach("a")


def test_the_terminal_is_in_the_description_of_a_running_server() -> None:
    serial = "<serial type='pty'><source path='/dev/pts/7'/><log file='/x' append='on'/></serial>"
    assert read_terminal(f"<domain><devices>{serial}</devices></domain>") == Path("/dev/pts/7")
    assert read_terminal("<domain><devices><serial type='pty'/></devices></domain>") is None


async def test_who_comes_late_sees_the_last_lines_first(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\r\ntwo\r\nlogin: ")
    for lines, wanted in ((2, b"two\r\nlogin: "), (9, b"one\r\ntwo\r\nlogin: ")):
        heard, _ = consoles(log, None).attach("a", lines)
        async with asyncio.timeout(30):
            assert await anext(heard) == wanted
        await heard.aclose()
