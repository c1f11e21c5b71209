"""The embedded API in a story: its real core (objects, admission, watches) behind its real client, without HTTP and SQLite.

A request goes from `drivers/kubernetes` straight to the operations that the server's edge would call. The store keeps what SQLite
promises: a write that was answered is there after any kill; one that was not may be. Who may do what is not asked.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import re
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import aiohttp

from rackless.api import status
from rackless.api.definitions.hosts import HOSTS
from rackless.api.definitions.machines import MACHINES
from rackless.api.definitions.rules import RULES
from rackless.api.duties.defaults import ensure_defaults, ensure_definitions
from rackless.api.edge.discovery import resource_list
from rackless.api.edge.request import Path, parse_path
from rackless.api.edge.writing import patcher
from rackless.api.encoding import decode, encode, rendered
from rackless.api.kinds import core
from rackless.api.kinds.builtin import BUILTIN
from rackless.api.kinds.kind import Caller, Kind
from rackless.api.metrics import Histogram
from rackless.api.objects import operations
from rackless.api.objects.operations import Objects, ObjectTarget
from rackless.api.objects.registry import Registry
from rackless.api.objects.watching import Filter, Hub, batches
from rackless.api.objects.writes import Context
from rackless.api.offload import Offload
from rackless.api.selectors import parse_labels
from rackless.api.stores.memory import ObjectsInMemory, ReadsFromMemory, bucket_of
from rackless.api.stores.port import MOST_CHANGED_BYTES, MOST_CHANGES, Compacted, Raced, StoredChange, StoredObject
from rackless.api.stores.sqlite import change_of
from rackless.drivers.fake.api import AnswerLost
from rackless.drivers.fake.loop import PROCESS, VirtualLoop
from rackless.drivers.fake.script import Script
from rackless.drivers.kubernetes.client import Client, HttpRefused
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.ports.api import NAMESPACE, Access
from rackless.ports.clock import Clock
from rackless.simulation.seeded import WallClock, seeded

Json = dict[str, Any]
Query = Mapping[str, str] | None
T = TypeVar("T")
_decoded: Callable[[bytes], Json] = decode
COMMIT = 0.002
"""Seconds until a write is durable."""
_ADMIN = Caller("admin", ("system:masters",))
_VERBS = {"GET": "get", "POST": "create", "PUT": "replace", "PATCH": "patch", "DELETE": "delete"}


@dataclass
class Durable:
    """What is in the file of a store, whoever serves it."""

    log: list[tuple[str, int, bytes | None]] = field(default_factory=list)

    _kinds: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By plural and name, what the log says so far; decoded when somebody asks."""
    _read: int = 0

    def records(self, plural: str) -> dict[str, Json]:
        """The objects of a kind, by name."""
        for key, revision, data in self.log[self._read :] if self._read < len(self.log) else ():
            names = self._kinds.setdefault(bucket_of(key).rpartition("/")[2], {})
            name = key.rpartition("/")[2]
            if data is None:
                names.pop(name, None)
            else:
                names[name] = (revision, data)
        self._read = len(self.log)
        found = self._kinds.get(plural, {})
        for name, value in found.items():
            if isinstance(value, tuple):
                found[name] = decode(rendered(value[1], value[0]))
        return found

    def current(self) -> list[tuple[str, int, bytes]]:
        last = {key: (revision, data) for key, revision, data in self.log}
        return [(key, revision, data) for key, (revision, data) in sorted(last.items()) if data is not None]


class SimulatedStore(ReadsFromMemory):
    """`api.stores.port.Store`."""

    backlog = queued = 0
    problem = ""

    def __init__(self, file: Durable) -> None:
        self._file = file
        self._memory = ObjectsInMemory()
        self.commits = Histogram()
        self._compacted = 0

    @property
    def revision(self) -> int:
        return self._memory.revision

    async def open(self) -> None:
        self._memory.revision = max((revision for _, revision, _ in self._file.log), default=1)
        self._memory.load(self._file.current())

    async def close(self) -> None: ...

    async def fresh(self) -> int:
        return self.revision

    async def write(self, key: str, expected: int, data: bytes | None) -> int:
        await asyncio.sleep(COMMIT)
        entry = self._memory.get(key)
        if (entry.revision if entry else 0) != expected:
            raise Raced(key)
        written = (key, self._memory.revision + 1, data)
        self._file.log.append(written)
        self._memory.apply([written])
        return written[1]

    async def entries_at(self, bucket: str, namespace: str, revision: int) -> list[StoredObject]:
        if revision < self._compacted:
            raise Compacted(self._compacted)
        low = f"{bucket}/{namespace}/" if namespace else f"{bucket}/"
        then = Durable([written for written in self._file.log if written[1] <= revision and written[0].startswith(low)])
        return [StoredObject(key, at, rendered(data, at)) for key, at, data in then.current()]

    async def history(self, bucket: str, after: int, until: int) -> list[StoredChange]:
        if after < self._compacted:
            raise Compacted(self._compacted)
        old: dict[str, tuple[bytes, int]] = {}
        found, size = [], 0
        for key, revision, data in self._file.log:
            if bucket_of(key) != bucket:
                continue
            if after < revision <= until:
                before, at = old.get(key, (None, 0))
                found.append(change_of((key, revision, data, before, at)))
                size += len(data or b"") + len(before or b"")
                if size > MOST_CHANGED_BYTES or len(found) > MOST_CHANGES:
                    raise Compacted(until)
            if data is not None:
                old[key] = data, revision
            else:
                old.pop(key, None)
        return [change for change in found if change is not None]

    async def compact(self, revision: int) -> None:
        self._compacted = min(revision, self.revision)


class _AtOnce(Offload):
    """Heavy work is nobody's, as in a thread, and nobody goes on before it is done."""

    async def _in_thread(self, who: str, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return loop.apart(work)


class _KnownKinds(Registry):
    """Definitions that say the same are the same kind, in whatever store: their schemas are compiled for the first story only."""

    _known: ClassVar[dict[bytes, Kind]] = {}

    def _read(self, key: str, data: bytes) -> None:
        if (kind := self._known.get(data)) is not None:
            self._custom[key] = kind
            self.unreadable.pop(key.rpartition("/")[2], None)
            return
        super()._read(key, data)
        if key in self._custom:
            self._known[data] = self._custom[key]


def compile_schemas() -> None:
    """Of all kinds that a new store has."""
    for kind in (*BUILTIN, *_KnownKinds._known.values()):
        for version in kind.versions:
            _ = version.walk, version.rules


_NEW: list[tuple[str, int, bytes | None]] = []
"""What a store has after its first start: the same for all but for the uids of its namespaces, so that the definitions of kinds
are checked once."""
_UID = re.compile(rb'(?<="uid":")[^"]+')


def prepare_stores() -> None:
    """Before any story: by a chance and a clock of its own, whoever comes first."""
    if not _NEW:
        file, loop = Durable(), VirtualLoop()
        with seeded(random.Random("a new store"), WallClock()):
            loop.run_until_complete(open_objects(file))
        loop.close()
        _NEW.extend(file.log)


async def open_objects(file: Durable) -> Objects:
    """What `api.process` puts together, without what listens."""
    if not file.log:
        file.log += map(_of_its_own, _NEW)
    store = SimulatedStore(file)
    await store.open()
    registry = _KnownKinds(BUILTIN, RULES)
    registry.follow(store)
    objects = Objects(store, registry, Hub(store), _AtOnce())
    await ensure_defaults(objects)
    await ensure_definitions(objects, (*HOSTS, *MACHINES))
    return objects


def _of_its_own(written: tuple[str, int, bytes | None]) -> tuple[str, int, bytes | None]:
    """Two APIs are told apart by the uids of their namespaces."""
    key, revision, data = written
    if data is None or bucket_of(key) != core.NAMESPACE.bucket:
        return written
    return key, revision, _UID.sub(str(uuid.uuid4()).encode(), data, count=1)


SENDER: contextvars.ContextVar[object] = contextvars.ContextVar("sender", default=None)
"""Which process sent a request that goes astray: it may be dead when the request arrives."""


class Strayed(AnswerLost):
    """A request goes astray: it arrives so many seconds late, and once in time, too, when it is doubled."""

    def __init__(self, seconds: float, *, doubled: bool) -> None:
        super().__init__()
        self.seconds = seconds
        self.doubled = doubled


@dataclass
class ServedApi:
    """Which API is served where, by network namespace and URL."""

    script: Script
    places: dict[tuple[object, str], Objects] = field(default_factory=dict)
    ways: list[Callable[[object, str], Objects | None]] = field(default_factory=list)
    """Whoever else knows what is served somewhere."""

    def find(self, network: object, url: str) -> Objects | None:
        found = self.places.get((network, url))
        return found or next((there for way in self.ways if (there := way(network, url)) is not None), None)

    def open(
        self,
        network: object,
        access: Access,
        clock: Clock,
        patience: float,
        *,
        namespace: str | None = None,
        caller: Caller | None = None,
    ) -> KubernetesResources:
        found = KubernetesResources(access, clock=clock, patience=patience, namespace=namespace or NAMESPACE)
        found._client = _Client(self, network, access, clock, patience, caller or _ADMIN)
        return found


class _Client(Client):
    """The real client, its retries and its patience; only the wire is another."""

    def __init__(
        self, served: ServedApi, network: object, access: Access, clock: Clock, patience: float, caller: Caller
    ) -> None:
        super().__init__(access, clock, patience)
        self._served = served
        self._network = network
        self._caller = caller

    async def close(self) -> None: ...

    async def _once(
        self, method: str, path: str, body: Json | None, query: Mapping[str, str] | None, media: str
    ) -> Json:
        place = parse_path(path)
        if place is None:
            return await self._kinds(path)
        verb, subject = _described(method, place, body)
        try:
            done = await self._sent(method, place, body, query, media, verb, subject)
        except AnswerLost as lost:
            raise aiohttp.ClientConnectionError("the connection broke") from lost
        except status.RequestRefused as refused:
            raise HttpRefused(
                refused.code, f"the Kubernetes API refused to {verb} {subject}", str(refused)
            ) from refused
        self._reach()  # a server that ended meanwhile has not answered
        return done

    async def _sent(
        self, method: str, place: Path, body: Json | None, query: Query, media: str, verb: str, subject: str
    ) -> Json:
        try:
            await self._served.script.meet("api", verb, subject)
            await _under_way()
            done = await self._ask(method, place, body, query, media)
            await self._served.script.answer("api", verb, subject)
        except Strayed as strayed:
            if method != "GET":
                again = self._later(strayed.seconds, method, place, body, query, media)
                under_way = contextvars.Context()
                under_way.run(SENDER.set, PROCESS.get())
                asyncio.get_running_loop().create_task(again, context=under_way)
            if not strayed.doubled:
                raise aiohttp.ClientConnectionError("the connection broke") from strayed
            done = await self._ask(method, place, body, query, media)
        return done

    async def _kinds(self, path: str) -> Json:
        """Which kinds there are, of a group and version."""
        try:
            await self._served.script.meet("api", "discover", path)
        except AnswerLost as lost:
            raise aiohttp.ClientConnectionError("the connection broke") from lost
        *_, group, version = ("", *path.split("/")[2:])
        found = resource_list(self._reach().registry, group, version)
        if found is None:
            raise HttpRefused(
                404, f"the Kubernetes API has no {path}", "the server could not find the requested resource"
            )
        return found

    async def _ask(self, method: str, place: Path, body: Json | None, query: Query, media: str) -> Json:
        sent = decode(encode(body))  # what is sent and answered is a copy
        return await _ask(self._reach(), method, place, sent, query or {}, media, self._caller)

    async def _later(
        self, seconds: float, method: str, place: Path, body: Json | None, query: Query, media: str
    ) -> None:
        """The request arrives when others have that were sent after it; nobody hears the answer."""
        sent = decode(encode(body))
        await asyncio.sleep(seconds)
        with suppress(status.RequestRefused, aiohttp.ClientConnectionError):
            await self._ask(method, place, sent, query, media)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], silence: float) -> AsyncGenerator[AsyncGenerator[Json]]:
        place = parse_path(path)
        assert place is not None
        await self._served.script.meet("api", "watch", place.plural)
        objects = self._reach()
        kind, _ = _kind(objects, place)
        wanted = Filter(place.namespace, parse_labels(query["labelSelector"]) if "labelSelector" in query else None)
        try:
            watcher, stop = await objects.hub.watch(kind.bucket, wanted, int(query["resourceVersion"]))
        except Compacted as gone:
            raise HttpRefused(410, f"the watch of {path} ended", str(gone)) from gone
        deadline = asyncio.get_running_loop().time() + float(query["timeoutSeconds"])

        async def lines() -> AsyncGenerator[Json]:
            async for batch in batches(watcher, deadline, 30.0):
                for change, event in batch:
                    await self._served.script.meet("api", "event", place.plural)
                    yield {"type": change, "object": decode(event.change.data)}
            self._reach()

        try:
            yield lines()
        except AnswerLost as lost:
            raise aiohttp.ClientConnectionError("the connection broke") from lost
        finally:
            stop()

    def _reach(self) -> Objects:
        found = self._served.find(self._network, self._access.url)
        if found is None:
            raise aiohttp.ClientConnectionError(f"nobody serves {self._access.url}")
        return found


async def _ask(
    objects: Objects, method: str, place: Path, body: Any, query: Mapping[str, str], media: str, caller: Caller
) -> Json:
    kind, version = _kind(objects, place)
    target = ObjectTarget(kind, version, place.namespace, place.name, place.subresource)
    context = Context(caller, operations.now())
    match method:
        case "GET" if place.name:
            return _decoded((await objects.get(target)).data)
        case "GET":
            labels = parse_labels(query["labelSelector"]) if "labelSelector" in query else None
            page = await objects.page(kind, Filter(place.namespace, labels))
            items = [_decoded(entry.data) for entry in page.entries]
            return {"items": items, "metadata": {"resourceVersion": str(page.revision)}}
        case "POST":
            return _decoded(await objects.create(kind, version, place.namespace, body, context, dry=False))
        case "PUT":
            return _decoded((await objects.update(target, body, context, dry=False))[0])
        case "PATCH":
            change = patcher(media, encode(body), kind, version)
            return _decoded(await objects.patch(target, change, context, dry=False))
        case "DELETE":
            more = {"propagation": body.get("propagationPolicy", ""), "preconditions": body.get("preconditions")}
            await objects.delete(target, context, grace=None, dry=False, **more)
            return {}
    raise AssertionError(method)


async def _under_way() -> None:
    """A message takes its time: others may be quicker."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    if latency := loop.latency():
        await asyncio.sleep(latency)


def _kind(objects: Objects, place: Path) -> tuple[Any, Any]:
    found = objects.registry.find(place.group, place.version, place.plural)
    if found is None:
        raise status.no_such_resource()
    return found


def _described(method: str, place: Path, body: Json | None) -> tuple[str, str]:
    """The request in the words of the port: `patch baremetalhosts ctrl-0`."""
    verb = "list" if method == "GET" and not place.name else _VERBS[method]
    name = place.name or ((body or {}).get("metadata") or {}).get("name") or ""
    if place.plural == "events":
        name = ""  # they are numbered by chance
    return verb, " ".join(word for word in (place.plural, name, place.subresource) if word)
