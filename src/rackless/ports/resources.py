"""Kubernetes-shaped records: a local store first, an API server later; the same objects in both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rackless.errors import LabError

Record = dict[str, Any]
"""`{apiVersion, kind, metadata: {name, uid, resourceVersion, generation, …}, spec, status}`."""


@dataclass(frozen=True, slots=True)
class RecordEvent:
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    record: Record


class Conflict(Exception):
    """Somebody else wrote in between: read again and decide again."""


class Refused(LabError):
    """Whoever keeps the records does not take this one; `why` are its words."""


class Resources(Protocol):
    async def get(self, kind: str, name: str) -> Record | None: ...

    async def list(self, kind: str) -> list[Record]: ...

    async def apply(self, record: Record) -> Record:
        """Create, or replace metadata and spec; status is kept. Returns what is stored now.

        Conflict when `record` names a resourceVersion and that is no longer the stored one.
        """
        ...

    async def patch_status(
        self, kind: str, name: str, status: Mapping[str, Any], *, resource_version: str | None = None
    ) -> Record:
        """Replace the status; Conflict when `resource_version` is given and no longer the stored one."""
        ...

    async def delete(self, kind: str, name: str) -> None:
        """Mark for deletion when it has finalizers, else remove; silent when it is not there."""
        ...

    def watch(self, kind: str) -> AsyncIterator[RecordEvent]:
        """What is there now as ADDED, then every change."""
        ...
