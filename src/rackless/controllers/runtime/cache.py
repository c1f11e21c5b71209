"""A cache of the objects of one kind, filled by list and watch: reads without a request, and listeners for changes.

Our own writes are put in at once: the next reconciliation must not decide on the state before them. Objects that come out of a
cache are shared and must not be changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import aclosing

from rackless.ports.resources import Key, Record, Resources, key_of

log = logging.getLogger(__name__)

Listener = Callable[[Record | None, Record | None], None]
"""Called with an object before and after a change; None where it does not exist."""
REMEMBERED = 1000
"""Deleted records that are remembered, so that a late answer to a write does not bring one back."""


class Cache:
    def __init__(
        self,
        resources: Resources,
        kind: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.resources = resources
        self.kind = kind
        self.synced = asyncio.Event()
        self._namespace = namespace
        self._labels = labels
        self._records: dict[Key, Record] = {}
        self._indexes: dict[str, tuple[Callable[[Record], Iterable[str]], dict[str, set[Key]]]] = {}
        self._listeners: list[Listener] = []
        self._gone: OrderedDict[str, None] = OrderedDict()

    def key(self, name: str, namespace: str | None = None) -> Key | None:
        """The key of a record by its name, where the kind has namespaces or not."""
        wanted = namespace or self.resources.namespace
        return next((key for key in (Key(self.kind, wanted, name), Key(self.kind, "", name)) if key in self), None)

    def __contains__(self, key: Key) -> bool:
        return key in self._records

    def __iter__(self) -> Iterator[Record]:
        return iter(tuple(self._records.values()))

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: Key) -> Record | None:
        return self._records.get(key)

    def index(self, name: str, values: Callable[[Record], Iterable[str]]) -> None:
        """Find records by what `values` says of them; before the cache is followed."""
        self._indexes.setdefault(name, (values, {}))

    def having(self, index: str, value: str) -> list[Key]:
        return sorted(self._indexes[index][1].get(value, ()))

    def records(self, index: str, value: str) -> list[Record]:
        """The records themselves, in no order."""
        return [self._records[key] for key in self._indexes[index][1].get(value, ())]

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def put(self, record: Record) -> None:
        """A record as an answer to a write showed it."""
        if record["metadata"]["uid"] not in self._gone:
            self._keep(record)

    async def follow(self) -> None:
        """List and watch until cancelled. After an exception it may be called again."""
        missing = set(self._records)
        watch = self.resources.watch(self.kind, namespace=self._namespace, labels=self._labels, bookmarks=True)
        async with aclosing(watch) as events:
            async for event in events:
                if event.type == "BOOKMARK":
                    for key in missing & set(self._records):
                        self._drop(self._records[key])
                    missing.clear()
                    self.synced.set()
                elif event.type == "DELETED":
                    self._drop(event.record)
                else:
                    missing.discard(key_of(event.record))
                    self.put(event.record)

    def _keep(self, record: Record) -> None:
        key = key_of(record)
        before = self._records.get(key)
        if before is not None and not _newer(record, before):
            return
        self._records[key] = record
        self._reindex(key, before, record)
        self._tell(before, record)

    def _drop(self, record: Record) -> None:
        uid, key = record["metadata"]["uid"], key_of(record)
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)
        before = self._records.get(key)
        if before is not None and before["metadata"]["uid"] == uid:
            del self._records[key]
            self._reindex(key, before, None)
            self._tell(before, None)

    def _reindex(self, key: Key, before: Record | None, after: Record | None) -> None:
        for values, found in self._indexes.values():
            old, new = _values(values, before), _values(values, after)
            for value in old - new:
                found[value].discard(key)
                if not found[value]:
                    del found[value]
            for value in new - old:
                found.setdefault(value, set()).add(key)

    def _tell(self, before: Record | None, after: Record | None) -> None:
        for listener in self._listeners:
            try:
                listener(before, after)
            except Exception:  # anybody can write a record that nobody foresaw; the others are still heard of
                log.exception("a change of %s could not be passed on", key_of(after or before or {}))


class CachedReader:
    """Reads from caches, and asks the API only for kinds, or records, that no cache has."""

    def __init__(self, resources: Resources, *caches: Cache) -> None:
        self._resources = resources
        self._caches = {cache.kind: cache for cache in caches}

    async def get(self, kind: str, name: str, *, namespace: str | None = None) -> Record | None:
        cache = self._caches.get(kind)
        if cache is not None and cache.synced.is_set():
            key = cache.key(name, namespace)
            return cache.get(key) if key is not None else None
        return await self._resources.get(kind, name, namespace=namespace)


def _newer(record: Record, before: Record) -> bool:
    new, old = (found["metadata"]["resourceVersion"] for found in (record, before))
    if new.isdigit() and old.isdigit():  # true of every server there is, promised by none
        return int(new) > int(old)
    return bool(new != old)


def _values(values: Callable[[Record], Iterable[str]], record: Record | None) -> set[str]:
    if record is None:
        return set()
    try:
        return set(values(record))
    except (AttributeError, KeyError, TypeError, ValueError):
        return set()  # a record of a shape that nobody foresaw is found by its name only
