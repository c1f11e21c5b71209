"""A watch on the wire: events as lines of JSON, bookmarks, initial events, and the error that ends it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

from aiohttp import web

from rackless.api import status
from rackless.api.edge.request import Query
from rackless.api.edge.respond import partial
from rackless.api.encoding import decode, encode, restamped
from rackless.api.kinds.kind import Kind, Version
from rackless.api.kinds.tables import table
from rackless.api.objects.operations import Objects
from rackless.api.objects.watching import Filter, Overrun, Watcher, WatchEvent, batches
from rackless.api.status import Json, RequestRefused
from rackless.api.stores.port import Compacted

_BOOKMARK_EVERY = 30.0
_LONGEST = 3600
_GRACE = 5.0
"""What a client gets to read the rest when its time is over."""


class WatchStream:
    """One watch of one client."""

    def __init__(
        self, objects: Objects, kind: Kind, version: Version, wanted: Filter, query: Query, shape: str
    ) -> None:
        self._objects = objects
        self._kind = kind
        self._version = version
        self._wanted = wanted
        self._query = query
        self._shape = shape
        self._include = query.text("includeObject")
        self._bookmarks = query.flag("allowWatchBookmarks")
        self._headers_sent = False

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        store = self._objects.store
        asked = self._query.text("resourceVersion")
        initial = self._query.flag("sendInitialEvents") or asked in ("", "0")
        if self._query.text("sendInitialEvents") == "false":
            initial = False
        if self._query.text("sendInitialEvents"):
            _check_initial_events(self._query)
        seconds = self._query.number("timeoutSeconds") or random.randint(1800, _LONGEST)
        if initial or not asked:
            await self._objects.at_least(asked)
            snapshot = [
                e for e in store.entries(self._kind.bucket, self._wanted.namespace) if self._wanted.takes_key(e.key)
            ]
            after = store.revision
        else:
            await self._objects.at_least(asked)
            after, snapshot = int(asked), []
        try:
            watcher, stop = await self._objects.hub.watch(self._kind.bucket, self._wanted, after)
        except Compacted as error:
            return await self._refuse(request, status.expired(after, error.oldest))
        response = _open()
        try:
            async with asyncio.timeout(max(seconds, 0) + _GRACE):
                await response.prepare(request)
                if initial:
                    await self._initial(response, [entry.data for entry in snapshot])
                    if self._query.flag("sendInitialEvents") and self._bookmarks:
                        await response.write(self._bookmark(after, initial=True))
                await self._follow(response, watcher, seconds)
                with suppress(ConnectionError):
                    await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()  # it does not read: nothing can be said to it
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            stop()
        return response

    async def _refuse(self, request: web.BaseRequest, refused: RequestRefused) -> web.StreamResponse:
        """As the real server does: the stream opens well and its first event is the error."""
        response = _open()
        await response.prepare(request)
        await response.write(_line("ERROR", encode(refused.status())))
        await response.write_eof()
        return response

    async def _initial(self, response: web.StreamResponse, items: list[bytes]) -> None:
        chunk: list[bytes] = []
        size = 0
        for data in items:
            size += len(data) + self._wanted.weight
            if not self._wanted.looks_inside or self._wanted.takes(self._obj(data)):
                chunk.append(self._event("ADDED", data))
            if size > 256 * 1024:
                if chunk:
                    await response.write(b"".join(chunk))
                chunk, size = [], 0
                await asyncio.sleep(0)
        if chunk:
            await response.write(b"".join(chunk))

    async def _follow(self, response: web.StreamResponse, watcher: Watcher, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        store = self._objects.store
        try:
            async for batch in batches(watcher, loop.time() + seconds, _BOOKMARK_EVERY):
                if batch:
                    await response.write(b"".join(self._lines(batch)))
                elif self._bookmarks and not watcher.queue:
                    await response.write(self._bookmark(store.revision))
            if self._bookmarks and not watcher.queue:
                await response.write(self._bookmark(store.revision))
        except Overrun:
            self._objects.hub.overruns += 1
            await response.write(_line("ERROR", encode(status.expired(0, store.revision).status())))

    def _lines(self, batch: Sequence[tuple[str, WatchEvent]]) -> list[bytes]:
        lines = []
        mark = (self._version.name, self._kind.group, self._shape)
        for kind, event in batch:
            if self._shape == "Table":
                lines.append(self._event(kind, event.change.data))
                continue
            made = event.made.get((kind, mark))
            if made is None:
                data = event.change.data
                if kind == "DELETED" and not event.change.deleted and event.change.previous is not None:
                    # It left the selection: clients are shown what they knew, at the revision of the change.
                    data = restamped(event.change.previous, event.change.revision)
                made = event.made[kind, mark] = self._event(kind, data)
            lines.append(made)
        return lines

    def _obj(self, data: bytes) -> Json:
        obj: Json = decode(data)
        return self._kind.from_stored(obj) if self._kind.from_stored else obj

    def _event(self, kind: str, data: bytes) -> bytes:
        data = self._objects.shown(self._kind, self._version, data)
        if self._shape == "metadata":
            data = encode(partial(decode(data)))
        elif self._shape == "Table":
            obj = decode(data)
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            data = encode(
                table(self._kind, self._version, [obj], metadata, self._include, headers=not self._headers_sent)
            )
            self._headers_sent = True
        return _line(kind, data)

    def _bookmark(self, revision: int, *, initial: bool = False) -> bytes:
        metadata: Json = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        body: Json = {
            "kind": self._kind.kind,
            "apiVersion": self._kind.api_version(self._version.name),
            "metadata": metadata,
        }
        if self._shape == "metadata":
            body |= {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        elif self._shape == "Table":
            body = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": str(revision)},
                    "columnDefinitions": [], "rows": []}  # fmt: skip
        return _line("BOOKMARK", encode(body))


def _open() -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    return response


def _check_initial_events(query: Query) -> None:
    if query.text("resourceVersionMatch") != "NotOlderThan":
        raise RequestRefused(
            422, "Invalid",
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents '
            'requires setting '
            "resourceVersionMatch to NotOlderThan", {},
        )  # fmt: skip


def _line(kind: str, data: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + data + b"}\n"
