"""The verbs on stored objects: read, compute the new object with `writes`, store it, and compute again after a concurrent write.

One `Objects` serves every kind. It knows the store, the registry and the hub; it does not know HTTP or who may do what.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from rackless.api import status
from rackless.api.encoding import as_version, decode, encode, rendered, stored
from rackless.api.kinds.core import NAMESPACE
from rackless.api.kinds.kind import Kind, Version
from rackless.api.objects import writes as core
from rackless.api.objects.applying.apply import Application, applied, owned_from_the_start, tracked
from rackless.api.objects.applying.fields import whole_schema
from rackless.api.objects.registry import Registry
from rackless.api.objects.watching import Filter, Hub
from rackless.api.objects.writes import Context, WriteOutcome
from rackless.api.offload import SMALL, Offload
from rackless.api.status import Json, RequestRefused, bad_request
from rackless.api.stores.port import Compacted, Raced, Store, StoredObject, TooLarge

_TRIES = 50
_BYTES_A_TURN = 256 * 1024
LARGEST = 1536 * 1024
"""Bytes of an object: what etcd takes, on every store, or a patch at a time an object would grow without end."""
T = TypeVar("T")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Page:
    entries: list[StoredObject]
    revision: int
    token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class ObjectTarget:
    """One object that is asked for."""

    kind: Kind
    version: Version
    namespace: str
    name: str
    subresource: str = ""

    @property
    def key(self) -> str:
        return self.kind.key(self.namespace, self.name)


class Objects:
    def __init__(self, store: Store, registry: Registry, hub: Hub, offload: Offload | None = None) -> None:
        self.offload = offload or Offload()
        self.store = store
        self.registry = registry
        self.hub = hub
        self._opened = store.revision  # before it, `changed` says nothing

    # -- reading -------------------------------------------------------------------------------------------------

    def shown(self, kind: Kind, version: Version, data: bytes) -> bytes:
        """Bytes of the store as this version shows them."""
        if kind.from_stored:
            return encode(kind.from_stored(decode(data)))
        if version is not kind.storage:
            return as_version(data, kind.api_version(version.name))
        return data

    def _decoded(self, kind: Kind, version: Version, data: bytes) -> Json:
        obj: Json = decode(data)
        if kind.from_stored:
            return kind.from_stored(obj)
        obj["apiVersion"] = kind.api_version(version.name)
        return obj

    async def get(self, target: ObjectTarget, revision: str = "") -> StoredObject:
        if revision != "0":
            await self.at_least(revision)
        entry = self.store.get(target.key)
        if entry is None:
            raise status.not_found(target.kind.plural, target.kind.group, target.name)
        return entry

    async def at_least(self, revision: str) -> int:
        """Memory as new as the client asks: what is current now, or at least a revision it has seen."""
        if revision in ("", "0"):
            return await self.store.fresh() if not revision else self.store.revision
        wanted = _number(revision)
        if wanted > self.store.revision:
            await self.store.fresh()
            if wanted > self.store.revision:
                raise status.too_new(wanted, self.store.revision)
        return self.store.revision

    async def page(
        self, kind: Kind, wanted: Filter, *, limit: int = 0, token: str = "", revision: str = "", match: str = ""
    ) -> Page:
        """A list, or one page of it: every page of a list is of the revision of its first."""
        after = ""
        if token:
            at, after = _read_token(token)
            entries = await self._entries_at(kind, wanted, at)
        elif match == "Exact":
            at = _number(revision)
            entries = await self._entries_at(kind, wanted, at)
        else:
            at = await self.at_least(revision)
            entries = self.store.entries(kind.bucket, wanted.namespace)
        if wanted.fields is not None:
            entries = [entry for entry in entries if wanted.takes_key(entry.key)]
        if after:
            entries = [entry for entry in entries if entry.key > after]
        if wanted.looks_inside:
            entries = await self._matching(kind, wanted, entries, limit)
        if not limit or len(entries) <= limit:
            return Page(entries, at)
        rest = len(entries) - limit
        entries = entries[:limit]
        return Page(entries, at, _token(at, entries[-1].key), None if wanted.looks_inside or wanted.fields else rest)

    async def _entries_at(self, kind: Kind, wanted: Filter, at: int) -> list[StoredObject]:
        await self.at_least(str(at))
        if self.store.changed(kind.bucket) <= at and at >= self._opened:
            return self.store.entries(kind.bucket, wanted.namespace)
        try:
            return await self.store.entries_at(kind.bucket, wanted.namespace, at)
        except Compacted as error:
            raise status.RequestRefused(
                410, "Expired",
                "The provided continue parameter is too old to display a consistent list result. You can "
                "start a new list "
                "without the continue parameter.",
            ) from error  # fmt: skip

    async def _matching(
        self, kind: Kind, wanted: Filter, entries: list[StoredObject], limit: int
    ) -> list[StoredObject]:
        found: list[StoredObject] = []
        size = 0
        for entry in entries:
            obj = decode(entry.data)
            size += len(entry.data) + wanted.weight
            if wanted.takes(kind.from_stored(obj) if kind.from_stored else obj):
                found.append(entry)
                if limit and len(found) > limit:
                    break
            if size > _BYTES_A_TURN:
                size = 0
                await asyncio.sleep(0)
        return found

    # -- writing -------------------------------------------------------------------------------------------------

    async def create(
        self, kind: Kind, version: Version, namespace: str, body: Json, context: Context, *, dry: bool
    ) -> bytes:
        await self._check_namespace(kind, namespace, body)
        obj = await self._worked(
            kind, version, context, context.weight, lambda: core.create(kind, version, body, namespace, context)
        )
        return await self.put_new(kind, version, namespace, obj, dry=dry)

    async def _worked(self, kind: Kind, version: Version, context: Context, weight: int, work: Callable[[], T]) -> T:
        """The pure part of a write: in a thread where it is heavy, or where its schema must be compiled first."""
        known = vars(version)
        if "walk" not in known or (kind.custom and "rules" not in known):
            weight += SMALL + 1
        return await self.offload.run(context.caller.name, weight, work, version)

    async def put_new(self, kind: Kind, version: Version, namespace: str, obj: Json, *, dry: bool) -> bytes:
        name = obj["metadata"]["name"]
        key = kind.key(namespace, name)
        if (entry := self.store.get(key)) and not await self._outdated(key, entry):
            raise status.already_exists(kind.plural, kind.group, name)
        data = self._to_store(kind, obj)
        if dry:
            return self.shown(kind, version, data)
        try:
            revision = await self.store.write(key, 0, data)
        except Raced as error:
            raise status.already_exists(kind.plural, kind.group, name) from error
        return self.shown(kind, version, rendered(data, revision))

    async def _outdated(self, key: str, seen: StoredObject | None) -> bool:
        """Whether the object is another than what we have seen: another server may have acknowledged a write that
        has not reached us. Asked before a write is refused or left out, never before one that the store will check.
        """
        await self.store.fresh()
        return self.store.get(key) is not seen

    async def _check_namespace(self, kind: Kind, namespace: str, body: Any) -> None:
        if not kind.namespaced or kind.verbs == ("create",):
            return
        key = NAMESPACE.key("", namespace)
        entry = self.store.get(key)
        if entry is None and await self._outdated(key, None):
            entry = self.store.get(key)
        if entry is None:
            raise status.not_found("namespaces", "", namespace)
        if b'"deletionTimestamp"' in entry.data and "deletionTimestamp" in decode(entry.data)["metadata"]:
            name = (
                body.get("metadata", {}).get("name", "")
                if isinstance(body, dict) and isinstance(body.get("metadata"), dict)
                else ""
            )
            raise status.forbidden(
                kind.plural, kind.group, str(name),
                f"unable to create new content in namespace {namespace} because it is being terminated",
            )  # fmt: skip

    def _to_store(self, kind: Kind, obj: Json) -> bytes:
        if kind.to_stored:
            obj = kind.to_stored(obj)
        else:
            obj = {**obj, "apiVersion": kind.api_version(kind.storage.name)}
        data = stored(obj)
        if len(data) > LARGEST:
            raise TooLarge(f"the object has {len(data)} bytes, of {LARGEST} at most")
        return data

    async def change(
        self,
        target: ObjectTarget,
        decide: Callable[[Json], WriteOutcome],
        *,
        dry: bool = False,
        context: Context | None = None,
    ) -> tuple[bytes, WriteOutcome]:
        """Read, decide, write; again when another write came between. The bytes are the object as it is then.

        With a context the decision is checked against the schema, which may be heavy; without, it is a small one.
        """
        kind, version = target.kind, target.version
        for attempt in range(_TRIES):
            entry = self.store.get(target.key)
            try:
                if entry is None:
                    raise status.not_found(kind.plural, kind.group, target.name)
                outcome, data = await self._decided(target, entry, decide, context)
            except RequestRefused:
                if await self._outdated(target.key, entry):
                    continue
                raise
            if data is None:
                if await self._outdated(target.key, entry):
                    continue
                return self.shown(kind, version, entry.data), outcome
            if dry:
                return self.shown(kind, version, rendered(data, entry.revision)), outcome
            try:
                revision = await self.store.write(target.key, entry.revision, None if outcome.removed else data)
            except Raced:
                await self.store.fresh()
                if attempt > 5:
                    await asyncio.sleep(0.002 * attempt)
                continue
            return self.shown(kind, version, rendered(data, revision)), outcome
        raise status.conflict(kind.plural, kind.group, target.name)

    async def _decided(
        self, target: ObjectTarget, entry: StoredObject, decide: Callable[[Json], WriteOutcome], context: Context | None
    ) -> tuple[WriteOutcome, bytes | None]:
        """The outcome, and the bytes to store; none where nothing changes."""
        kind, version = target.kind, target.version

        def work() -> tuple[WriteOutcome, bytes | None]:
            old = self._decoded(kind, version, entry.data)
            outcome = decide(old)
            same = not outcome.removed and core.unchanged(old, outcome.obj)
            return outcome, None if same else self._to_store(kind, outcome.obj)

        if context is None:
            return work()
        return await self._worked(kind, version, context, context.weight + len(entry.data), work)

    async def update(self, target: ObjectTarget, body: Json, context: Context, *, dry: bool) -> tuple[bytes, bool]:
        """PUT. The second value says whether the object was created by it."""
        named = _metadata(body)
        if isinstance(named, dict) and named.get("name") not in (None, "", target.name):
            raise bad_request(
                f"the name of the object ({named['name']}) does not match the name on the URL ({target.name})"
            )
        if isinstance(named, dict):
            named.setdefault("name", target.name)
        kind, version = target.kind, target.version
        create = kind.create_on_update and not target.subresource and self.store.get(target.key) is None
        if create and not await self._outdated(target.key, None):
            if isinstance(named, dict):
                named.pop("resourceVersion", None)
            return await self.create(kind, version, target.namespace, body, context, dry=dry), True
        raw = encode(body)

        def decide(old: Json) -> WriteOutcome:
            context.warnings.clear()
            outcome = core.replace(kind, version, old, decode(raw), target.namespace, target.subresource, context)
            return _with_owners(target, old, outcome, context)

        return (await self.change(target, decide, dry=dry, context=context))[0], False

    async def patch(
        self, target: ObjectTarget, patched: Callable[[Json], Any], context: Context, *, dry: bool
    ) -> bytes:
        kind, version = target.kind, target.version

        def decide(old: Json) -> WriteOutcome:
            body = patched(decode(encode(old)))
            named = _metadata(body)
            if isinstance(named, dict) and named.get("name") not in (None, target.name):
                raise bad_request(
                    f"the name of the object ({named['name']}) does not match the name on the URL ({target.name})"
                )
            if isinstance(named, dict):
                named["name"] = target.name
            context.warnings.clear()
            outcome = core.replace(
                kind, version, old, body, target.namespace, target.subresource, context, patched=True
            )
            return _with_owners(target, old, outcome, context)

        return (await self.change(target, decide, dry=dry, context=context))[0]

    async def apply(
        self, target: ObjectTarget, config: Any, context: Context, *, force: bool, dry: bool
    ) -> tuple[bytes, bool]:
        """Server-side apply. The second value says whether the object was created by it."""
        kind, version = target.kind, target.version
        if not isinstance(config, dict) or not isinstance(config.get("metadata") or {}, dict):
            raise bad_request("an applied configuration must be an object with metadata")
        config["metadata"] = {"name": target.name, **(config.get("metadata") or {})}
        if config["metadata"]["name"] != target.name:
            raise bad_request(
                f"the name of the object ({config['metadata']['name']}) does not match the name on the URL "
                f"({target.name})"
            )
        raw = encode(config)
        without = ("status",) if version.status and not target.subresource else ()
        if target.subresource == "status":
            without = tuple(name for name in config if name not in ("apiVersion", "kind", "metadata", "status"))
        application = Application(
            whole_schema(version.schema), kind.api_version(version.name), context.manager, target.subresource, without,
            context.now, force,
        )  # fmt: skip
        if self.store.get(target.key) is None and not target.subresource:
            try:
                return await self._apply_new(target, application, raw, context, dry), True
            except RequestRefused as refused:
                if refused.reason != "AlreadyExists":
                    raise

        def decide(old: Json) -> WriteOutcome:
            wanted = decode(raw)
            seen = wanted["metadata"].pop("resourceVersion", None)
            if seen and seen != old["metadata"]["resourceVersion"]:
                raise status.conflict(kind.plural, kind.group, target.name)
            body = applied(application, old, wanted)
            context.warnings.clear()
            return core.replace(kind, version, old, body, target.namespace, target.subresource, context, patched=True)

        return (await self.change(target, decide, dry=dry, context=context))[0], False

    async def _apply_new(
        self, target: ObjectTarget, application: Application, raw: bytes, context: Context, dry: bool
    ) -> bytes:
        await self._check_namespace(target.kind, target.namespace, decode(raw))
        kind, version = target.kind, target.version

        def made() -> Json:
            config = decode(raw)
            owners = owned_from_the_start(application, config)
            config["metadata"].pop("resourceVersion", None)
            config["metadata"].pop("managedFields", None)
            obj = core.create(kind, version, config, target.namespace, context)
            obj["metadata"]["managedFields"] = owners
            return obj

        obj = await self._worked(kind, version, context, len(raw), made)
        return await self.put_new(target.kind, target.version, target.namespace, obj, dry=dry)

    async def delete(
        self,
        target: ObjectTarget,
        context: Context,
        *,
        propagation: str = "",
        grace: int | None = None,
        preconditions: Json | None = None,
        dry: bool = False,
    ) -> tuple[bytes, WriteOutcome]:
        await self.store.fresh()
        return await self.change(
            target,
            lambda old: core.retire(
                target.kind, old, context, propagation=propagation, grace=grace, preconditions=preconditions
            ),
            dry=dry,
        )


def _number(revision: str) -> int:
    if not revision.isascii() or not revision.isdigit() or len(revision) > 19:
        raise bad_request(f'invalid resource version: "{revision[:64]}"')
    return int(revision)


def _metadata(body: Any) -> Any:
    """The metadata of a body, made where there is none: its name is then that of the request."""
    if not isinstance(body, dict):
        return None
    if body.get("metadata") is None:
        body["metadata"] = {}
    return body["metadata"]


def _with_owners(target: ObjectTarget, old: Json, outcome: WriteOutcome, context: Context) -> WriteOutcome:
    """Record the writer as the manager of the fields that it changed, where managedFields are kept at all."""
    if "managedFields" in old["metadata"]:
        owners = tracked(
            whole_schema(target.version.schema), outcome.obj["apiVersion"], old, outcome.obj, context.manager,
            target.subresource, context.now,
        )  # fmt: skip
        if owners is not None:
            outcome.obj["metadata"]["managedFields"] = owners
    return outcome


def _token(revision: int, key: str) -> str:
    """Where the next page starts; opaque to clients."""
    return base64.urlsafe_b64encode(encode({"v": "meta.k8s.io/v1", "rv": revision, "start": key})).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        value = decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        revision, start = value["rv"], value["start"]
        if type(revision) is not int or revision < 1 or type(start) is not str:
            raise ValueError(token)
        return revision, start
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise bad_request("continue key is not valid: illegal base64 data or an unknown form") from error
