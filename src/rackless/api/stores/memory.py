"""The current objects in memory, encoded, by bucket; both stores read from it and publish changes through it."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from rackless.api.encoding import rendered, restamped
from rackless.api.stores.port import StoredChange, StoredObject, Subscriber

log = logging.getLogger(__name__)


def bucket_of(key: str) -> str:
    group, plural, _ = key.split("/", 2)
    return f"{group}/{plural}"


class Bucket:
    """The entries of one kind. The order of keys is computed when it is asked for, and kept until a key comes
    or goes.
    """

    __slots__ = ("_order", "changed", "items")

    def __init__(self) -> None:
        self.items: dict[str, StoredObject] = {}
        self.changed = 0
        self._order: list[str] | None = None

    def put(self, entry: StoredObject) -> None:
        if entry.key not in self.items:
            self._order = None
        self.items[entry.key] = entry

    def drop(self, key: str) -> None:
        if self.items.pop(key, None) is not None:
            self._order = None

    def forget_order(self) -> None:
        self._order = None

    def ordered(self, prefix: str) -> list[StoredObject]:
        if self._order is None:
            self._order = sorted(self.items)
        order = self._order
        low = bisect_left(order, prefix)
        high = bisect_left(order, prefix[:-1] + chr(ord(prefix[-1]) + 1))
        items = self.items
        return [items[key] for key in order[low:high]]


class ObjectsInMemory:
    def __init__(self) -> None:
        self.revision = 0
        self.size = 0
        """Bytes of all objects."""
        self.faults = 0
        """How often a subscriber failed on changes."""
        self._buckets: dict[str, Bucket] = {}
        self._subscribers: list[Subscriber] = []
        self._gap_listeners: list[Callable[[], None]] = []

    def load(self, rows: Iterable[tuple[str, int, bytes]]) -> None:
        """Entries from the store, without looking into them. Keys mostly come sorted, so buckets change rarely."""
        name, bucket = "\0", Bucket()  # no key begins so
        for key, revision, data in rows:
            if not key.startswith(name):
                name = bucket_of(key) + "/"
                bucket = self._bucket(name[:-1])
                bucket.forget_order()
            entry = bucket.items[key] = StoredObject(key, revision, rendered(data, revision))
            self.size += len(entry.data)

    def _bucket(self, name: str) -> Bucket:
        found = self._buckets.get(name)
        if found is None:
            found = self._buckets[name] = Bucket()
        return found

    def get(self, key: str) -> StoredObject | None:
        bucket = self._buckets.get(bucket_of(key))
        return bucket.items.get(key) if bucket else None

    def entries(self, bucket: str, namespace: str = "") -> list[StoredObject]:
        found = self._buckets.get(bucket)
        return found.ordered(f"{bucket}/{namespace}/" if namespace else f"{bucket}/") if found else []

    def everything(self) -> list[StoredObject]:
        return [entry for bucket in self._buckets.values() for entry in bucket.items.values()]

    def count(self, bucket: str) -> int:
        found = self._buckets.get(bucket)
        return len(found.items) if found else 0

    def changed(self, bucket: str) -> int:
        found = self._buckets.get(bucket)
        return found.changed if found else 0

    def apply(self, writes: Sequence[tuple[str, int, bytes | None]]) -> None:
        """Durable writes, in the order of their revisions: into the entries, then to whoever listens."""
        changes = []
        for key, revision, data in writes:
            bucket = self._bucket(bucket_of(key))
            old = bucket.items.get(key)
            self.revision = revision
            self.size -= len(old.data) if old else 0
            if data is not None:
                entry = StoredObject(key, revision, rendered(data, revision))
                bucket.put(entry)
                self.size += len(entry.data)
                changes.append(StoredChange(key, revision, entry.data, old.data if old else None))
            elif old is not None:
                bucket.drop(key)
                changes.append(StoredChange(key, revision, restamped(old.data, revision), old.data, deleted=True))
            bucket.changed = revision
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(changes)
            except Exception:
                # The writes are durable: their writers and the other subscribers must hear of them all the same.
                self.faults += 1
                log.exception("a subscriber failed on %s", ", ".join(change.key for change in changes[:5]))

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def on_gap(self, listener: Callable[[], None]) -> None:
        self._gap_listeners.append(listener)

    def tell_gap(self) -> None:
        for listener in self._gap_listeners:
            listener()


class ReadsFromMemory:
    """What a store answers from memory, whatever keeps its objects on disk."""

    _memory: ObjectsInMemory

    @property
    def faults(self) -> int:
        return self._memory.faults

    def get(self, key: str) -> StoredObject | None:
        return self._memory.get(key)

    def entries(self, bucket: str, namespace: str = "") -> list[StoredObject]:
        return self._memory.entries(bucket, namespace)

    def count(self, bucket: str) -> int:
        return self._memory.count(bucket)

    def changed(self, bucket: str) -> int:
        return self._memory.changed(bucket)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        return self._memory.subscribe(subscriber)

    def on_gap(self, listener: Callable[[], None]) -> None:
        self._memory.on_gap(listener)
