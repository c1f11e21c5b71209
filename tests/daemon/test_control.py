import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rackless import events
from rackless.daemon.control import ControlServer, SitDown
from rackless.daemon.control_client import ControlClient
from rackless.errors import GaveUp, LabError, RacklessError
from rackless.ports.console import Heard, Write


@asynccontextmanager
async def control(
    tmp_path: Path, bus: events.Bus, console: SitDown | None = None, **works: Any
) -> AsyncIterator[ControlClient]:
    async def health() -> dict[str, Any]:
        return {}

    socket = tmp_path / "labd.sock"
    server = ControlServer(socket, bus, log=tmp_path / "log", looks={"health": health}, works=works, console=console)
    await server.start()
    try:
        yield ControlClient(socket)
    finally:
        await server.stop()


async def test_the_events_of_the_work_arrive_here_nested_in_our_step(tmp_path: Path) -> None:
    theirs = events.Bus(prefix="d")

    async def work(arguments: dict[str, Any]) -> str:
        with theirs.step("remote"):
            await asyncio.sleep(0)
        return f"did {arguments['thing']}"

    ours = events.Bus()
    seen: list[events.Event] = []
    ours.subscribe(seen.append)
    async with control(tmp_path, theirs, stage=work) as client:
        assert await client.work("stage", ours, thing="it", step="s7") == "did it"
    assert isinstance(seen[0], events.StepStarted) and (seen[0].title, seen[0].parent) == ("remote", "s7")
    assert isinstance(seen[1], events.StepFinished)


async def test_an_error_arrives_as_the_same_kind_with_the_same_words(tmp_path: Path) -> None:
    async def work(_: dict[str, Any]) -> None:
        raise GaveUp("the agent", 60, "power is off", hint="look at the console")

    async with control(tmp_path, events.Bus(), stage=work) as client:
        with pytest.raises(GaveUp) as caught:
            await client.work("stage", events.Bus())
    assert caught.value.what == "gave up waiting for the agent after 60 s"
    assert (caught.value.why, caught.value.hint) == ("last seen: power is off", "look at the console")


async def test_what_nobody_expected_is_told_too_and_the_daemon_lives_on(tmp_path: Path) -> None:
    async def work(_: dict[str, Any]) -> None:
        raise ZeroDivisionError("oh")

    async with control(tmp_path, events.Bus(), stage=work) as client:
        with pytest.raises(RacklessError, match="ZeroDivisionError: oh"):
            await client.work("stage", events.Bus())
        assert await client.alive()


async def test_work_is_cancelled_when_the_asker_goes_away(tmp_path: Path) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def work(_: dict[str, Any]) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with control(tmp_path, events.Bus(), stage=work) as client:
        asking = asyncio.create_task(client.work("stage", events.Bus()))
        await began.wait()
        asking.cancel()
        async with asyncio.timeout(5):
            await ended.wait()


async def test_a_daemon_that_is_not_there_is_an_error_with_a_way_on(tmp_path: Path) -> None:
    client = ControlClient(tmp_path / "nobody.sock")
    assert not await client.alive()
    with pytest.raises(LabError, match="does not answer"):
        await client.look("status")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"])
async def test_a_daemon_that_dies_while_it_is_asked_is_an_error_with_a_way_on(tmp_path: Path, said: bytes) -> None:
    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    socket = tmp_path / "labd.sock"
    async with await asyncio.start_unix_server(die, socket):
        client = ControlClient(socket)
        assert not await client.alive()
        for asking in (client.look("status"), client.work("stage", events.Bus())):
            with pytest.raises(LabError, match="does not answer"):
                await asking


async def test_only_root_may_open_the_socket(tmp_path: Path) -> None:
    async with control(tmp_path, events.Bus()):
        assert (tmp_path / "labd.sock").stat().st_mode & 0o777 == 0o600


async def test_who_sits_at_a_console_hears_and_types_until_they_leave(tmp_path: Path) -> None:
    said: asyncio.Queue[bytes] = asyncio.Queue()
    left = asyncio.Event()

    async def hear() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield await said.get()
        finally:
            left.set()

    def sit_down(server: str, lines: int) -> tuple[Heard, Write]:
        if server != "ctrl-0":
            raise LabError(f"there is no server {server}")
        return hear(), lambda keys: said.put_nowait(f"{lines}:".encode() + keys)

    async with control(tmp_path, events.Bus(), console=sit_down) as client, asyncio.timeout(10):
        async with client.console("ctrl-0", 7) as (heard, write):  # before it has said anything
            write(b"root\r")
            assert await anext(heard) == b"7:root\r"
            said.put_nowait(b"Password: ")
            assert await anext(heard) == b"Password: "
        await left.wait()
        with pytest.raises(LabError, match="no server ctrl/9"):
            async with client.console("ctrl/9", 7):
                pass


async def test_a_console_whose_daemon_goes_away_says_so(tmp_path: Path) -> None:
    async def hear() -> AsyncGenerator[bytes, None]:
        yield b"Welcome\r\n"
        raise ConnectionError("the daemon was ended")

    async with control(tmp_path, events.Bus(), console=lambda *_: (hear(), lambda _: None)) as client:
        async with client.console("ctrl-0", 0) as (heard, _), asyncio.timeout(10):
            assert await anext(heard) == b"Welcome\r\n"
            with pytest.raises(LabError, match="the lab's daemon went away"):
                await anext(heard)
