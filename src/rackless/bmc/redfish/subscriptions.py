"""Event subscriptions and their delivery: by POST with retries, or by a stream that a client holds open.

Subscriptions by POST are durable; the service sends an event again until the receiver takes it or the retries are used up.
A slow receiver loses the oldest of its waiting events and never holds up another. This module knows no resources.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import aiohttp
from yarl import URL

from rackless.bmc.core.sockets import Forbids, MakeSocket, Names, connector, leads_astray, no_site
from rackless.bmc.core.state import JsonFile
from rackless.bmc.redfish.messages import Json
from rackless.events import Bus

SUSPEND, TERMINATE, FOREVER = "SuspendRetries", "TerminateAfterRetries", "RetryForever"
MOST = 16
STREAMS = 8
"""Of the most: a subscription that waits for its receiver is not kept out by clients that listen."""
_WAITING = 128
_MOST_HEADERS, _LONGEST_HEADER = 16, 1024
_OURS = frozenset({"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"})
"""Headers that say where a request goes and where it ends: with these of a client's, a receiver would read two in one."""


class Crowded(Exception):
    """There are as many subscriptions, or streams, as there may be."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a client asked for."""

    destination: str | None
    """None for a stream."""
    context: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    policy: str = SUSPEND
    prefixes: tuple[str, ...] = ()
    verify: bool = False
    types: tuple[str, ...] = ()
    """Which EventTypes; none is all."""

    @property
    def shown(self) -> str | None:
        """The destination for everybody who may log in: without a user and password in it."""
        url = URL(self.destination or "")
        return str(url.with_user(None)) if url.user or url.password else self.destination

    @property
    def logged(self) -> str:
        """The same for the lab's events, which others can read: the query may have a token."""
        return str(URL(self.shown or "").with_query(None).with_fragment(None))


@dataclass
class Subscription:
    id: str
    wish: Wish
    suspended: bool = False
    queue: asyncio.Queue[Json] = field(default_factory=lambda: asyncio.Queue(_WAITING))
    worker: asyncio.Task[None] | None = None
    valid: Callable[[], bool] = lambda: True
    """For an event stream (SSE): whether its session is still valid."""


class Subscriptions:
    def __init__(
        self,
        file: JsonFile,
        bus: Bus,
        *,
        trust: ssl.SSLContext | None = None,
        sockets: MakeSocket = socket.socket,
        source: str | None = None,
        forbids: Forbids = no_site,
        names: Names | None = None,
        attempts: int = 3,
        interval: float = 10.0,
    ) -> None:
        self.by_id: dict[str, Subscription] = {}
        self.attempts = attempts
        self.interval = interval
        self._file = file
        self._bus = bus
        self._trust = trust
        self._sockets = sockets
        self._source = source
        self._forbids = forbids
        self._names = names or Names()
        self._events = itertools.count(1)
        self._next = 1
        try:
            for wish in (file.load() or {}).get("subscriptions", []):
                lists = {"prefixes": tuple(wish["prefixes"]), "types": tuple(wish.get("types", ()))}
                id = int(wish.pop("id", 0))  # earlier versions did not keep it
                self._open(Wish(**{**wish, **lists}), id)
        except (AttributeError, TypeError, KeyError, ValueError):
            file.set_aside()

    def _open(self, wish: Wish, id: int = 0) -> Subscription:
        """With the id it had, or one that none has had."""
        id = id or self._next
        self._next = max(self._next, id + 1)
        one = Subscription(str(id), wish)
        self.by_id[one.id] = one
        return one

    async def accepts(self, host: str) -> bool:
        """Whether events may be told to this host."""
        return not await leads_astray(host, self._names, self._forbids)

    async def add(self, wish: Wish) -> Subscription:
        """Raises Crowded. Others may have subscribed while it was asked where the wish leads."""
        if len(self.by_id) >= MOST:
            raise Crowded
        one = self._open(wish)
        try:
            await self._save()
        except BaseException:
            self.by_id.pop(one.id, None)
            raise
        return one

    async def remove(self, id: str) -> None:
        one = self.by_id.pop(id, None)
        if one is None:
            return
        try:
            await self._save()
        except BaseException:
            self.by_id[id] = one
            raise
        if one.worker is not None:
            one.worker.cancel()
        if one.wish.destination is None:
            _put(one.queue, {})

    async def replace(self, id: str, wish: Wish) -> None:
        one = self.by_id[id]
        old, one.wish = one.wish, wish
        try:
            await self._save()
        except BaseException:
            one.wish = old
            raise

    def review(self) -> None:
        """Close the event streams whose sessions are not valid any more."""
        for one in [one for one in self.by_id.values() if not one.valid()]:
            del self.by_id[one.id]
            _put(one.queue, {})

    def resume(self, id: str) -> None:
        self.by_id[id].suspended = False

    def publish(self, event: Json) -> None:
        """Send an event to all matching subscriptions. `event` is one record of an Event's `Events`."""
        number = str(next(self._events))
        prefix = event["MessageId"].partition(".")[0]
        for one in self.by_id.values():
            wish = one.wish
            if one.suspended or (wish.prefixes and prefix not in wish.prefixes):
                continue
            if wish.types and event["EventType"] not in wish.types:
                continue
            _put(
                one.queue,
                {
                    "@odata.type": "#Event.v1_11_0.Event",
                    "Id": number,
                    "Name": "Event",
                    "Context": one.wish.context,
                    "Events": [{**event, "EventId": number, "MemberId": "0"}],
                },
            )
            if one.wish.destination is not None and (one.worker is None or one.worker.done()):
                one.worker = asyncio.create_task(self._deliver(one))

    async def stream(self, valid: Callable[[], bool]) -> AsyncIterator[Json]:
        """Events for a client that holds a connection; an empty one now and then, and at the beginning, shows that it is still
        there. Raises Crowded before the first."""
        streams = sum(one.wish.destination is None for one in self.by_id.values())
        if len(self.by_id) >= MOST or streams >= STREAMS:
            raise Crowded
        one = self._open(Wish(None))
        one.valid = valid
        try:
            yield {}
            while one.id in self.by_id:
                try:
                    async with asyncio.timeout(20):
                        event = await one.queue.get()
                except TimeoutError:
                    event = {}
                if one.id in self.by_id and valid():
                    yield event
                else:
                    break
        finally:
            self.by_id.pop(one.id, None)

    async def close(self) -> None:
        streams = [one for one in self.by_id.values() if one.wish.destination is None]
        for stream in streams:
            del self.by_id[stream.id]
            _put(stream.queue, {})
        workers = [one.worker for one in self.by_id.values() if one.worker is not None]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _deliver(self, one: Subscription) -> None:
        while not one.queue.empty():
            event = one.queue.get_nowait()
            attempt = 0
            while not await self._post(one.wish, event):
                attempt += 1
                if attempt > self.attempts and one.wish.policy != FOREVER:
                    await self._give_up(one)
                    return
                await asyncio.sleep(self.interval)

    async def _give_up(self, one: Subscription) -> None:
        self._bus.tell("redfish-receiver-silent", destination=one.wish.logged)
        one.suspended = True
        if one.wish.policy == TERMINATE:
            self.by_id.pop(one.id, None)
            with suppress(OSError):  # no room to write that down: it is tried once more after the next start
                await self._save()

    async def _post(self, wish: Wish, event: Json) -> bool:
        trust: ssl.SSLContext | bool = (self._trust or True) if wish.verify else False
        timeout = aiohttp.ClientTimeout(total=10)
        body = json.dumps(event).encode()
        headers = {**wish.headers, "Content-Type": "application/json", "OData-Version": "4.0"}
        try:
            async with (
                aiohttp.ClientSession(
                    timeout=timeout, connector=connector(self._sockets, self._source, trust, self._forbids, self._names)
                ) as client,
                client.post(str(wish.destination), data=body, headers=headers, allow_redirects=False) as response,
            ):
                return response.status < 300
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return False

    async def _save(self) -> None:
        kept = [one for one in self.by_id.values() if one.wish.destination is not None]
        wishes = [{"id": one.id, **asdict(one.wish)} for one in kept]
        await self._file.save({"subscriptions": wishes})


def _put(queue: asyncio.Queue[Json], event: Json) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(event)


def headers_of(value: Any) -> dict[str, str] | None:
    """HttpHeaders as a client gives them: a list of objects. None when they are not that."""
    found: dict[str, str] = {}
    for item in value if isinstance(value, list) else [None]:
        if not isinstance(item, dict):
            return None
        for name, text in item.items():
            if not isinstance(text, str) or not name.isascii() or not name.replace("-", "").isalnum():
                return None
            if not text.isprintable() or name.lower() in _OURS:
                return None
            found[name] = text
            if len(found) > _MOST_HEADERS or len(name) + len(text) > _LONGEST_HEADER:
                return None
    return found
