"""Many writes in one transaction of etcd, each with its own condition; and the resource versions that follow from it.

All writes of a transaction get the same revision of etcd, but no two changes may have the same resource version: who
resumes a watch after one of them must still be told the others. So a resource version is etcd's revision times
`SPAN` plus the place of the write in its transaction, and the place is kept with the value. A deletion keeps no value:
its place is always 0, one in a transaction. What is shown after a transaction as a whole is its last possible place.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field
from typing import Any

SPAN = 1000
MOST_WRITES = 100
"""etcd allows 128 operations in a transaction, of which a nested one needs one more."""
MOST_BYTES = 512 * 1024
"""etcd refuses requests above 1.5 MB; a single larger write still goes, alone."""
PREFIX = "/rackless/"


def b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


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

    @property
    def size(self) -> int:
        return len(self.data or b"") + len(self.key)

    def transaction(self, place: int) -> Any:
        """The write and its condition, as etcd's gateway reads them."""
        name = b64(PREFIX + self.key)
        change = (
            {"request_put": {"key": name, "value": b64(packed(place, self.data))}}
            if self.data is not None
            else {"request_delete_range": {"key": name}}
        )
        condition = {"key": name, "target": "MOD", "result": "EQUAL", "mod_revision": str(self.expected // SPAN)}
        return {"compare": [condition], "success": [change]}


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

    def transaction(self) -> Any:
        if len(self.writes) == 1:
            return self.writes[0].transaction(0)
        return {"success": [{"request_txn": w.transaction(place)} for place, w in enumerate(self.writes)]}

    def done(self, answer: Any) -> list[tuple[int, Write]]:
        """The writes that etcd has done, with their places."""
        if len(self.writes) == 1:
            return [(0, self.writes[0])] if answer.get("succeeded") else []
        parts = answer.get("responses") or []
        return [
            (place, write)
            for place, (write, part) in enumerate(zip(self.writes, parts, strict=True))
            if (part.get("response_txn") or {}).get("succeeded")
        ]


def next_group(waiting: list[Write], most: int) -> tuple[Group, list[Write]]:
    """The next group, in the order of arrival, and what must wait for a later one."""
    group, rest = Group(), []
    for write in waiting:
        if group.takes(write, most):
            group.add(write)
        else:
            rest.append(write)
    return group, rest
