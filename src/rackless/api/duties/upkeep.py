"""The API's own background work: compaction, deletion of namespaces and definitions with their content, signing of
certificates.

Each duty reacts to changes and may run on several servers at once: every step is a conditional write that is repeated
or found done. Duties are supervised: one that fails is started again, and an object that cannot be worked on is tried
again later while the others go on. Garbage collection by owner is in `garbage`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from rackless.api.access.signing import SIGNERS, certificate_for
from rackless.api.duties.defaults import SYSTEM, ensure_account
from rackless.api.duties.garbage import Collector
from rackless.api.duties.supervision import Retries, Supervisor
from rackless.api.encoding import decode
from rackless.api.kinds.certificates import CERTIFICATE_REQUEST
from rackless.api.kinds.core import NAMESPACE
from rackless.api.kinds.custom import CLEANUP, CRD
from rackless.api.kinds.events import EVENT
from rackless.api.kinds.kind import Kind
from rackless.api.objects.operations import Objects, ObjectTarget, now
from rackless.api.objects.writes import Context, WriteOutcome
from rackless.api.status import Json, RequestRefused
from rackless.api.stores.port import StoredChange, StoreUnreachable
from rackless.trust.authority import Authority

log = logging.getLogger(__name__)

_MOST_HISTORY = 100_000
KEEPER, ENDINGS = "keeper", "endings"
"""What is done at once, such as signing, and what takes as long as there are objects to be deleted: the one does not wait for the
other."""


def _queue_of(data: bytes) -> str:
    return ENDINGS if b'"deletionTimestamp"' in data else KEEPER


class Upkeep:
    def __init__(self, objects: Objects, authority: Authority, compact_every: float) -> None:
        self._objects = objects
        self._authority = authority
        self._compact_every = compact_every
        self._queues: dict[str, asyncio.Queue[str]] = {KEEPER: asyncio.Queue(), ENDINGS: asyncio.Queue()}
        self._waiting: set[str] = set()
        self.supervisor = Supervisor()
        self.retries = Retries("keeper", self._recheck)
        self.collector = Collector(objects)

    def start(self) -> None:
        store = self._objects.store
        for kind in (NAMESPACE, CRD, CERTIFICATE_REQUEST):
            for entry in store.entries(kind.bucket):
                self._offer(entry.key, entry.data)
        store.subscribe(self._changed)
        for name in self._queues:
            self.supervisor.tend(name, partial(self._work, name))
        self.supervisor.tend("compaction", self._compact)
        self.supervisor.tend("collector", self.collector.run)

    async def stop(self) -> None:
        await self.supervisor.stop()
        self.retries.stop()
        self.collector.retries.stop()

    @property
    def queue_lengths(self) -> dict[str, int]:
        lengths = {name: queue.qsize() for name, queue in self._queues.items()}
        return {**lengths, "collector": self.collector.queue_length}

    @property
    def stuck(self) -> dict[str, str]:
        """Objects that cannot be worked on, and why."""
        return self.retries.waiting | self.collector.retries.waiting

    def _changed(self, changes: Sequence[StoredChange]) -> None:
        for change in changes:
            if change.deleted:
                # The last object of a namespace or definition that is ending may just have gone.
                self.retries.succeeded(change.key)
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
        always = key.startswith((CERTIFICATE_REQUEST.bucket + "/", NAMESPACE.bucket + "/"))
        interesting = always or b'"deletionTimestamp"' in data
        if interesting and key not in self._waiting:
            self._waiting.add(key)
            self._queues[_queue_of(data)].put_nowait(key)

    async def _work(self, name: str) -> None:
        while True:
            key = await self._queues[name].get()
            self._waiting.discard(key)
            entry = self._objects.store.get(key)
            if entry is None:
                self.retries.succeeded(key)
                continue
            if _queue_of(entry.data) != name:  # it began to end while it waited
                self._offer(key, entry.data)
                continue
            await self.retries.attempt(key, self._work_on(key, entry.data))

    async def _work_on(self, key: str, data: bytes) -> None:
        obj = decode(data)
        if key.startswith(NAMESPACE.bucket + "/"):
            await self._keep_namespace(obj)
        elif key.startswith(CRD.bucket + "/"):
            await self._end_definition(obj)
        else:
            await self._sign(obj)

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
            except (StoreUnreachable, RequestRefused):
                continue
            line = store.revision

    async def _drop_old_events(self) -> None:
        """Events tell of the last hour, as they do on the real server."""
        oldest = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        for index, entry in enumerate(self._objects.store.entries(EVENT.bucket)):
            event = decode(entry.data)
            if _last_seen(event) < oldest:
                target = ObjectTarget(EVENT, EVENT.storage, event["metadata"]["namespace"], event["metadata"]["name"])
                try:
                    await self._objects.delete(target, Context(SYSTEM, now()))
                except RequestRefused as error:
                    if error.code != 404:
                        raise
            if index % 200 == 199:
                await asyncio.sleep(0)

    async def _retire_all(self, kind: Kind, namespace: str) -> int:
        """Delete every object of a kind (in a namespace); how many are still there."""
        entries = self._objects.store.entries(kind.bucket, namespace)
        for entry in entries:
            _, _, where, name = entry.key.split("/", 3)
            if b'"deletionTimestamp"' in entry.data and "deletionTimestamp" in decode(entry.data)["metadata"]:
                continue
            target = ObjectTarget(kind, kind.storage, where, name)
            try:
                await self._objects.delete(target, Context(SYSTEM, now()), propagation="Background")
            except RequestRefused as error:
                if error.code != 404:
                    raise
        return len(self._objects.store.entries(kind.bucket, namespace))

    async def _keep_namespace(self, obj: Json) -> None:
        name = obj["metadata"]["name"]
        if "deletionTimestamp" not in obj["metadata"]:
            await ensure_account(self._objects, name)
            return
        left = 0
        for kind in self._objects.registry.kinds():
            if kind.namespaced and kind.stored_as is None and "delete" in kind.verbs:
                left += await self._retire_all(kind, name)
        if left:
            return

        def release(old: Json) -> WriteOutcome:
            new = {**old, "spec": {**(old.get("spec") or {}), "finalizers": []}}
            return WriteOutcome(new, removed=not old["metadata"].get("finalizers"))

        await self._objects.change(ObjectTarget(NAMESPACE, NAMESPACE.storage, "", name, "finalize"), release)

    async def _end_definition(self, obj: Json) -> None:
        """When a definition ends, its objects go first: those of the kind it added, never what others serve."""
        if "deletionTimestamp" not in obj["metadata"]:
            return
        kind = self._objects.registry.defined(obj)
        if kind is not None and await self._retire_all(kind, ""):
            return

        def release(old: Json) -> WriteOutcome:
            left = [f for f in old["metadata"].get("finalizers") or () if f != CLEANUP]
            return WriteOutcome({**old, "metadata": {**old["metadata"], "finalizers": left}}, removed=not left)

        await self._objects.change(ObjectTarget(CRD, CRD.storage, "", obj["metadata"]["name"]), release)

    async def _sign(self, obj: Json) -> None:
        status = obj.get("status") or {}
        types = {condition.get("type") for condition in status.get("conditions") or ()}
        if status.get("certificate") or "Approved" not in types or {"Denied", "Failed"} & types:
            return
        if obj["spec"]["signerName"] not in SIGNERS:
            return
        try:
            certificate, problem = certificate_for(self._authority, obj)
        except Exception as error:  # whatever the library meets in what a stranger sent: the request fails, not we
            log.warning("the certificate request %s cannot be signed: %r", obj["metadata"]["name"], error)
            certificate, problem = "", f"the request cannot be signed: {error}"

        def signed(old: Json) -> WriteOutcome:
            status = dict(old.get("status") or {})
            if status.get("certificate"):
                return WriteOutcome(old)
            if certificate:
                status["certificate"] = certificate
            else:
                failed = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": problem,
                          "lastUpdateTime": now(), "lastTransitionTime": now()}  # fmt: skip
                status["conditions"] = [*(status.get("conditions") or ()), failed]
            return WriteOutcome({**old, "status": status})

        target = ObjectTarget(CERTIFICATE_REQUEST, CERTIFICATE_REQUEST.storage, "", obj["metadata"]["name"], "status")
        await self._objects.change(target, signed)


def _last_seen(event: Json) -> str:
    """When an event was last told of; of one whose times are no times, when it was made."""
    series = event.get("series")
    last = series.get("lastObservedTime") if isinstance(series, dict) else None
    times = (event.get("lastTimestamp"), event.get("eventTime"), last, event["metadata"]["creationTimestamp"])
    return max(time for time in times if isinstance(time, str))
