"""Objects in etcd v3, shared by several servers: revisions are etcd's, a write is a conditional transaction.

Each server follows the whole keyspace with one watch and reads from what that brought. A write is acknowledged when
the watch has brought it back, so that whoever wrote can read it here; a read that must be current first asks etcd
which revision is. etcd must be ours alone: then every revision is an event of the watch, and waiting for a revision
always ends. Speaks etcd's JSON gateway, which needs no gRPC.
"""

from __future__ import annotations

import asyncio
import base64
import heapq
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

from rackless.api.encoding import decode, encode, rendered, restamped
from rackless.api.stores.gateway import Gateway, Unanswered
from rackless.api.stores.memory import Memory, ReadsFromMemory
from rackless.api.stores.port import Change, Compacted, Entry, Raced, Unreachable

_PREFIX = "/rackless/"
_EVERYTHING = base64.b64encode(b"\0").decode()
_PAGE = 500
_PATIENCE = 10.0


def _b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def _key_of(encoded: str) -> str | None:
    """Our key, or None for a key of somebody else."""
    key = base64.b64decode(encoded).decode(errors="replace")
    return key[len(_PREFIX) :] if key.startswith(_PREFIX) else None


class EtcdStore(ReadsFromMemory):
    def __init__(self, urls: Sequence[str]) -> None:
        self._gateways = [Gateway(url) for url in urls]
        self._memory = Memory()
        self._compacted = 0
        self._problem = ""
        self._following: asyncio.Task[None] | None = None
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._asking: asyncio.Task[int] | None = None
        self._next_asking: asyncio.Task[int] | None = None

    # -- life ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        try:
            await self._load()
        except BaseException:
            await self.close()
            raise
        self._following = asyncio.create_task(self._follow(), name="etcd-watch")

    async def close(self) -> None:
        if self._following:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        for gateway in self._gateways:
            gateway.close()

    async def _ask(self, path: str, body: Any) -> Any:
        problem = ""
        # A question may be asked again, of the next one or on a new connection; a write only when it was never sent.
        for gateway in (*self._gateways, self._gateways[0]):
            try:
                answer = decode(await gateway.ask(f"/v3/{path}", encode(body), _PATIENCE))
            except Unanswered as error:
                problem = str(error)
                self._rotate(gateway)
                if path == "kv/txn" and error.sent:
                    break  # it may have been done: never write twice
                continue
            except ValueError as error:
                raise Unreachable(f"etcd did not answer with JSON: {error}") from error
            if "error" in answer:
                if "compacted" in str(answer["error"]):
                    raise Compacted(self._compacted)
                raise Unreachable(f"etcd refused: {answer['error']}")
            return answer
        raise Unreachable(f"etcd cannot be reached: {problem}")

    def _rotate(self, failed: Gateway) -> None:
        """Ask another one first from now on."""
        if self._gateways[0] is failed:
            self._gateways.append(self._gateways.pop(0))

    async def _pages(
        self, low: str, high: str, revision: int = 0
    ) -> AsyncIterator[tuple[int, list[tuple[str, int, bytes]]]]:
        """(revision of the whole, rows) for each page of a range, all of one revision."""
        start = low
        while True:
            body = {"key": _b64(_PREFIX + start), "range_end": _b64(_PREFIX + high), "limit": _PAGE}
            if revision:
                body["revision"] = revision
            answer = await self._ask("kv/range", body)
            revision = revision or int(answer["header"]["revision"])
            rows = []
            for kv in answer.get("kvs") or ():
                key = _key_of(kv["key"])
                if key is not None:
                    rows.append((key, int(kv["mod_revision"]), base64.b64decode(kv.get("value", ""))))
            yield revision, rows
            if not answer.get("more") or not rows:
                return
            start = rows[-1][0] + "\0"

    async def _load(self) -> None:
        async for revision, rows in self._pages("", "\x7f"):
            self._memory.load(rows)
            self._memory.revision = revision

    # -- following -----------------------------------------------------------------------------------------------

    async def _events(self, after: int, *, previous: bool = False) -> AsyncIterator[tuple[int, list[Any]]]:
        """(revision, events) from the watch of everything; ends with Compacted or Unreachable."""
        wanted = {"key": _EVERYTHING, "range_end": _EVERYTHING, "start_revision": after + 1, "prev_kv": previous}
        gateway = self._gateways[0]
        try:
            async for line in gateway.stream("/v3/watch", encode({"create_request": wanted}), _PATIENCE):
                result = decode(line).get("result") or {}
                if result.get("compact_revision"):
                    raise Compacted(int(result["compact_revision"]))
                if result.get("canceled"):
                    raise Unreachable(str(result.get("cancel_reason")))
                yield int(result["header"]["revision"]), result.get("events") or []
        except Unanswered as error:
            self._rotate(gateway)
            raise Unreachable(f"the watch of etcd broke: {error}") from error

    async def _follow(self) -> None:
        while True:
            try:
                async for revision, events in self._events(self._memory.revision):
                    self._problem = ""
                    self._apply(revision, events)
            except Compacted:
                with suppress(Unreachable, Compacted):
                    await self._reload()
                    self._problem = ""
            except Unreachable as error:
                self._problem = str(error)
                await asyncio.sleep(0.5)

    def _apply(self, revision: int, events: list[Any]) -> None:
        writes: list[tuple[str, int, bytes | None]] = []
        for event in events:
            kv = event["kv"]
            key = _key_of(kv["key"])
            revision = int(kv["mod_revision"])
            if key is not None:
                gone = event.get("type") == "DELETE"
                writes.append((key, revision, None if gone else base64.b64decode(kv.get("value", ""))))
        if events:
            if writes:
                self._memory.apply(writes)
            self._memory.revision = max(self._memory.revision, revision)
            self._wake()

    async def _reload(self) -> None:
        """History was compacted while we were away: what differs now becomes changes, in the order of their
        revisions.
        """
        there: dict[str, tuple[int, bytes]] = {}
        newest = self._memory.revision
        async for at, rows in self._pages("", "\x7f"):
            newest = at
            there.update((key, (revision, data)) for key, revision, data in rows)
        writes: list[tuple[str, int, bytes | None]] = []
        for entry in self._memory.everything():
            if entry.key not in there:
                writes.append((entry.key, newest, None))
            elif there[entry.key][0] == entry.revision:
                del there[entry.key]
        writes += [(key, revision, data) for key, (revision, data) in there.items()]
        self._compacted = max(self._compacted, newest)
        self._memory.apply(sorted(writes, key=lambda write: write[1]))
        self._memory.revision = newest
        self._wake()

    def _wake(self) -> None:
        while self._waiters and self._waiters[0][0] <= self._memory.revision:
            _, _, waiter = heapq.heappop(self._waiters)
            if not waiter.done():
                waiter.set_result(None)

    async def _until(self, revision: int) -> None:
        if self._memory.revision >= revision:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (revision, next(self._numbers), waiter))
        try:
            async with asyncio.timeout(_PATIENCE):
                await waiter
        except TimeoutError as error:
            raise Unreachable(f"the watch of etcd did not bring revision {revision}") from error

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        return self._memory.revision

    @property
    def problem(self) -> str:
        return self._problem

    @property
    def compacted(self) -> int:
        return self._compacted

    async def fresh(self) -> int:
        """One question for all who ask while the previous one is under way: its answer is newer than all of them."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._current())
            return await asyncio.shield(self._asking)
        if self._next_asking is None or self._next_asking.done() or self._next_asking is self._asking:
            self._next_asking = asyncio.create_task(self._current_after(self._asking))
        return await asyncio.shield(self._next_asking)

    async def _current_after(self, other: asyncio.Task[int]) -> int:
        await asyncio.wait([other])
        # From here on newcomers must not share this answer: the question is being sent.
        self._asking, self._next_asking = asyncio.current_task(), None
        return await self._current()

    async def _current(self) -> int:
        answer = await self._ask("kv/range", {"key": _b64(_PREFIX), "keys_only": True, "limit": 1})
        await self._until(int(answer["header"]["revision"]))
        return self._memory.revision

    async def entries_at(self, bucket: str, namespace: str, revision: int) -> list[Entry]:
        low = f"{bucket}/{namespace}/" if namespace else f"{bucket}/"
        found: list[Entry] = []
        async for _, rows in self._pages(low, low[:-1] + "0", revision):
            found.extend(Entry(key, at, rendered(data, at)) for key, at, data in rows)
        return found

    async def history(self, bucket: str, after: int, until: int) -> list[Change]:
        found: list[Change] = []
        if until <= after:
            return found
        async for _, events in self._events(after, previous=True):
            last = 0
            for event in events:
                kv, old = event["kv"], event.get("prev_kv")
                key, last = _key_of(kv["key"]), int(kv["mod_revision"])
                if last > until:
                    break
                if key is None or not key.startswith(bucket + "/"):
                    continue
                previous = None
                if old is not None:
                    previous = rendered(base64.b64decode(old.get("value", "")), int(old["mod_revision"]))
                if event.get("type") != "DELETE":
                    data = rendered(base64.b64decode(kv.get("value", "")), last)
                    found.append(Change(key, last, data, previous))
                elif previous is not None:
                    found.append(Change(key, last, restamped(previous, last), previous, deleted=True))
            if last >= until:
                break
        return found

    # -- writing -------------------------------------------------------------------------------------------------

    async def write(self, key: str, expected: int, data: bytes | None) -> int:
        name = _b64(_PREFIX + key)
        change = (
            {"request_put": {"key": name, "value": _b64(data)}}
            if data is not None
            else {"request_delete_range": {"key": name}}
        )
        answer = await self._ask(
            "kv/txn",
            {
                "compare": [{"key": name, "target": "MOD", "result": "EQUAL", "mod_revision": str(expected)}],
                "success": [change],
            },
        )
        revision = int(answer["header"]["revision"])
        await self._until(revision)
        if not answer.get("succeeded"):
            raise Raced(key)
        return revision

    async def compact(self, revision: int) -> None:
        revision = min(revision, self.revision)
        if revision <= self._compacted:
            return
        try:
            await self._ask("kv/compaction", {"revision": str(revision)})
        except Compacted:
            pass  # another server did it
        self._compacted = max(self._compacted, revision)
