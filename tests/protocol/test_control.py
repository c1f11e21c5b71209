import asyncio
import errno
import io
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from rackless import events
from rackless.codec import decode
from rackless.errors import GaveUp, HypervisorError, InputError, LabError, RacklessError
from rackless.ports.console import Heard, Write
from rackless.protocol.client import ControlClient
from rackless.protocol.exchange import Exchange, Nothing, Served
from rackless.protocol.failures import FailureAnswer
from rackless.protocol.messages import HEALTH, STATUS, Daemon, LabSeen, OfferedFile
from rackless.protocol.server import ControlServer, SitDown, TakeFile


@dataclass(frozen=True)
class Thing:
    thing: str


@dataclass(frozen=True)
class Did:
    what: str


TRY = Exchange("try", Thing, Did, works=True)
DO = Exchange("do", Nothing, Nothing, works=True)
LOOK = Exchange("look", Nothing, Did)
ODD = Exchange("odd", Nothing, Did)


@asynccontextmanager
async def control(
    tmp_path: Path, bus: events.Bus, *serves: Served, console: SitDown | None = None, take: TakeFile | None = None
) -> AsyncIterator[ControlClient]:
    async def health(_: Nothing) -> Daemon:
        return Daemon()

    socket = tmp_path / "labd.sock"
    serving = [HEALTH.by(health), *serves]
    server = ControlServer(socket, bus, log=tmp_path / "log", serves=serving, console=console, take=take)
    await server.start()
    try:
        yield ControlClient(socket)
    finally:
        await server.stop()


async def test_the_events_of_the_work_arrive_here_nested_in_our_step(tmp_path: Path) -> None:
    theirs = events.Bus(prefix="d")

    async def work(asked: Thing) -> Did:
        with theirs.step("remote"):
            await asyncio.sleep(0)
        return Did(f"did {asked.thing}")

    ours = events.Bus()
    seen: list[events.Event] = []
    ours.subscribe(seen.append)
    async with control(tmp_path, theirs, TRY.by(work)) as client:
        assert await client.work(TRY, Thing("it"), ours, step="s7") == Did("did it")
    assert isinstance(seen[0], events.StepStarted) and (seen[0].phase, seen[0].parent) == ("remote", "s7")
    assert isinstance(seen[1], events.StepFinished)


async def test_an_error_arrives_as_the_same_kind_with_the_same_words(tmp_path: Path) -> None:
    async def work(_: Nothing) -> Nothing:
        raise GaveUp("the agent", 60, "power is off", hint="look at the console")

    async with control(tmp_path, events.Bus(), DO.by(work)) as client:
        with pytest.raises(GaveUp) as caught:
            await client.work(DO, Nothing(), events.Bus())
    assert caught.value.what == "gave up waiting for the agent after 60 s"
    assert (caught.value.why, caught.value.hint) == ("last seen: power is off", "look at the console")


async def test_what_nobody_expected_is_told_too_and_the_daemon_lives_on(tmp_path: Path) -> None:
    async def work(_: Nothing) -> Nothing:
        raise ZeroDivisionError("oh")

    async with control(tmp_path, events.Bus(), DO.by(work)) as client:
        with pytest.raises(RacklessError, match="ZeroDivisionError: oh"):
            await client.work(DO, Nothing(), events.Bus())
        assert await client.alive()


async def test_a_look_that_fails_says_so_in_words_like_any_work(tmp_path: Path) -> None:
    async def away(_: Nothing) -> Did:
        raise LabError("the API is away", why="it is started again", hint="ask again")

    async def odd(_: Nothing) -> Did:
        raise ZeroDivisionError("oh")

    async with control(tmp_path, events.Bus(), LOOK.by(away), ODD.by(odd)) as client:
        with pytest.raises(LabError) as caught:
            await client.look(LOOK)
        assert (caught.value.what, caught.value.hint) == ("the API is away", "ask again")
        with pytest.raises(RacklessError, match="ZeroDivisionError: oh"):
            await client.look(ODD)
        with pytest.raises(LabError, match="does not know what nothing is"):
            await client.look(Exchange("nothing", Nothing, Did))
        assert await client.alive()


@pytest.mark.parametrize(
    ("hear", "heard"),
    [
        ([], ["mine", "below mine"]),
        (["host/ctrl-0"], ["mine", "below mine", "inspecting", "below the host"]),
        (["host/*"], ["mine", "below mine", "inspecting", "below the host", "cleaning"]),
        (["*"], ["mine", "below mine", "inspecting", "below the host", "cleaning", "somebody else's"]),
    ],
)
async def test_an_asker_hears_of_their_own_steps_and_of_the_subjects_they_name(
    hear: list[str], heard: list[str], tmp_path: Path
) -> None:
    theirs = events.Bus(prefix="d")

    async def work(_: Nothing) -> Nothing:
        with theirs.step("mine"), theirs.step("below mine"):
            theirs.info("a word")
        with events.inside(None):
            with theirs.step("inspecting", subject="host/ctrl-0"), theirs.step("below the host"):
                theirs.info("slow")
            with theirs.step("cleaning", subject="host/ctrl-1"):
                pass
            with theirs.step("somebody else's"):
                theirs.info("not for us")
        return Nothing()

    ours = events.Bus()
    seen: list[events.Event] = []
    ours.subscribe(seen.append)
    async with control(tmp_path, theirs, DO.by(work)) as client:
        await client.work(DO, Nothing(), ours, step="s7", hear=hear)
    assert [event.phase for event in seen if isinstance(event, events.StepStarted)] == heard
    assert len([event for event in seen if isinstance(event, events.StepFinished)]) == len(heard)
    notes = [event.message for event in seen if isinstance(event, events.Note)]
    words = {"below mine": "a word", "below the host": "slow", "somebody else's": "not for us"}
    assert notes == [words[phase] for phase in heard if phase in words]


async def test_work_is_cancelled_when_the_asker_goes_away(tmp_path: Path) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def work(_: Nothing) -> Nothing:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return Nothing()

    async with control(tmp_path, events.Bus(), DO.by(work)) as client:
        asking = asyncio.create_task(client.work(DO, Nothing(), events.Bus()))
        await began.wait()
        asking.cancel()
        async with asyncio.timeout(5):
            await ended.wait()


async def test_a_daemon_that_is_not_there_is_an_error_with_a_way_on(tmp_path: Path) -> None:
    client = ControlClient(tmp_path / "nobody.sock")
    assert not await client.alive()
    with pytest.raises(LabError, match="does not answer"):
        await client.look(STATUS)


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
        with pytest.raises(LabError, match="does not answer"):
            await client.look(STATUS)
        with pytest.raises(LabError, match="does not answer"):
            await client.work(DO, Nothing(), events.Bus())


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


async def test_a_request_that_lacks_something_is_refused_in_words(tmp_path: Path) -> None:
    async def work(asked: Thing) -> Did:
        return Did(asked.thing)

    async with control(tmp_path, events.Bus(), TRY.by(work)) as client:
        poorer = Exchange("try", Nothing, Did, works=True)
        with pytest.raises(InputError) as caught:
            await client.work(poorer, Nothing(), events.Bus())
        assert (caught.value.what, caught.value.why) == ("labd cannot read the request try", "thing is missing")


async def test_an_answer_that_lacks_something_is_told_with_where_and_what_to_do(tmp_path: Path) -> None:
    async def look(_: Nothing) -> Did:
        return Did("it")

    async with control(tmp_path, events.Bus(), LOOK.by(look)) as client:
        with pytest.raises(LabError) as caught:
            await client.look(Exchange("look", Nothing, LabSeen))
        assert caught.value.why == "in the answer to look, networks is missing"
        assert "`rackless up` starts it again" in caught.value.hint


async def test_a_file_is_sent_as_bytes_by_who_has_opened_it(tmp_path: Path) -> None:
    taken: list[bytes] = []

    async def take(chunks: AsyncIterator[bytes], said: str) -> OfferedFile:
        async for chunk in chunks:
            taken.append(chunk)
        if said == "raw":
            raise InputError("the file is not raw")
        return OfferedFile("/sent/it", said)

    content = bytes(range(256)) * 20_000
    async with control(tmp_path, events.Bus(), take=take) as client:
        assert await client.offer(io.BytesIO(content), "qcow2") == OfferedFile("/sent/it", "qcow2")
        assert b"".join(taken) == content
        with pytest.raises(InputError, match="not raw"):
            await client.offer(io.BytesIO(content), "raw")
    async with control(tmp_path, events.Bus()) as client:
        with pytest.raises(LabError, match="does not know what offer is"):
            await client.offer(io.BytesIO(content), "qcow2")


async def test_a_console_and_a_file_that_fail_unexpectedly_are_told_in_words(tmp_path: Path) -> None:
    def sit_down(server: str, lines: int) -> tuple[Heard, Write]:
        raise ZeroDivisionError("oh")

    async def take(chunks: AsyncIterator[bytes], said: str) -> OfferedFile:
        async for _ in chunks:
            pass
        raise OSError(errno.ENOSPC, "No space left on device")

    async with control(tmp_path, events.Bus(), console=sit_down, take=take) as client:
        with pytest.raises(RacklessError, match="ZeroDivisionError: oh"):
            async with client.console("ctrl-0", 0):
                pass
        with pytest.raises(HypervisorError, match="no room left on the disk"):
            await client.offer(io.BytesIO(b"x"), "qcow2")
        assert await client.alive()
    async with control(tmp_path, events.Bus()) as client:
        with pytest.raises(LabError, match="does not know what console is"):
            async with client.console("ctrl-0", 0):
                pass


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "a/b", 404), ("PUT", "health", 405), ("POST", "a", 404)]
)
async def test_what_labd_does_not_know_is_answered_with_an_error_like_any_other(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async with control(tmp_path, events.Bus()):
        connector = aiohttp.UnixConnector(str(tmp_path / "labd.sock"))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, f"http://labd/{path}") as answer,
        ):
            assert answer.status == status
            failure = decode(FailureAnswer, await answer.json()).error
            assert (failure.kind, failure.what) == ("LabError", f"labd does not know what {path} is")


async def test_whoever_may_talk_to_labd_can_ask_how_it_goes(tmp_path: Path) -> None:
    socket = tmp_path / "labd.sock"
    server = ControlServer(socket, events.Bus(), log=tmp_path / "log", serves=[], metrics=lambda: "up 1\n")
    await server.start()
    try:
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as session:
            async with session.get("http://labd/healthz") as answer:
                assert (answer.status, await answer.text()) == (200, "ok")
            async with session.get("http://labd/metrics") as answer:
                assert (answer.status, await answer.text()) == (200, "up 1\n")
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    finally:
        await server.stop()
