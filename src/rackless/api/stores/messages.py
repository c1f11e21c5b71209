"""etcd's messages: the requests we make, and what we read of the answers. The numbers are those of etcd's rpc.proto."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rackless.api.wire import field, integer, parts

EVERYTHING = b"\0"
PROGRESS = field(3, b"")
"""Asks a watch how far it is."""


@dataclass(frozen=True, slots=True)
class EtcdPair:
    """A key, its value, and the revision they were written at."""

    key: bytes
    revision: int
    value: bytes


@dataclass(frozen=True, slots=True)
class EtcdEvent:
    pair: EtcdPair
    deleted: bool
    previous: EtcdPair | None


@dataclass(frozen=True, slots=True)
class Watched:
    """One message of a watch."""

    events: list[bytes]
    compacted: int = 0
    cancelled: str | None = None


def range_request(
    low: bytes, high: bytes = b"", limit: int = 0, revision: int = 0, *, keys_only: bool = False
) -> bytes:
    message = field(1, low)
    if high:
        message += field(2, high)
    if limit:
        message += integer(3, limit)
    if revision:
        message += integer(4, revision)
    return message + integer(8, 1) if keys_only else message


def put_alone(key: bytes, value: bytes) -> bytes:
    """A write that is no part of a transaction."""
    return field(1, key) + field(2, value)


_NO_SPACE = 1
ALARMS = b""
"""Asks which alarms there are."""


def full_members(answer: bytes) -> list[int]:
    """The members that have raised the alarm that their space is used up."""
    found = []
    for number, alarm in parts(answer):
        if number == 2 and isinstance(alarm, bytes):
            values = dict(parts(alarm))
            if values.get(2) == _NO_SPACE:
                found.append(int(values.get(1, 0)))
    return found


def disarm(member: int) -> bytes:
    return integer(1, 2) + integer(2, member) + integer(3, _NO_SPACE)


def database_size(answer: bytes) -> int:
    """The bytes of a member's database file, of its status."""
    return next((int(value) for number, value in parts(answer) if number == 3), 0)


def put(key: bytes, value: bytes) -> bytes:
    return field(2, field(1, key) + field(2, value))


def remove(key: bytes) -> bytes:
    return field(3, field(1, key))


def nested(transaction: bytes) -> bytes:
    return field(4, transaction)


def transaction(key: bytes | None, revision: int, changes: bytes) -> bytes:
    """Changes to make when a key is at a revision (0: when there is none), or in any case."""
    if key is None:
        return changes
    condition = integer(2, 2) + field(3, key) + integer(6, revision)  # equal; modified at
    return field(1, condition) + changes


def change(operation: bytes) -> bytes:
    """One operation of a transaction."""
    return field(2, operation)


def compaction(revision: int) -> bytes:
    return integer(1, revision)


def watch_request(start: int, *, previous: bool) -> bytes:
    wanted = field(1, EVERYTHING) + field(2, EVERYTHING) + integer(3, start)
    return field(1, wanted + integer(6, 1) if previous else wanted)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("bytes were expected")
    return value


def revision_of(answer: bytes) -> int:
    """The revision in the header of an answer."""
    for number, value in parts(answer):
        if number == 1:
            return int(next((part for inner, part in parts(_bytes(value)) if inner == 3), 0))
    return 0


def pair(data: bytes) -> EtcdPair:
    key, revision, value = b"", 0, b""
    for number, part in parts(data):
        if number == 1:
            key = _bytes(part)
        elif number == 3:
            revision = int(part)
        elif number == 5:
            value = _bytes(part)
    return EtcdPair(key, revision, value)


def ranged(answer: bytes) -> tuple[list[EtcdPair], bool]:
    """The pairs of a range, and whether there are more."""
    found, more = [], False
    for number, value in parts(answer):
        if number == 2:
            found.append(pair(_bytes(value)))
        elif number == 3:
            more = bool(value)
    return found, more


def succeeded(answer: bytes) -> bool:
    return any(number == 2 and value for number, value in parts(answer))


def nested_succeeded(answer: bytes) -> Iterator[bool]:
    """Of each transaction in a transaction, whether its condition was met."""
    for number, value in parts(answer):
        if number == 3:
            yield any(inner == 4 and succeeded(_bytes(part)) for inner, part in parts(_bytes(value)))


def watched(message: bytes) -> Watched:
    events, compacted, cancelled, reason = [], 0, False, ""
    for number, value in parts(message):
        if number == 11:
            events.append(_bytes(value))
        elif number == 4:
            cancelled = bool(value)
        elif number == 5:
            compacted = int(value)
        elif number == 6:
            reason = _bytes(value).decode(errors="replace")
    return Watched(events, compacted, reason if cancelled else None)


def event(data: bytes) -> EtcdEvent:
    deleted, found, previous = False, None, None
    for number, value in parts(data):
        if number == 1:
            deleted = value == 1
        elif number == 2:
            found = pair(_bytes(value))
        elif number == 3:
            previous = pair(_bytes(value))
    if found is None:
        raise ValueError("an event without a key")
    return EtcdEvent(found, deleted, previous)
