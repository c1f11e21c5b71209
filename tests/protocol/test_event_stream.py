import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rackless.errors import InputError
from rackless.events import Bus, Note
from rackless.protocol import http
from rackless.protocol.client import ControlClient
from rackless.protocol.event_log import EventLog, Missed, Numbered
from rackless.protocol.event_stream import Began, EventsWanted
from rackless.protocol.server import ControlServer


@dataclass
class Running:
    bus: Bus
    client: ControlClient
    server: ControlServer


@asynccontextmanager
async def daemon(folder: Path, most_bytes: int = 1 << 20) -> AsyncIterator[Running]:
    bus, log = Bus(), EventLog(folder / "events.jsonl", most_bytes)
    unsubscribe = bus.subscribe(log.append)
    server = ControlServer(folder / "sock", bus, log=folder / "log", serves=[], events_log=log)
    await server.start()
    try:
        yield Running(bus, ControlClient(folder / "sock"), server)
    finally:
        await server.stop()
        unsubscribe()


def shown(one: Began | Numbered | Missed) -> str:
    match one:
        case Began():
            return f"since {one.since}"
        case Missed():
            return f"missed {one.after}..{one.before}"
    return f"{one.seq} {one.event.message}" if isinstance(one.event, Note) else str(one.seq)


async def kept(client: ControlClient, since: int = 0, hear: tuple[str, ...] = ("*",)) -> list[str]:
    return [shown(one) async for one in client.events(EventsWanted(since, hear, follow=False))]


async def test_what_is_kept_is_told_from_a_number_on_and_of_whom_is_named(tmp_path: Path) -> None:
    async with daemon(tmp_path) as lab:
        for number in range(4):
            lab.bus.info(f"n{number}", subject=f"host/ctrl-{number % 2}")
        assert await kept(lab.client) == ["since 0", "1 n0", "2 n1", "3 n2", "4 n3"]
        assert await kept(lab.client, 2) == ["since 2", "3 n2", "4 n3"]
        assert await kept(lab.client, -1) == ["since 3", "4 n3"]
        assert await kept(lab.client, 0, ("host/ctrl-1",)) == ["since 0", "2 n1", "4 n3"]
        assert await kept(lab.client, 99) == ["since 0", "1 n0", "2 n1", "3 n2", "4 n3"], (
            "a number of another lab's log"
        )


async def test_two_who_follow_each_hear_what_they_asked_for_as_it_happens(tmp_path: Path) -> None:
    async with daemon(tmp_path) as lab, asyncio.timeout(10):
        async with (
            aclosing(lab.client.events(EventsWanted())) as every,
            aclosing(lab.client.events(EventsWanted(hear=("host/a",)))) as some,
        ):
            assert [shown(await anext(every)), shown(await anext(some))] == ["since 0", "since 0"]
            lab.bus.info("x", subject="host/b")
            lab.bus.info("y", subject="host/a")
            assert [shown(await anext(every)), shown(await anext(every))] == ["1 x", "2 y"]
            assert shown(await anext(some)) == "2 y"


async def test_who_lost_the_daemon_goes_on_after_the_last_number_without_loss_or_echo(tmp_path: Path) -> None:
    heard: list[str] = []
    async with daemon(tmp_path) as lab, asyncio.timeout(10):
        async with aclosing(lab.client.events(EventsWanted())) as stream:
            await anext(stream)
            lab.bus.info("a")
            heard.append(shown(await anext(stream)))
            lab.bus.info("b")  # not fetched before the daemon ends
            await lab.server.stop()
            heard += [shown(one) async for one in stream]
    last = int(heard[-1].partition(" ")[0])
    async with daemon(tmp_path) as lab:
        lab.bus.info("c")
        heard += (await kept(lab.client, last))[1:]
    assert heard == ["1 a", "2 b", "3 c"]


async def test_what_is_no_longer_kept_is_said(tmp_path: Path) -> None:
    async with daemon(tmp_path, most_bytes=400) as lab:
        for number in range(1, 31):
            lab.bus.info(f"n{number}")
        began, missed, *rest = await kept(lab.client, 5)
        assert began == "since 5" and missed == f"missed 5..{31 - len(rest)}" and rest[-1] == "30 n30"
        began, missed, *_ = await kept(lab.client, 5, ("host/*",))
        assert missed == f"missed 5..{31 - len(rest)}"
        assert await kept(lab.client, 29, ("host/*",)) == ["since 29"]


async def test_a_reader_who_is_slow_costs_the_daemon_no_memory_and_loses_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path) as lab, asyncio.timeout(20):
        async with aclosing(lab.client.events(EventsWanted())) as stream:
            await anext(stream)
            for number in range(3000):
                lab.bus.info(f"{number:200}")
            seqs = [one.seq for _ in range(3000) if isinstance(one := await anext(stream), Numbered)]
        assert seqs == list(range(1, 3001))


async def test_a_daemon_that_ends_does_not_wait_for_those_who_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ControlServer, "SHUTDOWN_SECONDS", 40.0)  # what it would wait
    async with daemon(tmp_path) as lab, asyncio.timeout(30):
        async with aclosing(lab.client.events(EventsWanted())) as stream:
            await anext(stream)
            await lab.server.stop()
            assert [shown(one) async for one in stream] == [], "it ends, and is not cut off"


async def test_a_question_that_cannot_be_read_is_refused_in_words(tmp_path: Path) -> None:
    async with daemon(tmp_path):
        with pytest.raises(InputError, match="cannot read the request events"):
            async with http.request(tmp_path / "sock", "GET", "events?since=yesterday", b""):
                pass
