"""Records on this machine: Kubernetes-shaped objects, one JSON file each, that can be watched.

`MemoryResources` is the whole behaviour (versions, generations, finalizers, watches); `LocalResources` adds the disk.
A change is on the disk before anyone hears of it. Nothing here knows what a record means.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import re
import uuid
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rackless.errors import InputError, LabError
from rackless.ports.resources import Conflict, Record, RecordEvent

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}", re.ASCII)
_OURS = ("uid", "creationTimestamp", "deletionTimestamp", "generation", "resourceVersion")
"""Metadata that only the store writes."""

Key = tuple[str, str]


def _key(record: Record) -> Key:
    return record["kind"], record["metadata"]["name"]


def _checked(kind: str, name: str) -> Key:
    if not _KIND.fullmatch(kind) or not _NAME.fullmatch(name):
        raise InputError(
            f"{kind}/{name} cannot be the name of a record",
            hint="a name is lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit",
        )
    return kind, name


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _wanted(record: Record) -> Record:
    """What a person wants of a record: all but metadata and status."""
    return {name: value for name, value in record.items() if name not in ("metadata", "status")}


def created(record: Record) -> Record:
    """A new record as it is stored: what the store owns is filled in, a status is not taken over."""
    own = {"uid": str(uuid.uuid4()), "creationTimestamp": _now(), "generation": 1}
    metadata = {name: value for name, value in record["metadata"].items() if name not in _OURS}
    return {**_wanted(record), "metadata": {**metadata, **own}}


def replaced(stored: Record, record: Record) -> Record:
    """`stored` with the metadata and spec of `record`; a changed spec is a new generation.

    A field of the metadata that `record` does not mention is kept: who applies what they want must not take off the
    finalizers and annotations of others.
    """
    own = {name: stored["metadata"][name] for name in _OURS if name in stored["metadata"]}
    given = {name: value for name, value in record["metadata"].items() if name not in _OURS}
    metadata = {**stored["metadata"], **given}
    changed = _wanted(stored) != _wanted(record)
    own["generation"] = stored["metadata"]["generation"] + changed
    kept = {"status": stored["status"]} if "status" in stored else {}
    return {**_wanted(record), "metadata": {**metadata, **own}, **kept}


class MemoryResources:
    """`ports.resources.Resources` in memory: for simulations, and what the durable one is built on."""

    def __init__(self) -> None:
        self._records: dict[Key, Record] = {}
        self._version = 0
        self._watchers: dict[str, set[asyncio.Queue[RecordEvent]]] = {}
        self._changing = asyncio.Lock()
        self._commits: set[asyncio.Task[Record | None]] = set()

    async def get(self, kind: str, name: str) -> Record | None:
        return copy.deepcopy(self._records.get((kind, name)))

    async def list(self, kind: str) -> list[Record]:
        return [*self._all(kind)]

    async def apply(self, record: Record) -> Record:
        record = copy.deepcopy(record)
        return _present(await self._undisturbed(self._apply(_checked(*_key(record)), record)))

    async def patch_status(
        self, kind: str, name: str, status: Mapping[str, Any], *, resource_version: str | None = None
    ) -> Record:
        fresh = copy.deepcopy(dict(status))
        return _present(await self._undisturbed(self._patch_status((kind, name), fresh, resource_version)))

    async def delete(self, kind: str, name: str) -> None:
        await self._undisturbed(self._delete((kind, name)))

    async def watch(self, kind: str) -> AsyncGenerator[RecordEvent, None]:
        queue: asyncio.Queue[RecordEvent] = asyncio.Queue()
        watchers = self._watchers.setdefault(kind, set())
        watchers.add(queue)
        try:
            for record in tuple(self._all(kind)):
                yield RecordEvent("ADDED", record)
            while True:
                yield await queue.get()
        finally:
            watchers.discard(queue)

    async def _apply(self, key: Key, record: Record) -> Record:
        async with self._changing:
            stored = self._records.get(key)
            if stored is None:
                if record["metadata"].get("resourceVersion") is not None:
                    raise Conflict(f"{key[0]}/{key[1]} is no longer there")
                return await self._store("ADDED", created(record))
            self._check_version(stored, record["metadata"].get("resourceVersion"))
            fresh = replaced(stored, record)
            if fresh["metadata"].get("deletionTimestamp") and not fresh["metadata"].get("finalizers"):
                await self._remove(fresh)
                return fresh
            if _without_version(fresh) == _without_version(stored):
                return stored
            return await self._store("MODIFIED", fresh)

    async def _patch_status(self, key: Key, status: Record, resource_version: str | None) -> Record:
        async with self._changing:
            stored = self._records.get(key)
            if stored is None:
                raise Conflict(f"{key[0]}/{key[1]} is no longer there")
            self._check_version(stored, resource_version)
            if stored.get("status") == status:
                return stored
            return await self._store("MODIFIED", {**stored, "status": status})

    async def _delete(self, key: Key) -> None:
        async with self._changing:
            stored = self._records.get(key)
            if stored is None:
                return
            if not stored["metadata"].get("finalizers"):
                await self._remove(stored)
            elif not stored["metadata"].get("deletionTimestamp"):
                marked = {**stored, "metadata": {**stored["metadata"], "deletionTimestamp": _now()}}
                await self._store("MODIFIED", marked)

    async def _undisturbed(self, change: Coroutine[Any, Any, Record | None]) -> Record | None:
        """A change once begun is finished, even when who asked for it is cancelled: memory and disk stay one."""
        commit = asyncio.create_task(change)
        self._commits.add(commit)
        commit.add_done_callback(self._commits.discard)
        return copy.deepcopy(await asyncio.shield(commit))

    async def _store(self, change: Any, record: Record) -> Record:
        version = self._version + 1
        fresh = {**record, "metadata": {**record["metadata"], "resourceVersion": str(version)}}
        await self._save(fresh)
        self._version = version
        self._records[_key(fresh)] = fresh
        self._tell(RecordEvent(change, fresh))
        return fresh

    async def _remove(self, record: Record) -> None:
        await self._forget(record)
        self._version += 1
        del self._records[_key(record)]
        self._tell(RecordEvent("DELETED", record))

    async def _save(self, record: Record) -> None:
        """Make it last; memory does not."""

    async def _forget(self, record: Record) -> None:
        """Make its absence last."""

    def _tell(self, event: RecordEvent) -> None:
        for queue in self._watchers.get(event.record["kind"], ()):
            queue.put_nowait(RecordEvent(event.type, copy.deepcopy(event.record)))

    def _all(self, kind: str) -> Iterator[Record]:
        return (copy.deepcopy(self._records[key]) for key in sorted(self._records) if key[0] == kind)

    @staticmethod
    def _check_version(stored: Record, wanted: str | None) -> None:
        if wanted is not None and wanted != stored["metadata"]["resourceVersion"]:
            kind, name = _key(stored)
            raise Conflict(f"{kind}/{name} is at version {stored['metadata']['resourceVersion']}, not {wanted}")


class LocalResources(MemoryResources):
    """Records as files, `<directory>/<kind>/<name>.json`; secrets are readable by their owner only."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self._counter = directory / "version"
        directory.mkdir(parents=True, exist_ok=True, mode=0o755)
        self._load()

    def _load(self) -> None:
        if self._counter.exists():
            self._version = int(self._counter.read_text())
        for leftover in self._directory.glob("*/.*.new"):  # a write that did not come to its end
            leftover.unlink()
        for path in sorted(self._directory.glob("*/*.json")):
            try:
                record = json.loads(path.read_text())
                self._records[_key(record)] = record
                self._version = max(self._version, int(record["metadata"]["resourceVersion"]))
            except (ValueError, KeyError, TypeError) as error:
                raise LabError(
                    f"{path} is not a record", why=f"{type(error).__name__}: {error}", hint="remove or mend that file"
                ) from error

    async def _save(self, record: Record) -> None:
        await asyncio.to_thread(self._write, self._path(record), json.dumps(record, indent=1, sort_keys=True), record)

    async def _forget(self, record: Record) -> None:
        # The version of a removed record must not be given out again after a restart.
        await asyncio.to_thread(self._write, self._counter, str(self._version + 1), record)
        await asyncio.to_thread(self._path(record).unlink, missing_ok=True)

    def _path(self, record: Record) -> Path:
        kind, name = _key(record)
        return self._directory / kind / f"{name}.json"

    @staticmethod
    def _write(path: Path, text: str, record: Record) -> None:
        secret = record["kind"] == "Secret"
        path.parent.mkdir(exist_ok=True, mode=0o700 if secret else 0o755)
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _without_version(record: Record) -> Record:
    metadata = {name: value for name, value in record["metadata"].items() if name != "resourceVersion"}
    return {**record, "metadata": metadata}


def _present(record: Record | None) -> Record:
    assert record is not None
    return record
