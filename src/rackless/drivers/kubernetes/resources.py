"""`ports.resources.Resources` in a Kubernetes API, by plain requests. Any server of these kinds will do.

`apply` reads the object and replaces it; on a conflict it reads again. A patch is one
request. Watches are in `watching`.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.client import Client, HttpRefused
from rackless.drivers.kubernetes.watching import follow, selector
from rackless.errors import InputError
from rackless.ports.api import NAMESPACE, Access
from rackless.ports.clock import Clock
from rackless.ports.resources import ALL, KINDS, Conflict, Key, Kind, Record, RecordEvent

MERGE = "application/merge-patch+json"
_OURS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion")
"""Metadata that only the server writes."""
_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-:")
"""Letters of names; the colon is in those of RBAC and of certificate requests."""


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
        self.namespace = namespace
        self._kinds = kinds

    async def close(self) -> None:
        await self._client.close()

    async def get(self, kind: str, name: str, *, namespace: str | None = None) -> Record | None:
        try:
            return await self._client.call("GET", self._path(kind, namespace, name))
        except HttpRefused as refusal:
            if refusal.code == 404:
                return None
            raise

    async def list(
        self, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[Record]:
        records, _ = await self._list(kind, namespace, selector(labels))
        return [records[key] for key in sorted(records)]

    async def create(self, record: Record) -> Record:
        try:
            return await self._create(record)
        except HttpRefused as refusal:
            if refusal.code != 409:
                raise
            raise Conflict(refusal.why) from refusal

    async def apply(self, record: Record) -> Record:
        kind, name, namespace = record["kind"], record["metadata"]["name"], _namespace(record)
        seen = record["metadata"].get("resourceVersion")
        while True:
            stored = await self.get(kind, name, namespace=namespace)
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

    async def patch(
        self,
        kind: str,
        name: str,
        change: Mapping[str, Any],
        *,
        namespace: str | None = None,
        status: bool = False,
        approval: bool = False,
        resource_version: str | None = None,
    ) -> Record:
        body = dict(change)
        if resource_version is not None:
            body["metadata"] = {**body.get("metadata", {}), "resourceVersion": resource_version}
        path = self._path(kind, namespace, name) + ("/status" if status else "/approval" if approval else "")
        try:
            return await self._client.call("PATCH", path, body, media=MERGE)
        except HttpRefused as refusal:
            if refusal.code not in (404, 409):
                raise
            raise Conflict(refusal.why) from refusal

    async def patch_status(
        self,
        kind: str,
        name: str,
        status: Mapping[str, Any],
        *,
        namespace: str | None = None,
        resource_version: str | None = None,
    ) -> Record:
        path = self._path(kind, namespace, name)
        while True:
            version = resource_version
            if version is None:
                stored = await self.get(kind, name, namespace=namespace)
                if stored is None:
                    raise Conflict(f"{kind}/{name} is no longer there")
                version = stored["metadata"]["resourceVersion"]
            body = {
                "apiVersion": self._kind(kind).api_version,
                "kind": kind,
                "metadata": {"name": name, **self._place(kind, namespace), "resourceVersion": version},
                "status": dict(status),
            }
            try:
                return await self._client.call("PUT", f"{path}/status", body)
            except HttpRefused as refusal:
                if refusal.code not in (404, 409):
                    raise
                if resource_version is not None:
                    raise Conflict(refusal.why) from refusal

    async def delete(self, kind: str, name: str, *, namespace: str | None = None, uid: str | None = None) -> None:
        options: Record = {"propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._client.call("DELETE", self._path(kind, namespace, name), options)
        except HttpRefused as refusal:
            if refusal.code != 404 and not (uid is not None and refusal.code == 409):
                raise

    def watch(
        self,
        kind: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        bookmarks: bool = False,
    ) -> AsyncGenerator[RecordEvent, None]:
        query = selector(labels)

        async def fresh() -> tuple[dict[Key, Record], str]:
            return await self._list(kind, namespace, query)

        return follow(self._client, self._clock, self._path(kind, namespace), query, fresh, bookmarks=bookmarks)

    async def ensure_namespace(self) -> None:
        """Records are made in it; it is made with the first, or here."""
        await self._ensure_namespace(self.namespace)

    async def _ensure_namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await self._client.call("POST", "/api/v1/namespaces", body)
        except HttpRefused as refusal:
            if refusal.code != 409:
                raise

    async def _list(self, kind: str, namespace: str | None, query: Mapping[str, str]) -> tuple[dict[Key, Record], str]:
        """All objects of a kind, and the list's resourceVersion."""
        answer = await self._client.call("GET", self._path(kind, namespace), query=query)
        own = {"apiVersion": self._kind(kind).api_version, "kind": kind}  # which lists leave out
        records = {
            Key(kind, item["metadata"].get("namespace") or "", item["metadata"]["name"]): {**own, **item}
            for item in answer["items"]
        }
        return records, answer["metadata"]["resourceVersion"]

    async def _create(self, record: Record) -> Record:
        kind, namespace = record["kind"], _namespace(record)
        self._path(kind, namespace, record["metadata"]["name"])  # refuses names that lead elsewhere
        metadata = {name: value for name, value in record["metadata"].items() if name not in _OURS}
        body = {**_wanted(record), "apiVersion": self._kind(kind).api_version, "metadata": metadata}
        try:
            return await self._client.call("POST", self._path(kind, namespace), body)
        except HttpRefused as refusal:
            if refusal.code != 404 or not self._kind(kind).namespaced:
                raise
            await self._ensure_namespace(namespace or self.namespace)
        return await self._client.call("POST", self._path(kind, namespace), body)

    async def _replace(self, stored: Record, record: Record) -> Record:
        """Replace the stored object by `record`; metadata that `record` does not mention is kept."""
        given = {name: value for name, value in record["metadata"].items() if name not in _OURS}
        metadata = {**stored["metadata"], **given}
        body = {**_wanted(record), "apiVersion": stored["apiVersion"], "metadata": metadata}
        path = self._path(record["kind"], metadata.get("namespace"), metadata["name"])
        return await self._client.call("PUT", path, body)

    def _kind(self, kind: str) -> Kind:
        if kind not in self._kinds:
            raise InputError(f"records of the kind {kind} are not kept in the Kubernetes API")
        return self._kinds[kind]

    def _place(self, kind: str, namespace: str | None) -> dict[str, str]:
        return {"namespace": namespace or self.namespace} if self._kind(kind).namespaced else {}

    def _path(self, kind: str, namespace: str | None, name: str | None = None) -> str:
        found = self._kind(kind)
        place = f"{'/apis' if '/' in found.api_version else '/api'}/{found.api_version}"
        if found.namespaced and namespace != ALL:
            place += f"/namespaces/{_checked(kind, namespace or self.namespace)}"
        place += f"/{found.plural}"
        return place if name is None else f"{place}/{_checked(kind, name)}"


def _checked(kind: str, name: str) -> str:
    if not name or name in (".", "..") or not set(name) <= _IN_NAMES or len(name) > 253:
        raise InputError(
            f"{kind}/{name} cannot be the name of a record",
            hint="a name is lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit",
        )
    return name


def _namespace(record: Record) -> str | None:
    return record["metadata"].get("namespace") or None


def _wanted(record: Record) -> Record:
    return {name: value for name, value in record.items() if name not in ("metadata", "status")}
