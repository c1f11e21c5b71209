"""Events and the rack as they change: replay, daemons that are killed, viewers who do not read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from rackless.cli.words import to_json
from rackless.errors import LabError
from rackless.operations.lab_events import lab_events
from rackless.protocol.event_log import Missed, Numbered
from rackless.protocol.event_stream import EventsWanted
from rackless.run.paths import LabPaths
from rackless.web import live
from rackless.web.live import LabWatch, difference
from tests.web.fake_labd import FakeLabd
from tests.web.stage import Stage


class Viewer:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.heard: list[str] = []
        self.racks: list[Any] = []

    async def until(self, done: Any) -> None:
        async with asyncio.timeout(20):
            while not done():
                message = await self.socket.receive_json()
                self.racks += [message] if "events" not in message else []
                self.heard += [one.get("message") for one in message.get("events", ()) if "seq" in one]


async def test_a_viewer_hears_what_was_and_what_happens_from_a_number_on(page: Stage, labd: FakeLabd) -> None:
    for number in range(5):
        labd.bus.info(f"n{number}")
    async with page.live(since=3) as socket:
        viewer = Viewer(socket)
        await viewer.until(lambda: len(viewer.heard) == 2)
        labd.bus.info("now")
        await viewer.until(lambda: len(viewer.heard) == 3)
        assert viewer.heard == ["n3", "n4", "now"]
    async with page.live(since=-1) as socket:
        viewer = Viewer(socket)
        await viewer.until(lambda: viewer.heard)
        assert viewer.heard == ["now"]


async def test_a_daemon_that_is_killed_and_comes_back_costs_no_event_and_no_connection(
    page: Stage, labd: FakeLabd
) -> None:
    async with page.live() as socket:
        viewer = Viewer(socket)
        labd.bus.info("before")
        await viewer.until(lambda: viewer.heard and viewer.racks)
        labd.bus.info("last words")
        await labd.stop()
        await viewer.until(lambda: daemon(viewer) == "not running")
        await labd.start()
        labd.bus.info("back")
        await viewer.until(lambda: "back" in viewer.heard and daemon(viewer) == "running")
        assert viewer.heard == ["before", "last words", "back"]


def daemon(viewer: Viewer) -> str | None:
    last = [message.get("rack", message.get("change", {})).get("daemon") for message in viewer.racks]
    return next((word for word in reversed(last) if word), None)


async def test_who_lost_the_line_goes_on_after_the_last_number(page: Stage, labd: FakeLabd) -> None:
    async with page.live() as socket:
        viewer = Viewer(socket)
        labd.bus.info("a")
        await viewer.until(lambda: viewer.heard)
    labd.bus.info("b")
    async with page.live(since=1) as socket:
        again = Viewer(socket)
        labd.bus.info("c")
        await again.until(lambda: len(again.heard) == 2)
    assert viewer.heard + again.heard == ["a", "b", "c"]


async def test_of_the_rack_only_what_changed_is_sent(page: Stage, labd: FakeLabd) -> None:
    async with page.live() as socket:
        viewer = Viewer(socket)
        await viewer.until(lambda: viewer.racks)
        assert len(viewer.racks[0]["rack"]["servers"]) == 4
        labd.set_server("ctrl-1", power="off")
        labd.bus.info("something happened")
        await viewer.until(lambda: len(viewer.racks) == 2)
        change = viewer.racks[1]["change"]
        assert [one["name"] for one in change["servers"]] == ["ctrl-1"] and "domain" not in change


async def test_many_viewers_cost_one_look_and_none_costs_nothing() -> None:
    looks = 0

    async def look() -> live.Rack:
        nonlocal looks
        looks += 1
        return {"daemon": "running", "servers": []}

    watch = LabWatch(look)
    with watch.viewing() as one, watch.viewing() as two, watch.viewing() as three:
        for viewer in (one, two, three):
            await viewer.wait()
        assert looks == 1 and watch.message(0) == watch.full
        task = watch._task
        with watch.viewing() as late:
            assert late.is_set(), "who comes later is told at once"
    assert task is not None and watch._task is None, "nobody looks"
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled() and looks == 1


async def test_a_rack_that_cannot_be_looked_at_ends_its_viewers_and_the_next_one_begins_anew() -> None:
    troubles: list[Exception] = [LabError("there is no lab named lab here"), KeyError("nobody foresaw this")]

    async def look() -> live.Rack:
        if troubles:
            raise troubles.pop(0)
        return {"daemon": "running", "servers": []}

    watch = LabWatch(look)
    async with asyncio.timeout(10):
        for _ in range(2):
            with watch.viewing() as changed:
                await live._tell_rack(
                    cast(web.WebSocketResponse, Deaf()), watch, changed
                )  # it ends: the page comes again
        with watch.viewing() as old:
            await old.wait()
            assert not watch.failed and '"running"' in watch.full


async def test_who_comes_after_a_failure_starts_the_looks_while_others_are_still_going() -> None:
    broken = True

    async def look() -> live.Rack:
        if broken:
            raise LabError("gone")
        return {"daemon": "running", "servers": []}

    watch = LabWatch(look)
    async with asyncio.timeout(10):
        with watch.viewing() as first:
            await first.wait()
            broken = False
            with watch.viewing() as second:
                await second.wait()
                assert not watch.failed and watch.version == 1


class Deaf:
    """A viewer's socket whose buffer is full."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.sending = asyncio.Event()

    async def send_str(self, message: str) -> None:
        self.sent.append(message)
        self.sending.set()
        await asyncio.Event().wait()


async def test_a_viewer_who_does_not_read_is_read_ahead_for_within_a_bound_and_cut_off(
    labd: FakeLabd, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    async def counted(paths: LabPaths, wanted: EventsWanted) -> AsyncGenerator[Numbered | Missed, None]:
        nonlocal read
        async for one in lab_events(paths, wanted):
            read += 1
            yield one

    for number in range(1000):
        labd.bus.info(str(number))
    monkeypatch.setattr(live, "lab_events", counted)
    deaf = Deaf()
    telling = asyncio.ensure_future(
        live.tell_events(cast(web.WebSocketResponse, deaf), labd.paths, LabWatch(nothing), 0, to_json)
    )
    await deaf.sending.wait()
    monkeypatch.setattr(live, "SEND_SECONDS", 0.0)
    for _ in range(50):  # as much as it would read if it could
        await asyncio.sleep(0.001)
    assert len(deaf.sent) == 1 and read <= 2 * live.AT_ONCE + 1
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)
    await live.tell_events(cast(web.WebSocketResponse, Deaf()), labd.paths, LabWatch(nothing), 0, to_json)  # it ends


async def nothing() -> live.Rack:
    return {}


def test_a_difference_has_servers_that_came_changed_and_went() -> None:
    def server(name: str, power: str) -> dict[str, str]:
        return {"name": name, "power": power}

    before = {"daemon": "running", "servers": [server("a", "on"), server("b", "on"), server("c", "on")]}
    after = {"daemon": "running", "servers": [server("d", "on"), server("a", "on"), server("b", "off")]}
    assert difference(before, after) == {"servers": [server("d", "on"), server("b", "off")], "order": ["d", "a", "b"]}
    assert difference({}, after)["daemon"] == "running"
