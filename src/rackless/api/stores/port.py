"""The port of the stores: keys to bytes under one revision counter, with history until it is compacted.

A key is `group/plural/namespace/name` (the namespace empty for cluster-scoped kinds). A store keeps the current
entries in memory, encoded, and applies a change there only when it is durable; so whoever reads sees only what would
survive a crash. All of it runs on one event loop; `entries`, `get` and `subscribe` never wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from rackless.api.metrics import Histogram

MOST_CHANGES, MOST_CHANGED_BYTES = 20_000, 32 * 1024 * 1024
"""Of a history that somebody reads: beyond it a list is shorter, and the history is as good as gone."""


class StoredObject(NamedTuple):
    """An object as it is: `data` carries its resource version already."""

    key: str
    revision: int
    data: bytes


class StoredChange(NamedTuple):
    """One write. `data` is the object after it, or for a deletion its last state with the deletion's resource
    version.
    """

    key: str
    revision: int
    data: bytes
    previous: bytes | None
    deleted: bool = False


class Raced(Exception):
    """The key was not at the revision the writer expected."""


class Compacted(Exception):
    """History before `oldest` is gone."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"compacted up to {oldest}")
        self.oldest = oldest


class StoreUnreachable(Exception):
    """The store cannot be asked now; nothing is known about a write that was under way."""


class Full(StoreUnreachable):
    """The store has no room; nothing was written."""


class TooLarge(Exception):
    """The store does not take a value of this size; nothing was written."""


Subscriber = Callable[[Sequence[StoredChange]], None]


class Store(Protocol):
    @property
    def revision(self) -> int:
        """The revision of everything applied in memory: that of the newest change, or later."""
        ...

    @property
    def backlog(self) -> int:
        """How many changes are kept as history, about. A large one may count as several."""
        ...

    @property
    def problem(self) -> str:
        """Why it cannot serve now, or nothing."""
        ...

    @property
    def queued(self) -> int:
        """How many writes wait to be durable."""
        ...

    @property
    def faults(self) -> int:
        """How often a subscriber failed at a change; the others, and the writer, heard of it all the same."""
        ...

    @property
    def commits(self) -> Histogram:
        """How long its commits took."""
        ...

    async def open(self) -> None:
        """Raises Unreachable."""
        ...

    async def close(self) -> None: ...

    async def fresh(self) -> int:
        """Wait until memory holds everything that was acknowledged to anybody before this call; its revision."""
        ...

    def get(self, key: str) -> StoredObject | None: ...

    def entries(self, bucket: str, namespace: str = "") -> list[StoredObject]:
        """All entries of `group/plural`, in the order of their keys, of one namespace or of all."""
        ...

    def count(self, bucket: str) -> int: ...

    def changed(self, bucket: str) -> int:
        """The revision of the newest change in a bucket since the store was opened; 0 when there was none."""
        ...

    async def write(self, key: str, expected: int, data: bytes | None) -> int:
        """Write (or, with None, delete) when the key is at `expected` (0: absent). The revision, once durable.

        Raises Raced when it is not, TooLarge, and Unreachable when the outcome is unknown.
        """
        ...

    async def entries_at(self, bucket: str, namespace: str, revision: int) -> list[StoredObject]:
        """The entries as they were. Raises Compacted."""
        ...

    async def history(self, bucket: str, after: int, until: int) -> list[StoredChange]:
        """The changes of a bucket with `after < revision <= until`. Raises Compacted, also when they are too many or too large."""
        ...

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]: ...

    def on_gap(self, listener: Callable[[], None]) -> None:
        """Hear, after the changes, that they were not all there were: some between were lost to compaction."""
        ...

    async def compact(self, revision: int) -> None:
        """Forget history up to `revision`."""
        ...
