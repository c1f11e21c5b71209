"""Garbage collection by owner references: objects whose owners are all gone are deleted; orphans are kept; foreground waits.

An index of owner uid to dependents follows the changes; only objects with owner references are ever decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rackless.api.duties.defaults import SYSTEM
from rackless.api.duties.supervision import Retries
from rackless.api.encoding import decode
from rackless.api.objects.operations import Objects, ObjectTarget, now
from rackless.api.objects.writes import Context, WriteOutcome
from rackless.api.status import Json, RequestRefused
from rackless.api.stores.port import StoredChange

_MARK = b'"ownerReferences":['


class Collector:
    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._owners: dict[str, tuple[str, ...]] = {}
        self._dependents: dict[str, set[str]] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._foreground: dict[str, str] = {}
        self._following = False
        self.retries = Retries("collector", self._offer)

    @property
    def queue_length(self) -> int:
        return self._queue.qsize()

    async def run(self) -> None:
        """Until cancelled; begun anew it looks through everything again."""
        store, registry = self._objects.store, self._objects.registry
        if not self._following:
            store.subscribe(self._changed)
            self._following = True
        for kind in registry.kinds():
            for index, entry in enumerate(store.entries(kind.bucket)):
                self._look(entry.key, entry.data)
                if index % 500 == 499:
                    await asyncio.sleep(0)
        while True:
            key = await self._queue.get()
            self._waiting.discard(key)
            await self.retries.attempt(key, self._settle(key))

    def _look(self, key: str, data: bytes) -> None:
        try:
            self._see(key, data)
        except Exception as error:
            self.retries.failed(key, error)

    def _offer(self, key: str) -> None:
        if key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    def _changed(self, changes: Sequence[StoredChange]) -> None:
        for change in changes:
            if change.deleted:
                self.retries.succeeded(change.key)
                self._forget(change.key)
                if self._dependents:
                    uid = decode(change.data)["metadata"]["uid"]
                    for dependent in self._dependents.get(uid, ()):
                        self._offer(dependent)
            else:
                self._look(change.key, change.data)

    def _forget(self, key: str) -> None:
        for uid in self._owners.pop(key, ()):
            group = self._dependents.get(uid)
            if group is not None:
                group.discard(key)
                if not group:
                    del self._dependents[uid]
                # Its owner may be waiting, in the foreground, for the last of them.
                if owner := self._foreground.get(uid):
                    self._offer(owner)

    def _see(self, key: str, data: bytes) -> None:
        has_mark = _MARK in data
        if not has_mark and key not in self._owners and b'"deletionTimestamp"' not in data:
            return
        metadata = decode(data)["metadata"]
        uids = tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ())
        if uids != self._owners.get(key, ()):
            self._forget(key)
            if uids:
                self._owners[key] = uids
            for uid in uids:
                self._dependents.setdefault(uid, set()).add(key)
            self._offer(key)
        if "deletionTimestamp" in metadata and {"orphan", "foregroundDeletion"} & set(metadata.get("finalizers") or ()):
            if "foregroundDeletion" in metadata["finalizers"]:
                self._foreground[metadata["uid"]] = key
            self._offer(key)

    def _target(self, key: str) -> ObjectTarget | None:
        group, plural, namespace, name = key.split("/", 3)
        for kind in self._objects.registry.kinds():
            if kind.bucket == f"{group}/{plural}" and kind.stored_as is None:
                return ObjectTarget(kind, kind.storage, namespace, name)
        return None

    def _owner_is_there(self, reference: Json, namespace: str) -> bool:
        group = reference["apiVersion"].rpartition("/")[0]
        kind = self._objects.registry.by_kind(group, reference["kind"])
        if kind is None:
            return True  # a kind we do not know: never collect on a guess
        entry = self._objects.store.get(kind.key(namespace, reference["name"]))
        return entry is not None and decode(entry.data)["metadata"]["uid"] == reference["uid"]

    async def _settle(self, key: str) -> None:
        entry, target = self._objects.store.get(key), self._target(key)
        if entry is None or target is None:
            return
        metadata = decode(entry.data)["metadata"]
        if "deletionTimestamp" in metadata:
            finalizers = metadata.get("finalizers") or ()
            if "orphan" in finalizers:
                await self._let_go(metadata["uid"])
                await self._release(target, "orphan")
            elif "foregroundDeletion" in finalizers:
                await self._end_dependents(metadata["uid"], target)
            return
        owners = metadata.get("ownerReferences") or []
        if not owners:
            return
        there = [owner for owner in owners if self._owner_is_there(owner, target.namespace)]
        if not there:
            await self._objects.delete(
                target, Context(SYSTEM, now()), propagation="Background", preconditions={"uid": metadata["uid"]}
            )
        elif len(there) != len(owners):
            await self._without(target, {owner["uid"] for owner in owners} - {owner["uid"] for owner in there})

    async def _let_go(self, uid: str) -> None:
        for key in tuple(self._dependents.get(uid, ())):
            if (target := self._target(key)) is not None:
                await self._without(target, {uid})

    async def _without(self, target: ObjectTarget, uids: set[str]) -> None:
        def drop(old: Json) -> WriteOutcome:
            left = [o for o in old["metadata"].get("ownerReferences") or () if o["uid"] not in uids]
            metadata = {**old["metadata"], "ownerReferences": left}
            if not left:
                del metadata["ownerReferences"]
            return WriteOutcome({**old, "metadata": metadata})

        try:
            await self._objects.change(target, drop)
        except RequestRefused as error:
            if error.code != 404:
                raise

    async def _release(self, target: ObjectTarget, finalizer: str) -> None:
        def drop(old: Json) -> WriteOutcome:
            left = [f for f in old["metadata"].get("finalizers") or () if f != finalizer]
            metadata = {**old["metadata"], "finalizers": left}
            if not left:
                del metadata["finalizers"]
            return WriteOutcome({**old, "metadata": metadata}, removed=not left)

        await self._objects.change(target, drop)

    async def _end_dependents(self, uid: str, target: ObjectTarget) -> None:
        blocking = False
        for key in tuple(self._dependents.get(uid, ())):
            entry, dependent = self._objects.store.get(key), self._target(key)
            if entry is None or dependent is None:
                continue
            metadata = decode(entry.data)["metadata"]
            owners: list[Json] = metadata.get("ownerReferences") or []
            if any(o["uid"] != uid and self._owner_is_there(o, dependent.namespace) for o in owners):
                await self._without(dependent, {uid})  # it has another owner to stay for
                continue
            mine: Json = next((o for o in owners if o["uid"] == uid), {})
            blocking = blocking or bool(mine.get("blockOwnerDeletion"))
            if "deletionTimestamp" not in metadata:
                policy = "Foreground" if metadata["uid"] in self._dependents else "Background"
                await self._objects.delete(dependent, Context(SYSTEM, now()), propagation=policy)
        still = any(self._objects.store.get(key) for key in self._dependents.get(uid, ()))
        if not (blocking and still):
            self._foreground.pop(uid, None)
            await self._release(target, "foregroundDeletion")
