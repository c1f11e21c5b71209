"""Objects in etcd v3, shared by several servers: revisions are etcd's, a write is a conditional transaction.

Each server follows the whole keyspace with one watch and serves reads from memory. Waiting writes go together in one
transaction (`groups`). A server acknowledges a write when its memory holds the write and everything before it: at once when
it is the next revision, else when the watch has come so far; so a client can read here what it wrote. A read that must be
current first asks etcd for the newest revision. etcd must be ours alone: then every revision is an event of the watch, and
waiting for a revision always ends. Calls are gRPC (`rpc`, `messages`).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress

from rackless.api.encoding import rendered, restamped
from rackless.api.metrics import Histogram
from rackless.api.stores import messages
from rackless.api.stores.groups import MOST_WRITES, PREFIX, SPAN, Group, Write, last_of, next_group, unpacked
from rackless.api.stores.memory import ObjectsInMemory, ReadsFromMemory
from rackless.api.stores.messages import EtcdEvent, EtcdPair
from rackless.api.stores.port import (
    MOST_CHANGED_BYTES,
    MOST_CHANGES,
    Compacted,
    Full,
    Raced,
    StoredChange,
    StoredObject,
    StoreUnreachable,
    TooLarge,
)
from rackless.api.stores.room import EtcdRoom
from rackless.api.stores.rpc import EtcdConnection, EtcdCredentials, RefusedByEtcd, Unanswered

_PAGE = 500
_PATIENCE = 10.0
_GROUPS_UNDER_WAY = 2
_MAINTENANCE_PATIENCE = 60.0

logger = logging.getLogger(__name__)


def _key_of(pair: EtcdPair) -> str | None:
    """Our key, or None for a key of somebody else."""
    return pair.key[len(PREFIX) :].decode(errors="replace") if pair.key.startswith(PREFIX) else None


def _change_of(event: EtcdEvent) -> StoredChange | None:
    """An event with what was there before it; None for keys of somebody else."""
    if (key := _key_of(event.pair)) is None:
        return None
    previous = None
    if event.previous is not None:
        version, data = unpacked(event.previous.revision, event.previous.value)
        previous = rendered(data, version)
    if not event.deleted:
        version, data = unpacked(event.pair.revision, event.pair.value)
        return StoredChange(key, version, rendered(data, version), previous)
    version = event.pair.revision * SPAN
    return (
        StoredChange(key, version, restamped(previous, version), previous, deleted=True)
        if previous is not None
        else None
    )


def _refusal(why: str, compacted: int) -> Exception:
    if "compacted" in why:
        return Compacted(compacted)
    if "space exceeded" in why:
        return Full(f"etcd has no room: {why}")
    if "too many operations" in why:
        return TooManyOperations(why)
    if "too large" in why or "larger than max" in why:
        return TooLarge(why)
    return StoreUnreachable(f"etcd refused: {why}")


class TooManyOperations(Exception):
    """etcd is set to allow fewer operations in a transaction."""


class EtcdStore(ReadsFromMemory):
    def __init__(self, urls: Sequence[str], credentials: EtcdCredentials | None = None) -> None:
        self._members = [EtcdConnection(url, credentials) for url in urls]
        self._memory = ObjectsInMemory()
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
        self.commits = Histogram()
        self._room = EtcdRoom(self._ask, self._ask_members, lambda: self.compact(self.revision))

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
        await self._room.close()
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        for member in self._members:
            member.close()

    async def _ask(self, method: str, message: bytes) -> bytes:
        problem = ""
        # A question may be asked again, of the next one or on a new connection; a write only when it was never sent.
        for member in (*self._members, self._members[0]):
            try:
                return await member.ask(method, message, _PATIENCE)
            except Unanswered as error:
                problem = str(error)
                self._rotate(member)
                if method == "KV/Txn" and error.sent:
                    break  # it may have been done: never write twice
            except RefusedByEtcd as error:
                raise _refusal(str(error), self._compacted) from error
        raise StoreUnreachable(f"etcd cannot be reached: {problem}")

    async def _ask_members(self, method: str) -> list[bytes]:
        """Something that each member does or answers for itself, one after the other."""
        return [await member.ask(method, b"", _MAINTENANCE_PATIENCE) for member in tuple(self._members)]

    def _rotate(self, failed: EtcdConnection) -> None:
        """Ask another one first from now on."""
        if self._members[0] is failed:
            self._members.append(self._members.pop(0))

    async def _pages(
        self, low: str, high: str, revision: int = 0
    ) -> AsyncIterator[tuple[int, list[tuple[str, int, bytes]]]]:
        """(etcd's revision of the whole, rows) for each page of a range, all of one revision."""
        start, end = PREFIX + low.encode(), PREFIX + high.encode()
        while True:
            answer = await self._ask("KV/Range", messages.range_request(start, end, _PAGE, revision))
            revision = revision or messages.revision_of(answer)
            pairs, more = messages.ranged(answer)
            yield (
                revision,
                [(_key_of(pair) or "", *unpacked(pair.revision, pair.value)) for pair in pairs],
            )
            if not more or not pairs:
                return
            start = pairs[-1].key + b"\0"

    async def _load(self) -> None:
        async for revision, rows in self._pages("", "\x7f"):
            self._memory.load(rows)
            self._memory.revision = last_of(revision)

    # -- following -----------------------------------------------------------------------------------------------

    async def _events(self, after: int, *, previous: bool = False) -> AsyncGenerator[list[EtcdEvent], None]:
        """Events later than a resource version, from the watch of everything; ends with Compacted or Unreachable.

        Asks from the revision that was already seen on: were we to ask for the next one and it was the one compacted
        to, etcd would answer without the deletions in it.
        """
        wanted = messages.watch_request(max(1, after // SPAN), previous=previous)
        member = self._members[0]
        try:
            async with aclosing(member.follow("Watch/Watch", wanted, messages.PROGRESS, _PATIENCE)) as stream:
                async for message in stream:
                    watched = messages.watched(message)
                    if watched.compacted:
                        raise Compacted(last_of(watched.compacted))
                    if watched.cancelled is not None:
                        raise StoreUnreachable(f"etcd ended the watch: {watched.cancelled}")
                    yield [messages.event(each) for each in watched.events]
        except Unanswered as error:
            self._rotate(member)
            raise StoreUnreachable(f"the watch of etcd broke: {error}") from error

    async def _follow(self) -> None:
        while True:
            try:
                async with aclosing(self._events(self._memory.revision)) as stream:
                    async for events in stream:
                        self._problem = ""
                        self._apply(events)
            except Compacted:
                try:
                    await self._reload()
                    self._problem = ""
                except (StoreUnreachable, Compacted, ValueError) as error:
                    self._problem = str(error)
                    await asyncio.sleep(0.5)
            except (StoreUnreachable, ValueError) as error:
                self._problem = str(error)
                await asyncio.sleep(0.5)

    @property
    def _etcd_revision(self) -> int:
        return self._memory.revision // SPAN

    def _apply(self, events: list[EtcdEvent]) -> None:
        """What the watch brought: whole revisions, of which our own writes may be known already."""
        writes: list[tuple[str, int, bytes | None]] = []
        known = newest = self._etcd_revision
        for event in events:
            pair = event.pair
            if pair.revision <= known:
                continue
            newest = pair.revision
            if (key := _key_of(pair)) is None:
                continue
            if event.deleted:
                writes.append((key, pair.revision * SPAN, None))
            else:
                writes.append((key, *unpacked(pair.revision, pair.value)))
        if newest > known:
            self._take(newest, writes)

    def _take(self, revision: int, writes: list[tuple[str, int, bytes | None]]) -> None:
        """Everything up to a revision of etcd is known now."""
        if writes:
            self._memory.apply(writes)
            self._backlog += len(writes)
        self._memory.revision = last_of(revision)
        self._wake()

    async def _reload(self) -> None:
        """History was compacted while we were away: what differs now becomes changes, and watches end, because what
        was between is lost to them.
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
        self._memory.tell_gap()

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
            raise StoreUnreachable(f"the watch of etcd did not bring revision {revision}") from error

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        return self._memory.revision

    @property
    def problem(self) -> str:
        return self._problem or self._room.problem

    @property
    def backlog(self) -> int:
        return self._backlog

    @property
    def queued(self) -> int:
        return len(self._pending)

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
        answer = await self._ask("KV/Range", messages.range_request(PREFIX, limit=1, keys_only=True))
        await self._until(messages.revision_of(answer))
        return self._memory.revision

    async def entries_at(self, bucket: str, namespace: str, revision: int) -> list[StoredObject]:
        low = f"{bucket}/{namespace}/" if namespace else f"{bucket}/"
        found: list[StoredObject] = []
        async for _, rows in self._pages(low, low[:-1] + "0", revision // SPAN):
            for key, at, data in rows:
                if at <= revision:
                    found.append(StoredObject(key, at, rendered(data, at)))
                    continue
                # Of the same transaction, but later than what was asked for: what was there before it?
                async for _, earlier in self._pages(key, key + "\0", revision // SPAN - 1):
                    found.extend(StoredObject(key, at, rendered(data, at)) for key, at, data in earlier)
        return found

    async def history(self, bucket: str, after: int, until: int) -> list[StoredChange]:
        found: list[StoredChange] = []
        size = 0
        if until <= after:
            return found
        async with aclosing(self._events(after, previous=True)) as stream:
            async for events in stream:
                last = 0
                for event in events:
                    last = event.pair.revision
                    if last * SPAN > until:
                        break
                    change = _change_of(event)
                    if change and change.revision > after and change.key.startswith(bucket + "/"):
                        found.append(change)
                        size += len(change.data) + len(change.previous or b"")
                        if size > MOST_CHANGED_BYTES or len(found) > MOST_CHANGES:
                            raise Compacted(until)
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
            # While etcd is full each write goes alone: a deletion, which etcd takes, is not refused for its neighbour's sake.
            group, self._waiting = next_group(self._waiting, 1 if self._room.problem else self._most_writes)
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
        except Full as error:
            self._room.refused(str(error))
            if not any(write.repeated for write in group.writes) and await self._room.soon():
                for write in group.writes:
                    write.repeated = True
                self._waiting = [*group.writes, *self._waiting]
                return
            outcome = {write.key: error for write in group.writes}
        except (StoreUnreachable, TooLarge) as error:
            outcome = {write.key: error for write in group.writes}
        except ValueError as error:
            outcome = {write.key: StoreUnreachable(f"etcd's answer cannot be read: {error}") for write in group.writes}
        except asyncio.CancelledError:
            outcome = {write.key: StoreUnreachable("the store is closed") for write in group.writes}
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
        begun = time.perf_counter()
        answer = await self._ask("KV/Txn", group.transaction())
        self.commits.observe(time.perf_counter() - begun)
        revision, done = messages.revision_of(answer), group.done(answer)
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
            await self._ask("KV/Compact", messages.compaction(revision))
        except Compacted:
            pass  # another server did it
        self._compacted = last_of(revision)
        self._backlog = 0
