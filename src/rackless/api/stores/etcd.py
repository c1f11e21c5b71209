"""Objects in etcd v3, shared by several servers: revisions are etcd's, a write is a conditional transaction.

Each server follows the whole keyspace with one watch and reads from what that brought. Writes that wait go together in
one transaction (`groups`). A write is acknowledged when memory holds it and everything before it: at once when it is
the next revision, else when the watch has come so far; so whoever wrote can read it here. A read that must be current
first asks etcd which revision is. etcd must be ours alone: then every revision is an event of the watch, and waiting
for a revision always ends. Speaks etcd's JSON gateway, which needs no gRPC.
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
from rackless.api.stores.groups import MOST_WRITES, PREFIX, SPAN, Group, Write, b64, last_of, next_group, unpacked
from rackless.api.stores.memory import Memory, ReadsFromMemory
from rackless.api.stores.port import Change, Compacted, Entry, Raced, TooLarge, Unreachable

_EVERYTHING = b64(b"\0")
_PAGE = 500
_PATIENCE = 10.0
_GROUPS_UNDER_WAY = 2


def _key_of(encoded: str) -> str | None:
    """Our key, or None for a key of somebody else."""
    key = base64.b64decode(encoded).decode(errors="replace")
    return key[len(PREFIX) :] if key.startswith(PREFIX) else None


def _value_of(kv: Any) -> tuple[int, bytes]:
    """The resource version and the object."""
    return unpacked(int(kv["mod_revision"]), base64.b64decode(kv.get("value", "")))


def _change_of(event: Any) -> Change | None:
    """An event with what was there before it; None for keys of somebody else."""
    kv, old = event["kv"], event.get("prev_kv")
    if (key := _key_of(kv["key"])) is None:
        return None
    previous = None
    if old is not None:
        version, data = _value_of(old)
        previous = rendered(data, version)
    if event.get("type") != "DELETE":
        version, data = _value_of(kv)
        return Change(key, version, rendered(data, version), previous)
    version = int(kv["mod_revision"]) * SPAN
    return Change(key, version, restamped(previous, version), previous, deleted=True) if previous is not None else None


def _refusal(why: str) -> Exception:
    if "too many operations" in why:
        return TooManyOperations(why)
    if "too large" in why or "ResourceExhausted" in why or "larger than max" in why:
        return TooLarge(why)
    return Unreachable(f"etcd refused: {why}")


class TooManyOperations(Exception):
    """etcd is set to allow fewer operations in a transaction."""


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
        self._pending: dict[str, asyncio.Future[int]] = {}
        self._waiting: list[Write] = []
        self._sending: set[asyncio.Task[None]] = set()
        self._most_writes = MOST_WRITES
        self._backlog = 0

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
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
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
                raise _refusal(str(answer["error"]))
            return answer
        raise Unreachable(f"etcd cannot be reached: {problem}")

    def _rotate(self, failed: Gateway) -> None:
        """Ask another one first from now on."""
        if self._gateways[0] is failed:
            self._gateways.append(self._gateways.pop(0))

    async def _pages(
        self, low: str, high: str, revision: int = 0
    ) -> AsyncIterator[tuple[int, list[tuple[str, int, bytes]]]]:
        """(etcd's revision of the whole, rows) for each page of a range, all of one revision."""
        start = low
        while True:
            body = {"key": b64(PREFIX + start), "range_end": b64(PREFIX + high), "limit": _PAGE}
            if revision:
                body["revision"] = revision
            answer = await self._ask("kv/range", body)
            revision = revision or int(answer["header"]["revision"])
            rows = []
            for kv in answer.get("kvs") or ():
                key = _key_of(kv["key"])
                if key is not None:
                    rows.append((key, *_value_of(kv)))
            yield revision, rows
            if not answer.get("more") or not rows:
                return
            start = rows[-1][0] + "\0"

    async def _load(self) -> None:
        async for revision, rows in self._pages("", "\x7f"):
            self._memory.load(rows)
            self._memory.revision = last_of(revision)

    # -- following -----------------------------------------------------------------------------------------------

    async def _events(self, after: int, *, previous: bool = False) -> AsyncIterator[list[Any]]:
        """Events later than a resource version, from the watch of everything; ends with Compacted or Unreachable.

        Asks from the revision that was already seen on: were we to ask for the next one and it was the one compacted
        to, etcd would answer without the deletions in it.
        """
        start = max(1, after // SPAN)
        wanted = {"key": _EVERYTHING, "range_end": _EVERYTHING, "start_revision": start, "prev_kv": previous}
        gateway = self._gateways[0]
        try:
            async for line in gateway.stream("/v3/watch", encode({"create_request": wanted}), _PATIENCE):
                result = decode(line).get("result") or {}
                if result.get("compact_revision"):
                    raise Compacted(last_of(int(result["compact_revision"])))
                if result.get("canceled"):
                    raise Unreachable(str(result.get("cancel_reason")))
                yield result.get("events") or []
        except Unanswered as error:
            self._rotate(gateway)
            raise Unreachable(f"the watch of etcd broke: {error}") from error

    async def _follow(self) -> None:
        while True:
            try:
                async for events in self._events(self._memory.revision):
                    self._problem = ""
                    self._apply(events)
            except Compacted:
                with suppress(Unreachable, Compacted):
                    await self._reload()
                    self._problem = ""
            except Unreachable as error:
                self._problem = str(error)
                await asyncio.sleep(0.5)

    @property
    def _etcd_revision(self) -> int:
        return self._memory.revision // SPAN

    def _apply(self, events: list[Any]) -> None:
        """What the watch brought: whole revisions, of which our own writes may be known already."""
        writes: list[tuple[str, int, bytes | None]] = []
        newest = self._etcd_revision
        for event in events:
            kv = event["kv"]
            revision = int(kv["mod_revision"])
            if revision <= self._etcd_revision:
                continue
            newest = revision
            if (key := _key_of(kv["key"])) is None:
                continue
            if event.get("type") == "DELETE":
                writes.append((key, revision * SPAN, None))
            else:
                writes.append((key, *_value_of(kv)))
        if newest > self._etcd_revision:
            self._take(newest, writes)

    def _take(self, revision: int, writes: list[tuple[str, int, bytes | None]]) -> None:
        """Everything up to a revision of etcd is known now."""
        if writes:
            self._memory.apply(writes)
            self._backlog += len(writes)
        self._memory.revision = last_of(revision)
        self._wake()

    async def _reload(self) -> None:
        """History was compacted while we were away: what differs now becomes changes, in the order of their
        revisions.
        """
        there: dict[str, tuple[int, bytes]] = {}
        newest = self._etcd_revision
        async for at, rows in self._pages("", "\x7f"):
            newest = at
            there.update((key, (revision, data)) for key, revision, data in rows)
        writes: list[tuple[str, int, bytes | None]] = []
        for entry in self._memory.everything():
            if entry.key not in there:
                writes.append((entry.key, last_of(newest), None))
            elif there[entry.key][0] == entry.revision:
                del there[entry.key]
        writes += [(key, revision, data) for key, (revision, data) in there.items()]
        self._compacted = max(self._compacted, last_of(newest))
        self._take(newest, sorted(writes, key=lambda write: write[1]))

    def _wake(self) -> None:
        while self._waiters and self._waiters[0][0] <= self._etcd_revision:
            _, _, waiter = heapq.heappop(self._waiters)
            if not waiter.done():
                waiter.set_result(None)

    async def _until(self, revision: int) -> None:
        """Until memory is at a revision of etcd."""
        if self._etcd_revision >= revision:
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
    def backlog(self) -> int:
        return self._backlog

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
        answer = await self._ask("kv/range", {"key": b64(PREFIX), "keys_only": True, "limit": 1})
        await self._until(int(answer["header"]["revision"]))
        return self._memory.revision

    async def entries_at(self, bucket: str, namespace: str, revision: int) -> list[Entry]:
        low = f"{bucket}/{namespace}/" if namespace else f"{bucket}/"
        found: list[Entry] = []
        async for _, rows in self._pages(low, low[:-1] + "0", revision // SPAN):
            for key, at, data in rows:
                if at <= revision:
                    found.append(Entry(key, at, rendered(data, at)))
                    continue
                # Of the same transaction, but later than what was asked for: what was there before it?
                async for _, earlier in self._pages(key, key + "\0", revision // SPAN - 1):
                    found.extend(Entry(key, at, rendered(data, at)) for key, at, data in earlier)
        return found

    async def history(self, bucket: str, after: int, until: int) -> list[Change]:
        found: list[Change] = []
        if until <= after:
            return found
        async for events in self._events(after, previous=True):
            last = 0
            for event in events:
                last = int(event["kv"]["mod_revision"])
                if last * SPAN > until:
                    break
                change = _change_of(event)
                if change and change.revision > after and change.key.startswith(bucket + "/"):
                    found.append(change)
            if last >= until // SPAN:
                break
        return found

    # -- writing -------------------------------------------------------------------------------------------------

    async def write(self, key: str, expected: int, data: bytes | None) -> int:
        while (other := self._pending.get(key)) is not None:
            await asyncio.wait([other])
        entry = self._memory.get(key)
        if (entry.revision if entry else 0) != expected:
            raise Raced(key)
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._pending[key] = done
        self._waiting.append(Write(key, expected, data, done))
        self._send_groups()
        # The write goes on when its caller is cancelled; whoever reads later sees how it ended.
        return await asyncio.shield(done)

    def _send_groups(self) -> None:
        while self._waiting and len(self._sending) < _GROUPS_UNDER_WAY:
            group, self._waiting = next_group(self._waiting, self._most_writes)
            task = asyncio.create_task(self._send(group), name="etcd-write")
            self._sending.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._send_groups()

    async def _send(self, group: Group) -> None:
        try:
            outcome = await self._written(group)
        except TooManyOperations:
            self._most_writes = max(1, len(group.writes) // 2)
            self._waiting = [*group.writes, *self._waiting]
            return
        except (Unreachable, TooLarge) as error:
            outcome = {write.key: error for write in group.writes}
        except asyncio.CancelledError:
            outcome = {write.key: Unreachable("the store is closed") for write in group.writes}
        for write in group.writes:
            self._pending.pop(write.key, None)
            result = outcome.get(write.key) or Raced(write.key)
            if write.done.cancelled():
                continue
            if isinstance(result, int):
                write.done.set_result(result)
            else:
                write.done.set_exception(result)

    async def _written(self, group: Group) -> dict[str, int | Exception]:
        """What was written, with its resource version, once memory holds it."""
        answer = await self._ask("kv/txn", group.transaction())
        revision, done = int(answer["header"]["revision"]), group.done(answer)
        if done and revision == self._etcd_revision + 1:
            self._take(revision, [(write.key, revision * SPAN + place, write.data) for place, write in done])
        else:
            await self._until(revision)
        return {write.key: revision * SPAN + place for place, write in done}

    async def compact(self, revision: int) -> None:
        revision = min(revision, self.revision) // SPAN
        if last_of(revision) <= self._compacted:
            return
        try:
            await self._ask("kv/compaction", {"revision": str(revision)})
        except Compacted:
            pass  # another server did it
        self._compacted = last_of(revision)
        self._backlog = 0
