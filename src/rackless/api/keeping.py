"""What the API itself keeps true: compaction, namespaces and definitions that end with their content, signed
certificates.

Each duty reacts to changes and may run on several servers at once: every step is a conditional write that is repeated
or found done. Garbage collection by owner is in `collecting`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rackless.api.access.pki import Authority
from rackless.api.access.signing import SIGNERS, certificate_for
from rackless.api.bootstrap import SYSTEM
from rackless.api.collecting import Collector
from rackless.api.core import Context, Outcome
from rackless.api.encoding import decode
from rackless.api.kinds.access import CERTIFICATE_REQUEST
from rackless.api.kinds.core import NAMESPACE
from rackless.api.kinds.custom import CLEANUP, CRD, kind_of
from rackless.api.kinds.events import EVENT
from rackless.api.kinds.kind import Kind
from rackless.api.operations import Objects, Target, now
from rackless.api.status import Json, Refused
from rackless.api.stores.port import Change, Unreachable

_MOST_HISTORY = 100_000


class Keeper:
    def __init__(self, objects: Objects, authority: Authority, compact_every: float) -> None:
        self._objects = objects
        self._authority = authority
        self._compact_every = compact_every
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._collector = Collector(objects)

    def start(self) -> None:
        store = self._objects.store
        for kind in (NAMESPACE, CRD, CERTIFICATE_REQUEST):
            for entry in store.entries(kind.bucket):
                self._offer(entry.key, entry.data)
        store.subscribe(self._changed)
        self._tasks = [
            asyncio.create_task(self._work(), name="keeper"),
            asyncio.create_task(self._compact(), name="compaction"),
            asyncio.create_task(self._collector.run(), name="collector"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _changed(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.deleted:
                # The last object of a namespace or definition that is ending may just have gone.
                _, _, namespace, _ = change.key.split("/", 3)
                if namespace:
                    self._recheck(NAMESPACE.key("", namespace))
                for entry in self._objects.store.entries(CRD.bucket):
                    if entry.key.endswith("/" + ".".join(reversed(change.key.split("/")[:2]))):
                        self._recheck(entry.key)
            elif change.key.startswith((NAMESPACE.bucket + "/", CRD.bucket + "/", CERTIFICATE_REQUEST.bucket + "/")):
                self._offer(change.key, change.data)

    def _recheck(self, key: str) -> None:
        entry = self._objects.store.get(key)
        if entry:
            self._offer(key, entry.data)

    def _offer(self, key: str, data: bytes) -> None:
        interesting = key.startswith(CERTIFICATE_REQUEST.bucket) or b'"deletionTimestamp"' in data
        if interesting and key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._waiting.discard(key)
            entry = self._objects.store.get(key)
            if entry is None:
                continue
            obj = decode(entry.data)
            try:
                if key.startswith(NAMESPACE.bucket + "/"):
                    await self._end_namespace(obj)
                elif key.startswith(CRD.bucket + "/"):
                    await self._end_definition(obj)
                else:
                    await self._sign(obj)
            except Refused as error:
                if error.code >= 500 or error.code == 409:
                    await self._later(key)
            except Unreachable:
                await self._later(key)

    async def _later(self, key: str) -> None:
        await asyncio.sleep(1)
        self._recheck(key)

    async def _compact(self) -> None:
        store = self._objects.store
        line = store.revision
        while True:
            for _ in range(10):
                await asyncio.sleep(self._compact_every / 10)
                if store.backlog > _MOST_HISTORY:
                    break
            try:
                await self._drop_old_events()
                await store.compact(line)
            except (Unreachable, Refused):
                continue
            line = store.revision

    async def _drop_old_events(self) -> None:
        """Events tell of the last hour, as they do on the real server."""
        oldest = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        for entry in self._objects.store.entries(EVENT.bucket):
            event = decode(entry.data)
            times = (event.get("lastTimestamp"), event.get("eventTime"), event["metadata"]["creationTimestamp"])
            series = (event.get("series") or {}).get("lastObservedTime")
            if max(time for time in (*times, series) if time) < oldest:
                target = Target(EVENT, EVENT.storage, event["metadata"]["namespace"], event["metadata"]["name"])
                await self._objects.delete(target, Context(SYSTEM, now()))

    async def _retire_all(self, kind: Kind, namespace: str) -> int:
        """Delete every object of a kind (in a namespace); how many are still there."""
        entries = self._objects.store.entries(kind.bucket, namespace)
        for entry in entries:
            _, _, where, name = entry.key.split("/", 3)
            if b'"deletionTimestamp"' in entry.data and "deletionTimestamp" in decode(entry.data)["metadata"]:
                continue
            target = Target(kind, kind.storage, where, name)
            try:
                await self._objects.delete(target, Context(SYSTEM, now()), propagation="Background")
            except Refused as error:
                if error.code != 404:
                    raise
        return len(self._objects.store.entries(kind.bucket, namespace))

    async def _end_namespace(self, obj: Json) -> None:
        if "deletionTimestamp" not in obj["metadata"]:
            return
        name = obj["metadata"]["name"]
        left = 0
        for kind in self._objects.registry.kinds():
            if kind.namespaced and kind.stored_as is None and "delete" in kind.verbs:
                left += await self._retire_all(kind, name)
        if left:
            return

        def release(old: Json) -> Outcome:
            new = {**old, "spec": {**(old.get("spec") or {}), "finalizers": []}}
            return Outcome(new, removed=not old["metadata"].get("finalizers"))

        await self._objects.change(Target(NAMESPACE, NAMESPACE.storage, "", name, "finalize"), release)

    async def _end_definition(self, obj: Json) -> None:
        """When a definition ends, its objects go first."""
        if "deletionTimestamp" not in obj["metadata"] or await self._retire_all(kind_of(obj), ""):
            return

        def release(old: Json) -> Outcome:
            left = [f for f in old["metadata"].get("finalizers") or () if f != CLEANUP]
            return Outcome({**old, "metadata": {**old["metadata"], "finalizers": left}}, removed=not left)

        await self._objects.change(Target(CRD, CRD.storage, "", obj["metadata"]["name"]), release)

    async def _sign(self, obj: Json) -> None:
        status = obj.get("status") or {}
        types = {condition.get("type") for condition in status.get("conditions") or ()}
        if status.get("certificate") or "Approved" not in types or {"Denied", "Failed"} & types:
            return
        if obj["spec"]["signerName"] not in SIGNERS:
            return
        certificate, problem = certificate_for(self._authority, obj)

        def signed(old: Json) -> Outcome:
            status = dict(old.get("status") or {})
            if status.get("certificate"):
                return Outcome(old)
            if certificate:
                status["certificate"] = certificate
            else:
                failed = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": problem,
                          "lastUpdateTime": now(), "lastTransitionTime": now()}  # fmt: skip
                status["conditions"] = [*(status.get("conditions") or ()), failed]
            return Outcome({**old, "status": status})

        target = Target(CERTIFICATE_REQUEST, CERTIFICATE_REQUEST.storage, "", obj["metadata"]["name"], "status")
        await self._objects.change(target, signed)
