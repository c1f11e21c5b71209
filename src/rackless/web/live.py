"""Live updates over WebSocket: the rack, asked for once for all viewers, and every event from a number on, at each viewer's pace.

While nobody looks nothing is asked. The rack is asked for again when something happened, at most once in `LEAST_SECONDS`, and
without that every `MOST_SECONDS`. Viewers are sent what changed. A viewer who is slow holds back only their own stream: the events
wait in the lab's log, and of the rack they get the last state.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import Any

from aiohttp import WSMsgType, web

from rackless.errors import RacklessError
from rackless.operations.lab_events import lab_events
from rackless.protocol.event_log import Missed, Numbered
from rackless.protocol.event_stream import EventsWanted
from rackless.run.paths import LabPaths

log = logging.getLogger(__name__)

LEAST_SECONDS = 0.5
MOST_SECONDS = 5.0
AT_ONCE = 256
"""Events in one message, and those read ahead for one viewer."""
HEARTBEAT_SECONDS = 20.0
SEND_SECONDS = 30.0
"""For a viewer to take a message when their buffer is full; then they are cut off, and come back by themselves."""

Rack = Mapping[str, Any]
Words = Callable[[Any], Mapping[str, Any]]


class LabWatch:
    """The rack of one lab for all who look at it."""

    def __init__(self, look: Callable[[], Awaitable[Rack]]) -> None:
        self._look = look
        self._viewers: set[asyncio.Event] = set()
        self._happened = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._rack: Rack = {}
        self.version = 0
        self.full = ""
        """The rack as a message."""
        self.change = ""
        """What it has that the version before had not."""
        self.failed = False
        """Whether the rack cannot be looked at: the viewers' connections are closed, and their pages come again."""

    def poke(self) -> None:
        """Something happened."""
        self._happened.set()

    @contextmanager
    def viewing(self) -> Iterator[asyncio.Event]:
        """Set whenever there is another version."""
        changed = asyncio.Event()
        if self.version:
            changed.set()
        self._viewers.add(changed)
        if self._task is None or self._task.done():
            self.failed = False
            self._task = asyncio.create_task(self._run())
        try:
            yield changed
        finally:
            self._viewers.discard(changed)
            if not self._viewers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _run(self) -> None:
        try:
            await self._keep_looking()
        except Exception as error:
            if not isinstance(
                error, RacklessError
            ):  # such as a lab that was destroyed: its viewers are told when they come again
                log.exception("the rack cannot be looked at")
            self.failed = True
            for viewer in self._viewers:
                viewer.set()

    async def _keep_looking(self) -> None:
        while True:
            self._happened.clear()
            self._take(await self._look())
            await asyncio.sleep(LEAST_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(MOST_SECONDS - LEAST_SECONDS):
                    await self._happened.wait()

    def _take(self, rack: Rack) -> None:
        if rack == self._rack:
            return
        self.change = json.dumps({"change": difference(self._rack, rack)})
        self.full = json.dumps({"rack": rack})
        self._rack = rack
        self.version += 1
        for viewer in self._viewers:
            viewer.set()

    def message(self, seen: int) -> str:
        """For who has seen this version."""
        return self.change if seen and seen == self.version - 1 else self.full


def difference(before: Rack, after: Rack) -> dict[str, Any]:
    """The fields that changed; of servers, those that did, and the names of all in their order."""
    found = {name: value for name, value in after.items() if name != "servers" and before.get(name) != value}
    known = {server["name"]: server for server in before.get("servers", ())}
    servers = after.get("servers", ())
    found["servers"] = [server for server in servers if known.get(server["name"]) != server]
    found["order"] = [server["name"] for server in servers]
    return found


async def tell_viewer(
    request: web.Request, paths: LabPaths, watch: LabWatch, since: int, words: Words
) -> web.WebSocketResponse:
    """Until the viewer goes."""
    socket = web.WebSocketResponse(heartbeat=HEARTBEAT_SECONDS, max_msg_size=1024)
    await socket.prepare(request)
    with watch.viewing() as changed:
        await until_one_ends(
            _tell_rack(socket, watch, changed), tell_events(socket, paths, watch, since, words), _listen(socket)
        )
    await socket.close()
    return socket


async def _tell_rack(socket: web.WebSocketResponse, watch: LabWatch, changed: asyncio.Event) -> None:
    seen = 0
    while True:
        await changed.wait()
        changed.clear()
        if watch.failed:
            return
        message, seen = watch.message(seen), watch.version
        await send(socket, message)


async def tell_events(
    socket: web.WebSocketResponse, paths: LabPaths, watch: LabWatch, since: int, words: Words
) -> None:
    ahead: asyncio.Queue[Numbered | Missed] = asyncio.Queue(AT_ONCE)

    async def read() -> None:
        async with aclosing(lab_events(paths, EventsWanted(since))) as stream:
            async for one in stream:
                await ahead.put(one)

    async def tell() -> None:
        while True:
            batch = [await ahead.get()]
            while not ahead.empty():
                batch.append(ahead.get_nowait())
            watch.poke()
            await send(socket, json.dumps({"events": [event_json(one, words) for one in batch]}))

    await until_one_ends(read(), tell())


def event_json(one: Numbered | Missed, words: Words) -> dict[str, Any]:
    if isinstance(one, Missed):
        return {"missed": {"after": one.after, "before": one.before}}
    return {"seq": one.seq, **words(one.event)}


async def _listen(socket: web.WebSocketResponse) -> None:
    """Wait until the viewer closes the WebSocket; messages are ignored."""
    async for message in socket:
        if message.type is not WSMsgType.TEXT:
            return


async def send(socket: web.WebSocketResponse, message: str) -> None:
    """Waits for a viewer whose buffer is full, for a while."""
    async with asyncio.timeout(SEND_SECONDS):
        await socket.send_str(message)


async def until_one_ends(*ways: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            with suppress(ConnectionError, TimeoutError):  # the viewer went, or does not read
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
