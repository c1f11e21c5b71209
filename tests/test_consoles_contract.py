"""What every set of consoles does, be it terminals with logs or a fake."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest

from rackless.drivers.fake.consoles import FakeConsoles
from rackless.drivers.terminals import TerminalConsoles
from rackless.ports.console import Consoles, Heard, NoConsole


@dataclass
class Site:
    """Consoles, and the guest `box` behind one of them."""

    consoles: Consoles
    say: Callable[[bytes], None]
    typed: Callable[[], Awaitable[bytes]]
    """The next of what was typed."""


@pytest.fixture(params=["terminal", "fake"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    if request.param == "fake":
        fake = FakeConsoles({"box"})

        async def read_typed() -> bytes:
            text = bytes(fake.typed["box"])
            fake.typed["box"].clear()
            return text

        yield Site(fake, lambda text: fake.say("box", text), read_typed)
        return
    folder = tmp_path / "box"
    folder.mkdir()
    master, slave = pty.openpty()

    async def find(_: str) -> Path:
        return Path(os.ttyname(slave))

    def say(text: bytes) -> None:
        with (folder / "log").open("ab") as log:
            log.write(text)

    yield Site(
        TerminalConsoles(lambda server: tmp_path / server / "log", find),
        say,
        lambda: asyncio.to_thread(os.read, master, 100),
    )
    for end in (master, slave):
        os.close(end)


async def hear(heard: Heard, much: int) -> bytes:
    text = b""
    async with asyncio.timeout(30):
        while len(text) < much:
            text += await anext(heard)
    return text


async def test_everybody_hears_all_of_it_from_when_they_came(site: Site) -> None:
    site.say(b"before\n")
    first = site.consoles.attach("box")[0]
    async with aclosing(first):
        ahead = asyncio.ensure_future(hear(first, 8))
        await asyncio.sleep(0)
        site.say(b"one\n")
        second = site.consoles.attach("box")[0]
        async with aclosing(second):
            behind = asyncio.ensure_future(hear(second, 4))
            await asyncio.sleep(0)
            site.say(b"two\n")
            assert (await ahead, await behind) == (b"one\ntwo\n", b"two\n")


async def test_who_asks_for_the_last_lines_hears_them_first(site: Site) -> None:
    site.say(b"first\nsecond\nthird\n")
    heard = site.consoles.attach("box", 2)[0]
    async with aclosing(heard):
        assert await hear(heard, 13) == b"second\nthird\n"
        site.say(b"fourth\n")
        assert await hear(heard, 7) == b"fourth\n"


async def test_what_anybody_types_reaches_the_server(site: Site) -> None:
    heard, write = site.consoles.attach("box")
    async with aclosing(heard):
        listening = asyncio.ensure_future(anext(heard))
        await asyncio.sleep(0)
        write(b"root\r")
        assert await site.typed() == b"root\r"
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def test_a_server_that_is_not_there_has_no_console(site: Site) -> None:
    with pytest.raises(NoConsole):
        site.consoles.attach("nobody")
