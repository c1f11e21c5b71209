"""Garbage collection by owner references: what nobody owns any more goes; orphans are let go; foreground waits.

An index of owner uid to dependents is kept from the changes; only objects that have owner references are ever decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rackless.api.bootstrap import SYSTEM
from rackless.api.core import Context, Outcome
from rackless.api.encoding import decode
from rackless.api.operations import Objects, Target, now
from rackless.api.status import Json, Refused
from rackless.api.stores.port import Change, Unreachable

_MARK = b'"ownerReferences":['


class Collector:
    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._owners: dict[str, tuple[str, ...]] = {}
        self._dependents: dict[str, set[str]] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._foreground: dict[str, str] = {}

    async def run(self) -> None:
        store, registry = self._objects.store, self._objects.registry
        store.subscribe(self._changed)
        for kind in registry.kinds():
            for index, entry in enumerate(store.entries(kind.bucket)):
                self._see(entry.key, entry.data)
                if index % 500 == 499:
                    await asyncio.sleep(0)
        while True:
            key = await self._queue.get()
            self._waiting.discard(key)
            try:
                await self._settle(key)
            except Unreachable:
                await asyncio.sleep(1)
                self._offer(key)
            except Refused as error:
                if error.code == 409 or error.code >= 500:
                    await asyncio.sleep(0.1)
                    self._offer(key)

    def _offer(self, key: str) -> None:
        if key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    def _changed(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.deleted:
                self._forget(change.key)
                if self._dependents:
                    uid = decode(change.data)["metadata"]["uid"]
                    for dependent in self._dependents.get(uid, ()):
                        self._offer(dependent)
            else:
                self._see(change.key, change.data)

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

    def _target(self, key: str) -> Target | None:
        group, plural, namespace, name = key.split("/", 3)
        for kind in self._objects.registry.kinds():
            if kind.bucket == f"{group}/{plural}" and kind.stored_as is None:
                return Target(kind, kind.storage, namespace, name)
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

    async def _without(self, target: Target, uids: set[str]) -> None:
        def drop(old: Json) -> Outcome:
            left = [o for o in old["metadata"].get("ownerReferences") or () if o["uid"] not in uids]
            metadata = {**old["metadata"], "ownerReferences": left}
            if not left:
                del metadata["ownerReferences"]
            return Outcome({**old, "metadata": metadata})

        try:
            await self._objects.change(target, drop)
        except Refused as error:
            if error.code != 404:
                raise

    async def _release(self, target: Target, finalizer: str) -> None:
        def drop(old: Json) -> Outcome:
            left = [f for f in old["metadata"].get("finalizers") or () if f != finalizer]
            metadata = {**old["metadata"], "finalizers": left}
            if not left:
                del metadata["finalizers"]
            return Outcome({**old, "metadata": metadata}, removed=not left)

        await self._objects.change(target, drop)

    async def _end_dependents(self, uid: str, target: Target) -> None:
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
