import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rackless import events
from rackless.daemon.control import ControlServer
from rackless.daemon.control_client import ControlClient
from rackless.errors import GaveUp, LabError, RacklessError


@asynccontextmanager
async def control(tmp_path: Path, bus: events.Bus, **works: Any) -> AsyncIterator[ControlClient]:
    async def health() -> dict[str, Any]:
        return {}

    socket = tmp_path / "labd.sock"
    server = ControlServer(socket, bus, log=tmp_path / "log", looks={"health": health}, works=works)
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


async def test_only_root_may_open_the_socket(tmp_path: Path) -> None:
    async with control(tmp_path, events.Bus()):
        assert (tmp_path / "labd.sock").stat().st_mode & 0o777 == 0o600
