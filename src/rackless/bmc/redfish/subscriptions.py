"""Who wants to be told what happens, and the telling: by POST with retries, or by a stream that a client holds open.

Subscriptions by POST are durable; a receiver that is away gets each event again until its retries are used up. A slow
receiver loses the oldest of its waiting events, never holds up another. This module knows no resources.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import aiohttp

from rackless.bmc.redfish.messages import Json
from rackless.bmc.sockets import Forbids, MakeSocket, connector, no_site
from rackless.bmc.state import JsonFile
from rackless.events import Bus

SUSPEND, TERMINATE, FOREVER = "SuspendRetries", "TerminateAfterRetries", "RetryForever"
MOST = 16
_WAITING = 128


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


@dataclass
class Subscription:
    id: str
    wish: Wish
    suspended: bool = False
    queue: asyncio.Queue[Json] = field(default_factory=lambda: asyncio.Queue(_WAITING))
    worker: asyncio.Task[None] | None = None


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
        self._events = itertools.count(1)
        self._ids = itertools.count(1)
        try:
            for wish in (file.load() or {}).get("subscriptions", []):
                self._open(Wish(**{**wish, "prefixes": tuple(wish["prefixes"])}))
        except (TypeError, KeyError):
            file.set_aside()

    def _open(self, wish: Wish) -> Subscription:
        one = Subscription(str(next(self._ids)), wish)
        self.by_id[one.id] = one
        return one

    async def add(self, wish: Wish) -> Subscription:
        one = self._open(wish)
        await self._save()
        return one

    async def remove(self, id: str) -> None:
        one = self.by_id.pop(id, None)
        if one is not None and one.worker is not None:
            one.worker.cancel()
        if one is not None and one.wish.destination is None:
            _put(one.queue, {})
        await self._save()

    async def replace(self, id: str, wish: Wish) -> None:
        self.by_id[id].wish = wish
        await self._save()

    def resume(self, id: str) -> None:
        self.by_id[id].suspended = False

    def publish(self, event: Json) -> None:
        """Tell everybody who wants this. `event` is one record of an Event's `Events`."""
        number = str(next(self._events))
        prefix = event["MessageId"].partition(".")[0]
        for one in self.by_id.values():
            if one.suspended or (one.wish.prefixes and prefix not in one.wish.prefixes):
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

    async def stream(self, context: str = "") -> AsyncIterator[Json]:
        """Events for a client that holds a connection; an empty one now and then shows that it is still there."""
        one = self._open(Wish(None, context))
        try:
            while one.id in self.by_id:
                try:
                    async with asyncio.timeout(20):
                        event = await one.queue.get()
                except TimeoutError:
                    event = {}
                if one.id in self.by_id:
                    yield event
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
        self._bus.warn(f"a receiver of Redfish events does not answer: {one.wish.destination}")
        one.suspended = True
        if one.wish.policy == TERMINATE:
            self.by_id.pop(one.id, None)
            await self._save()

    async def _post(self, wish: Wish, event: Json) -> bool:
        trust: ssl.SSLContext | bool = (self._trust or True) if wish.verify else False
        timeout = aiohttp.ClientTimeout(total=10)
        body = json.dumps(event).encode()
        headers = {**wish.headers, "Content-Type": "application/json", "OData-Version": "4.0"}
        try:
            async with (
                aiohttp.ClientSession(
                    timeout=timeout, connector=connector(self._sockets, self._source, trust, self._forbids)
                ) as client,
                client.post(str(wish.destination), data=body, headers=headers, allow_redirects=False) as response,
            ):
                return response.status < 300
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return False

    async def _save(self) -> None:
        wishes = [asdict(one.wish) for one in self.by_id.values() if one.wish.destination is not None]
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
            if not isinstance(text, str) or "\n" in text or "\r" in text or not name.replace("-", "").isalnum():
                return None
            found[name] = text
    return found
