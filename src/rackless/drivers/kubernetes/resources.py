"""`ports.resources.Resources` in a Kubernetes API: the records of one namespace.

A record is applied by reading it and replacing what was read; whoever was quicker makes us read again. A watch lists,
then follows; it goes on where it was after a lost connection, and lists again when the server no longer remembers that
far back, telling the difference. Any server of these kinds will do.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.client import FIRST_PAUSE, LONGEST_PAUSE, Access, Client, HttpRefused, is_trouble
from rackless.errors import InputError
from rackless.ports.clock import Clock
from rackless.ports.resources import Conflict, Record, RecordEvent

NAMESPACE = "metal3"
WATCH_FOR = 240.0
"""Seconds after which the server ends a watch by itself; we go on with the next."""
SILENCE = WATCH_FOR + 30
_OURS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion")
"""Metadata that only the server writes."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Where records of a kind are served."""

    api_version: str
    plural: str

    def path(self, namespace: str) -> str:
        root = "/apis" if "/" in self.api_version else "/api"
        return f"{root}/{self.api_version}/namespaces/{namespace}/{self.plural}"


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "BareMetalHost": Kind("metal3.io/v1alpha1", "baremetalhosts"),
        "HardwareData": Kind("metal3.io/v1alpha1", "hardwaredata"),
        "ConfigMap": Kind("v1", "configmaps"),
        "Secret": Kind("v1", "secrets"),
    }
)


class _Forgotten(Exception):
    """The server no longer has the changes after the version we were at."""


class KubernetesResources:
    def __init__(
        self,
        access: Access,
        *,
        namespace: str = NAMESPACE,
        patience: float = math.inf,
        clock: Clock | None = None,
        kinds: Mapping[str, Kind] = KINDS,
    ) -> None:
        """`patience` is for how many seconds a request is tried again while the API does not answer."""
        self._clock = clock or SystemClock()
        self._client = Client(access, self._clock, patience)
        self._namespace = namespace
        self._kinds = kinds

    async def close(self) -> None:
        await self._client.close()

    async def get(self, kind: str, name: str) -> Record | None:
        try:
            return await self._client.call("GET", self._path(kind, name))
        except HttpRefused as refusal:
            if refusal.code == 404:
                return None
            raise

    async def list(self, kind: str) -> list[Record]:
        records, _ = await self._list(kind)
        return [records[name] for name in sorted(records)]

    async def apply(self, record: Record) -> Record:
        kind, name = record["kind"], record["metadata"]["name"]
        seen = record["metadata"].get("resourceVersion")
        while True:
            stored = await self.get(kind, name)
            if stored is None and seen is not None:
                raise Conflict(f"{kind}/{name} is no longer there")
            if stored is not None and seen not in (None, stored["metadata"]["resourceVersion"]):
                raise Conflict(f"{kind}/{name} is at version {stored['metadata']['resourceVersion']}, not {seen}")
            try:
                return await (self._create(record) if stored is None else self._replace(stored, record))
            except HttpRefused as refusal:
                # 409: somebody was quicker, or our own first try arrived after all; 404: it went away meanwhile
                if refusal.code not in (404, 409):
                    raise
                if seen is not None:
                    raise Conflict(refusal.why) from refusal

    async def patch_status(
        self, kind: str, name: str, status: Mapping[str, Any], *, resource_version: str | None = None
    ) -> Record:
        while True:
            version = resource_version
            if version is None:
                stored = await self.get(kind, name)
                if stored is None:
                    raise Conflict(f"{kind}/{name} is no longer there")
                version = stored["metadata"]["resourceVersion"]
            body = {
                "apiVersion": self._kind(kind).api_version,
                "kind": kind,
                "metadata": {"name": name, "namespace": self._namespace, "resourceVersion": version},
                "status": dict(status),
            }
            try:
                return await self._client.call("PUT", f"{self._path(kind, name)}/status", body)
            except HttpRefused as refusal:
                if refusal.code not in (404, 409):
                    raise
                if resource_version is not None:
                    raise Conflict(refusal.why) from refusal

    async def delete(self, kind: str, name: str) -> None:
        try:
            await self._client.call("DELETE", self._path(kind, name), {"propagationPolicy": "Background"})
        except HttpRefused as refusal:
            if refusal.code != 404:
                raise

    async def watch(self, kind: str) -> AsyncGenerator[RecordEvent, None]:
        known: dict[str, Record] = {}
        version, pause = "", FIRST_PAUSE
        while True:
            if not version:
                fresh, version = await self._list(kind)
                for event in _differences(known, fresh):
                    yield event
                known = fresh
            try:
                async with aclosing(self._follow(kind, version)) as changes:
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
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def ensure_namespace(self) -> None:
        """Records are made in it; it is made with the first, or here."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
        try:
            await self._client.call("POST", "/api/v1/namespaces", body)
        except HttpRefused as refusal:
            if refusal.code != 409:
                raise

    async def _follow(self, kind: str, version: str) -> AsyncGenerator[tuple[str, Record]]:
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(WATCH_FOR)),
        }
        try:
            async with self._client.stream(self._path(kind), query, SILENCE) as lines:
                async for line in lines:
                    change, record = line["type"], line["object"]
                    if change == "ERROR":
                        raise HttpRefused(
                            record.get("code", 500), f"the watch of {kind} ended", record.get("message", "")
                        )
                    yield change, record
        except HttpRefused as refusal:
            if refusal.code == 410:
                raise _Forgotten from refusal
            raise

    async def _list(self, kind: str) -> tuple[dict[str, Record], str]:
        """Everything of a kind by name, and the version of the whole."""
        answer = await self._client.call("GET", self._path(kind))
        own = {"apiVersion": self._kind(kind).api_version, "kind": kind}  # which lists leave out
        records = {item["metadata"]["name"]: {**own, **item} for item in answer["items"]}
        return records, answer["metadata"]["resourceVersion"]

    async def _create(self, record: Record) -> Record:
        kind = record["kind"]
        metadata = {name: value for name, value in record["metadata"].items() if name not in _OURS}
        body = {**_wanted(record), "apiVersion": self._kind(kind).api_version, "metadata": metadata}
        try:
            return await self._client.call("POST", self._path(kind), body)
        except HttpRefused as refusal:
            if refusal.code != 404:
                raise
            await self.ensure_namespace()
        return await self._client.call("POST", self._path(kind), body)

    async def _replace(self, stored: Record, record: Record) -> Record:
        """What `record` says, and of the metadata what it does not mention as it is stored."""
        given = {name: value for name, value in record["metadata"].items() if name not in _OURS}
        metadata = {**stored["metadata"], **given}
        body = {**_wanted(record), "apiVersion": stored["apiVersion"], "metadata": metadata}
        return await self._client.call("PUT", self._path(record["kind"], metadata["name"]), body)

    def _kind(self, kind: str) -> Kind:
        if kind not in self._kinds:
            raise InputError(f"records of the kind {kind} are not kept in the Kubernetes API")
        return self._kinds[kind]

    def _path(self, kind: str, name: str | None = None) -> str:
        place = self._kind(kind).path(self._namespace)
        if name is None:
            return place
        if not name or name in (".", "..") or not set(name) <= _IN_NAMES or len(name) > 253:
            raise InputError(
                f"{kind}/{name} cannot be the name of a record",
                hint="a name is lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit",
            )
        return f"{place}/{name}"


_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")


def _wanted(record: Record) -> Record:
    return {name: value for name, value in record.items() if name not in ("metadata", "status")}


def _noticed(known: dict[str, Record], change: str, record: Record) -> RecordEvent | None:
    """A change that was not heard of yet; bookmarks are none."""
    if change == "BOOKMARK":
        return None
    name = record["metadata"]["name"]
    if change == "DELETED":
        known.pop(name, None)
        return RecordEvent("DELETED", record)
    known[name] = record
    return RecordEvent("ADDED" if change == "ADDED" else "MODIFIED", record)


def _differences(known: Mapping[str, Record], fresh: Mapping[str, Record]) -> Iterator[RecordEvent]:
    """What must have happened while nobody listened; a record made anew under an old name is another one."""
    for name, record in known.items():
        if name not in fresh or fresh[name]["metadata"]["uid"] != record["metadata"]["uid"]:
            yield RecordEvent("DELETED", record)
    for name, record in fresh.items():
        before = known.get(name)
        if before is None or before["metadata"]["uid"] != record["metadata"]["uid"]:
            yield RecordEvent("ADDED", record)
        elif before["metadata"]["resourceVersion"] != record["metadata"]["resourceVersion"]:
            yield RecordEvent("MODIFIED", record)
