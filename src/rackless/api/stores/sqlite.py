"""Objects in one SQLite file: a log of every version, written in groups by one thread, one fsync for many writers.

The log is the only table that matters: the newest row of a key is its state, older rows are the history that watches
resume from, and compaction removes rows that a newer one replaced. A write is acknowledged, and becomes visible to
readers and watchers, only after its transaction was synced to the disk.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rackless.api.encoding import rendered, restamped
from rackless.api.metrics import Histogram
from rackless.api.stores.memory import ObjectsInMemory, ReadsFromMemory
from rackless.api.stores.port import (
    MOST_CHANGED_BYTES,
    MOST_CHANGES,
    Compacted,
    Full,
    Raced,
    StoredChange,
    StoredObject,
    StoreUnreachable,
)
from rackless.errors import HypervisorError, LabError
from rackless.run.files import sync_folder

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
_PROBE_EVERY = 1.0
MOST_BYTES = 1 << 30
"""Of all objects, which are kept in memory: half of what etcd takes by default."""
_MARK = 1024
"""By so much an object may grow even then: a deletion is first a mark on it."""
_USUAL_BYTES = 4096
"""Of an object. A larger one counts as several changes of the history."""

logger = logging.getLogger(__name__)


class _Write:
    __slots__ = ("data", "done", "key", "previous", "revision")

    def __init__(self, key: str, revision: int, previous: int, data: bytes | None, done: asyncio.Future[int]) -> None:
        self.key = key
        self.revision = revision
        self.previous = previous
        self.data = data
        self.done = done


class _Job:
    __slots__ = ("done", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], None], done: asyncio.Future[None]) -> None:
        self.work = work
        self.done = done


class SqliteStore(ReadsFromMemory):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._memory = ObjectsInMemory()
        self._next = 1
        self._compacted = 0
        self._history_bytes = 0
        """Written since the last compaction."""
        self._pending: dict[str, asyncio.Future[int]] = {}
        self._queue: queue.SimpleQueue[_Write | _Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._copier: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: Any = None
        self._failure: str = ""
        self._recovery: asyncio.Task[None] | None = None
        self.commits = Histogram()

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
        try:
            self._load()
        except (sqlite3.Error, OSError) as error:
            self._lock.close()
            raise HypervisorError(
                f"the objects in {self._path} cannot be read",
                why=str(error),
                hint="see that its disk has room; a damaged file must be restored, or moved away to begin with nothing",
            ) from error
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._write_forever, name="sqlite-writer", daemon=True)
        self._thread.start()
        self._copier = asyncio.create_task(self._checkpoint_forever(), name="sqlite-checkpoint")

    def _load(self) -> None:
        if not self._path.exists():
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))  # secrets are in it from the first byte on
            sync_folder(self._path.parent)
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

    async def _checkpoint_forever(self) -> None:
        """Copy the write-ahead log into the file beside the writer, so that no writer waits for it."""
        log = self._path.with_name(self._path.name + "-wal")
        problem = ""
        while True:
            await asyncio.sleep(1)
            try:
                if log.exists() and log.stat().st_size > _LOG_SIZE:
                    await self._read("PRAGMA wal_checkpoint(PASSIVE)", ())
                problem = ""
            except Exception as error:  # a full disk, say: the log only grows until the next try
                if str(error) != problem:
                    problem = str(error)
                    logger.warning("the log of %s could not be copied into it: %s", self._path, error)

    async def close(self) -> None:
        for task in (self._copier, self._recovery):
            if task:
                task.cancel()
                await asyncio.wait([task])
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
        return max(self.revision - self._compacted, self._history_bytes // _USUAL_BYTES)

    @property
    def queued(self) -> int:
        return len(self._pending)

    async def fresh(self) -> int:
        return self._memory.revision

    async def entries_at(self, bucket: str, namespace: str, revision: int) -> list[StoredObject]:
        low = f"{bucket}/{namespace}/" if namespace else f"{bucket}/"
        found = await self._read(_AT, (low, low[:-1] + "0", revision), _entry)
        if revision < self._compacted:
            raise Compacted(self._compacted)
        return found

    async def history(self, bucket: str, after: int, until: int) -> list[StoredChange]:
        size = count = 0

        def change(row: tuple[Any, ...]) -> StoredChange | None:
            nonlocal size, count
            size, count = size + len(row[2] or b"") + len(row[3] or b""), count + 1
            if size > MOST_CHANGED_BYTES or count > MOST_CHANGES:
                raise Compacted(until)
            return change_of(row)

        found = await self._read(_HISTORY, (after, until, f"{bucket}/", f"{bucket}0"), change)
        if after < self._compacted:
            raise Compacted(self._compacted)
        return [change for change in found if change is not None]

    async def _read(
        self, query: str, arguments: Sequence[Any], made: Callable[[tuple[Any, ...]], Any] = lambda row: row
    ) -> list[Any]:
        """What is made of the rows, in a thread: there may be many."""

        def read() -> list[Any]:
            connection = self._connect()
            try:
                return [made(row) for row in connection.execute(query, arguments)]
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
        growth = len(data or b"") - (len(entry.data) if entry else 0)
        if (entry is None or growth > _MARK) and self._memory.size + growth > MOST_BYTES:
            raise Full(
                f"the objects have {self._memory.size} bytes, of {MOST_BYTES} at most: some must be deleted first"
            )
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

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('compacted', ?)", (revision,))
            connection.execute(_COMPACT, {"line": revision})

        before, self._compacted = self._compacted, revision  # nobody may begin to read what is about to go
        try:
            await self._job(work)
        except StoreUnreachable:
            self._compacted = before
            raise
        self._history_bytes = 0

    async def _job(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Work in a transaction of its own, between the writes. Raises Unreachable."""
        assert self._loop
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue.put(_Job(work, done))
        await done

    def _write_forever(self) -> None:
        """The writer thread: nothing ends it but `close`. A connection that cannot be had is tried for again."""
        while True:
            try:
                connection = self._connect()
            except sqlite3.Error as error:
                if self._refuse_next(f"the file cannot be opened: {error}"):
                    return
                continue
            try:
                connection.execute("PRAGMA wal_autocheckpoint=0")
                self._serve_queue(connection)
                return
            except Exception:
                logger.exception("the writer of %s failed and begins anew", self._path)
            finally:
                connection.close()

    def _refuse_next(self, why: str) -> bool:
        """Take one job and refuse it; whether it was the last."""
        job = self._queue.get()
        if isinstance(job, _Write):
            self._report(self._settle, [job], why, 0.0)
        elif job is not None:
            self._report(_finish, job.done, why)
        return job is None

    def _serve_queue(self, connection: sqlite3.Connection) -> None:
        """Takes all that waits, writes it in one transaction, reports to the loop."""
        running = True
        while running:
            batch: list[_Write] = []
            job = self._queue.get()
            while True:
                if job is None:
                    running = False
                    break
                if isinstance(job, _Job):
                    self._commit(connection, batch)
                    batch = []
                    self._run(connection, job)
                else:
                    batch.append(job)
                    if len(batch) >= _ROWS_PER_INSERT:
                        break
                try:
                    job = self._queue.get_nowait()
                except queue.Empty:
                    break
            self._commit(connection, batch)

    def _run(self, connection: sqlite3.Connection, job: _Job) -> None:
        failure = ""
        try:
            connection.execute("BEGIN IMMEDIATE")
            job.work(connection)
            connection.execute("COMMIT")
        except Exception as error:
            failure = str(error) or type(error).__name__
            _roll_back(connection)
        self._report(_finish, job.done, failure)

    def _commit(self, connection: sqlite3.Connection, batch: list[_Write]) -> None:
        if not batch:
            return
        failure, begun = "", time.perf_counter()
        try:
            # One statement for the whole group: each statement gives up the interpreter lock and must win it back.
            places = ",".join(["(?,?,?,?)"] * len(batch))
            values = [part for w in batch for part in (w.revision, w.key, w.previous, w.data)]
            connection.execute(f"INSERT INTO log VALUES {places}", values)
        except Exception as error:
            failure = str(error) or type(error).__name__
            _roll_back(connection)
            if len(batch) > 1:  # one that is too large, or cannot be written at all, is not the others' trouble
                for write in batch:
                    self._commit(connection, [write])
                return
        self._report(self._settle, batch, failure, time.perf_counter() - begun)

    def _report(self, function: Callable[..., None], *arguments: Any) -> None:
        assert self._loop
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    def _settle(self, batch: list[_Write], failure: str, seconds: float) -> None:
        """On the loop: what is durable becomes visible, then its writers hear of it."""
        for write in batch:
            self._pending.pop(write.key, None)
        self._tell(failure)
        if failure:
            for write in batch:
                if not write.done.done():
                    write.done.set_exception(StoreUnreachable(f"SQLite refused the write: {failure}"))
            return
        self.commits.observe(seconds)
        try:
            self._memory.apply([(write.key, write.revision, write.data) for write in batch])
            self._history_bytes += sum(len(write.data or b"") for write in batch)
        finally:
            for write in batch:
                if not write.done.done():
                    write.done.set_result(write.revision)

    def _tell(self, failure: str) -> None:
        if failure and not self._failure:
            logger.error("%s takes no writes: %s", self._path, failure)
        self._failure = failure
        if failure and (self._recovery is None or self._recovery.done()):
            self._recovery = asyncio.create_task(self._recover(), name="sqlite-recovery")

    async def _recover(self) -> None:
        """Try whether there is room again: clients that see "not ready" send no write that would show it."""
        while self._failure:
            await asyncio.sleep(_PROBE_EVERY)
            with suppress(StoreUnreachable):
                await self._job(_probe)
                self._failure = ""
                logger.warning("%s takes writes again", self._path)


def _probe(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('probe', 1 + coalesce((SELECT value FROM meta WHERE "
                       "name = 'probe'), 0))")  # fmt: skip


def _roll_back(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _finish(done: asyncio.Future[None], failure: str) -> None:
    if done.done():
        return
    if failure:
        done.set_exception(StoreUnreachable(f"SQLite refused: {failure}"))
    else:
        done.set_result(None)


def _entry(row: tuple[Any, ...]) -> StoredObject:
    key, at, data = row
    return StoredObject(key, at, rendered(data, at))


def change_of(row: tuple[Any, ...]) -> StoredChange | None:
    """Of a key, a revision, the data that was written then, and the data and revision before."""
    key, revision, data, old, old_revision = row
    previous = rendered(old, old_revision) if old is not None else None
    if data is not None:
        return StoredChange(key, revision, rendered(data, revision), previous)
    if previous is not None:
        return StoredChange(key, revision, restamped(previous, revision), previous, deleted=True)
    return None
