"""Many writes in one transaction of etcd, each with its own condition; and the resource versions that follow from it.

All writes of a transaction get the same revision of etcd, but no two changes may have the same resource version: who
resumes a watch after one of them must still be told the others. So a resource version is etcd's revision times
`SPAN` plus the place of the write in its transaction, and the place is kept with the value. A deletion keeps no value:
its place is always 0, one in a transaction. What is shown after a transaction as a whole is its last possible place.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from rackless.api.stores import messages

SPAN = 1000
MOST_WRITES = 100
"""etcd allows 128 operations in a transaction, of which a nested one needs one more."""
MOST_BYTES = 512 * 1024
"""etcd refuses requests above 1.5 MB; a single larger write still goes, alone."""
PREFIX = b"/rackless/"


def last_of(revision: int) -> int:
    """The resource version of everything up to and including a revision of etcd."""
    return revision * SPAN + SPAN - 1


def packed(place: int, data: bytes) -> bytes:
    return b"%d %b" % (place, data) if place else data


def unpacked(revision: int, value: bytes) -> tuple[int, bytes]:
    """The resource version and the object of a stored value."""
    at = value.find(b"{")
    return revision * SPAN + (int(value[:at]) if at > 0 else 0), value[at:]


@dataclass(slots=True)
class Write:
    key: str
    expected: int
    data: bytes | None
    done: asyncio.Future[int]
    repeated: bool = False
    """It was refused for want of room and is sent again, once."""

    @property
    def size(self) -> int:
        return len(self.data or b"") + len(self.key)

    def transaction(self, place: int) -> bytes:
        """The write and its condition."""
        key = PREFIX + self.key.encode()
        operation = messages.put(key, packed(place, self.data)) if self.data is not None else messages.remove(key)
        return messages.transaction(key, self.expected // SPAN, messages.change(operation))


@dataclass(slots=True)
class Group:
    """Writes of different keys for one transaction; a deletion is only ever the first."""

    writes: list[Write] = field(default_factory=list)
    size: int = 0

    def takes(self, write: Write, most: int) -> bool:
        if not self.writes:
            return True
        return write.data is not None and len(self.writes) < most and self.size + write.size <= MOST_BYTES

    def add(self, write: Write) -> None:
        self.writes.append(write)
        self.size += write.size

    def transaction(self) -> bytes:
        if len(self.writes) == 1:
            return self.writes[0].transaction(0)
        inner = (messages.nested(write.transaction(place)) for place, write in enumerate(self.writes))
        return messages.transaction(None, 0, b"".join(map(messages.change, inner)))

    def done(self, answer: bytes) -> list[tuple[int, Write]]:
        """The writes that etcd has done, with their places."""
        if len(self.writes) == 1:
            return [(0, self.writes[0])] if messages.succeeded(answer) else []
        done = zip(self.writes, messages.nested_succeeded(answer), strict=True)
        return [(place, write) for place, (write, met) in enumerate(done) if met]


def next_group(waiting: list[Write], most: int) -> tuple[Group, list[Write]]:
    """The next group, in the order of arrival, and what must wait for a later one."""
    group, rest = Group(), []
    for write in waiting:
        if group.takes(write, most):
            group.add(write)
        else:
            rest.append(write)
    return group, rest
