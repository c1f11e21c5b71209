"""A watch of records that outlasts its connections.

It lists, then follows; it goes on where it was after a lost connection, and lists again when the server no longer
remembers that far back, telling the difference.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing

from rackless.drivers.kubernetes.client import FIRST_PAUSE, LONGEST_PAUSE, Client, HttpRefused, is_trouble
from rackless.ports.clock import Clock
from rackless.ports.resources import Key, Record, RecordEvent, key_of

WATCH_FOR = 240.0
"""Seconds after which the server ends a watch by itself; we go on with the next."""
SILENCE = WATCH_FOR + 30

Known = dict[Key, Record]


class _Forgotten(Exception):
    """The server no longer has the changes after the version we were at."""


def selector(labels: Mapping[str, str] | None) -> dict[str, str]:
    """The query that asks for records with these labels."""
    return {"labelSelector": ",".join(f"{name}={value}" for name, value in labels.items())} if labels else {}


async def follow(
    client: Client,
    clock: Clock,
    path: str,
    query: Mapping[str, str],
    fresh: Callable[[], Awaitable[tuple[Known, str]]],
    *,
    bookmarks: bool,
) -> AsyncGenerator[RecordEvent, None]:
    known: Known = {}
    version, pause = "", FIRST_PAUSE
    while True:
        if not version:
            now, version = await fresh()
            for event in _differences(known, now):
                yield event
            known = now
            if bookmarks:
                yield RecordEvent("BOOKMARK", {})
                bookmarks = False
        try:
            async with aclosing(_changes(client, path, query, version)) as changes:
                async for change, record in changes:
                    pause = FIRST_PAUSE
                    version = record["metadata"]["resourceVersion"]
                    if (noticed := _noticed(known, change, record)) is not None:
                        yield noticed
            pause = FIRST_PAUSE  # it ended in good order
        except _Forgotten:
            version = ""
        except Exception as error:
            if not is_trouble(error):
                raise
        await clock.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


async def _changes(
    client: Client, path: str, query: Mapping[str, str], version: str
) -> AsyncGenerator[tuple[str, Record]]:
    asked = {
        **query,
        "watch": "1",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(int(WATCH_FOR)),
    }
    try:
        async with client.stream(path, asked, SILENCE) as lines:
            async for line in lines:
                change, record = line["type"], line["object"]
                if change == "ERROR":
                    raise HttpRefused(record.get("code", 500), f"the watch of {path} ended", record.get("message", ""))
                yield change, record
    except HttpRefused as refusal:
        if refusal.code == 410:
            raise _Forgotten from refusal
        raise


def _noticed(known: Known, change: str, record: Record) -> RecordEvent | None:
    """Whether an event is new to the caller; the server's bookmarks are not passed on."""
    if change == "BOOKMARK":
        return None
    key = key_of(record)
    if change == "DELETED":
        known.pop(key, None)
        return RecordEvent("DELETED", record)
    known[key] = record
    return RecordEvent("ADDED" if change == "ADDED" else "MODIFIED", record)


def _differences(known: Known, fresh: Known) -> Iterator[RecordEvent]:
    """The events that were missed, from two lists; an object with the same name and another UID was deleted and created."""
    for key, record in known.items():
        if key not in fresh or fresh[key]["metadata"]["uid"] != record["metadata"]["uid"]:
            yield RecordEvent("DELETED", record)
    for key, record in fresh.items():
        before = known.get(key)
        if before is None or before["metadata"]["uid"] != record["metadata"]["uid"]:
            yield RecordEvent("ADDED", record)
        elif before["metadata"]["resourceVersion"] != record["metadata"]["resourceVersion"]:
            yield RecordEvent("MODIFIED", record)
