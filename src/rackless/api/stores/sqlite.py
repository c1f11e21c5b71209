"""Objects in one SQLite file: a log of every version, written in groups by one thread, one fsync for many writers.

The log is the only table that matters: the newest row of a key is its state, older rows are the history that watches
resume from, and compaction removes rows that a newer one replaced. A write is acknowledged, and becomes visible to
readers and watchers, only after its transaction was synced to the disk.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rackless.api.encoding import rendered, restamped
from rackless.api.stores.memory import Memory, ReadsFromMemory
from rackless.api.stores.port import Change, Compacted, Entry, Raced, Unreachable
from rackless.errors import LabError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    previous INTEGER NOT NULL,
    data BLOB
);
CREATE INDEX IF NOT EXISTS log_by_key ON log (key, revision);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
_CURRENT = """
SELECT key, revision, data FROM (SELECT max(revision) AS newest FROM log GROUP BY key) JOIN log ON revision = newest
WHERE data IS NOT NULL
"""
_AT = """
SELECT key, revision, data FROM log WHERE revision IN (
    SELECT max(revision) FROM log WHERE key >= ? AND key < ? AND revision <= ? GROUP BY key
) AND data IS NOT NULL ORDER BY key
"""
_HISTORY = """
SELECT new.key, new.revision, new.data, old.data, new.previous FROM log AS new LEFT JOIN log AS old ON
old.revision = new.previous
WHERE new.revision > ? AND new.revision <= ? AND new.key >= ? AND new.key < ? ORDER BY new.revision
"""
# A row may go when a newer row of its key is itself at or below the line, or when it only says "deleted".
_COMPACT = """
DELETE FROM log WHERE revision <= :line AND (
    data IS NULL OR EXISTS (
        SELECT 1 FROM log AS newer WHERE newer.key = log.key AND newer.revision > log.revision AND
        newer.revision <= :line
    )
)
"""
_ROWS_PER_INSERT = 500
_LOG_SIZE = 4 * 1024 * 1024


class _Write:
    __slots__ = ("data", "done", "key", "previous", "revision")

    def __init__(self, key: str, revision: int, previous: int, data: bytes | None, done: asyncio.Future[int]) -> None:
        self.key = key
        self.revision = revision
        self.previous = previous
        self.data = data
        self.done = done


class SqliteStore(ReadsFromMemory):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._memory = Memory()
        self._next = 1
        self._compacted = 0
        self._pending: dict[str, asyncio.Future[int]] = {}
        self._queue: queue.SimpleQueue[_Write | Callable[[sqlite3.Connection], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._copier: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: Any = None
        self._failure: str = ""

    # -- life ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self._path.with_name(self._path.name + ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LabError(
                f"{self._path} is served by another process", hint="stop that one, or give this one another --store"
            ) from error
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))  # secrets are in it from the first byte on
        connection = self._connect()
        try:
            connection.executescript(_SCHEMA)
            meta = dict(connection.execute("SELECT name, value FROM meta"))
            self._compacted = meta.get("compacted", 0)
            (newest,) = connection.execute("SELECT max(revision) FROM log").fetchone()
            # A compaction may remove the newest row (a deletion): the counter must never go back.
            self._memory.revision = max(newest or 0, self._compacted, 1)
            self._next = self._memory.revision + 1
            self._memory.load(connection.execute(_CURRENT))
        finally:
            connection.close()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._write_forever, name="sqlite-writer", daemon=True)
        self._thread.start()
        self._copier = asyncio.create_task(self._checkpoint_forever(), name="sqlite-checkpoint")

    async def _checkpoint_forever(self) -> None:
        """Copy the write-ahead log into the file beside the writer, so that no writer waits for it."""
        log = self._path.with_name(self._path.name + "-wal")
        while True:
            await asyncio.sleep(1)
            if log.exists() and log.stat().st_size > _LOG_SIZE:
                with suppress(sqlite3.OperationalError):
                    await self._read("PRAGMA wal_checkpoint(PASSIVE)", ())

    async def close(self) -> None:
        if self._copier:
            self._copier.cancel()
            await asyncio.wait([self._copier])
        if self._thread:
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        if self._lock:
            self._lock.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA busy_timeout=10000")
        return connection

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        return self._memory.revision

    @property
    def problem(self) -> str:
        return self._failure

    @property
    def backlog(self) -> int:
        return self.revision - self._compacted

    async def fresh(self) -> int:
        return self._memory.revision

    async def entries_at(self, bucket: str, namespace: str, revision: int) -> list[Entry]:
        low = f"{bucket}/{namespace}/" if namespace else f"{bucket}/"
        rows = await self._read(_AT, (low, low[:-1] + "0", revision))
        if revision < self._compacted:
            raise Compacted(self._compacted)
        return [Entry(key, at, rendered(data, at)) for key, at, data in rows]

    async def history(self, bucket: str, after: int, until: int) -> list[Change]:
        rows = await self._read(_HISTORY, (after, until, f"{bucket}/", f"{bucket}0"))
        if after < self._compacted:
            raise Compacted(self._compacted)
        changes = []
        for key, revision, data, old, old_revision in rows:
            previous = rendered(old, old_revision) if old is not None else None
            if data is not None:
                changes.append(Change(key, revision, rendered(data, revision), previous))
            elif previous is not None:
                changes.append(Change(key, revision, restamped(previous, revision), previous, deleted=True))
        return changes

    async def _read(self, query: str, arguments: Sequence[Any]) -> list[Any]:
        def read() -> list[Any]:
            connection = self._connect()
            try:
                return connection.execute(query, arguments).fetchall()
            finally:
                connection.close()

        return await asyncio.to_thread(read)

    # -- writing -------------------------------------------------------------------------------------------------

    async def write(self, key: str, expected: int, data: bytes | None) -> int:
        while (other := self._pending.get(key)) is not None:
            await asyncio.wait([other])
        entry = self._memory.get(key)
        if (entry.revision if entry else 0) != expected:
            raise Raced(key)
        assert self._loop
        done: asyncio.Future[int] = self._loop.create_future()
        self._pending[key] = done
        self._queue.put(_Write(key, self._next, expected, data, done))
        self._next += 1
        # The write goes on when its caller is cancelled; whoever reads later sees how it ended.
        return await asyncio.shield(done)

    async def compact(self, revision: int) -> None:
        revision = min(revision, self.revision)
        if revision <= self._compacted:
            return
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('compacted', ?)", (revision,))
            connection.execute(_COMPACT, {"line": revision})
            connection.execute("COMMIT")
            loop.call_soon_threadsafe(done.set_result, None)

        self._compacted = revision
        self._queue.put(work)
        await done

    def _write_forever(self) -> None:
        """The writer thread: takes all that waits, writes it in one transaction, reports to the loop."""
        assert self._loop
        connection = self._connect()
        connection.execute("PRAGMA wal_autocheckpoint=0")
        try:
            running = True
            while running:
                batch: list[_Write] = []
                job = self._queue.get()
                while True:
                    if job is None:
                        running = False
                        break
                    if not isinstance(job, _Write):
                        self._commit(connection, batch)
                        batch = []
                        job(connection)
                    else:
                        batch.append(job)
                        if len(batch) >= _ROWS_PER_INSERT:
                            break
                    try:
                        job = self._queue.get_nowait()
                    except queue.Empty:
                        break
                self._commit(connection, batch)
        finally:
            connection.close()

    def _commit(self, connection: sqlite3.Connection, batch: list[_Write]) -> None:
        if not batch:
            return
        assert self._loop
        failure = ""
        try:
            # One statement for the whole group: each statement gives up the interpreter lock and must win it back.
            places = ",".join(["(?,?,?,?)"] * len(batch))
            values = [part for w in batch for part in (w.revision, w.key, w.previous, w.data)]
            connection.execute(f"INSERT INTO log VALUES {places}", values)
        except sqlite3.Error as error:
            failure = str(error)
        self._loop.call_soon_threadsafe(self._settle, batch, failure)

    def _settle(self, batch: list[_Write], failure: str) -> None:
        """On the loop: what is durable becomes visible, then its writers hear of it."""
        for write in batch:
            self._pending.pop(write.key, None)
        self._failure = failure
        if failure:
            for write in batch:
                if not write.done.cancelled():
                    write.done.set_exception(Unreachable(f"SQLite refused the write: {failure}"))
            return
        self._memory.apply([(write.key, write.revision, write.data) for write in batch])
        for write in batch:
            if not write.done.cancelled():
                write.done.set_result(write.revision)
