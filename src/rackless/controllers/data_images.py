"""DataImages: an ISO in the virtual CD drive of the provisioned host of the same name.

The host controller leaves a host off until its image is in its drive, or could not be put there (`provisioning/data_image`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rackless.controllers.runtime.cache import Cache, CachedReader
from rackless.controllers.runtime.controller import Happened, Result, Wake, own
from rackless.controllers.runtime.recorder import wall_clock
from rackless.ports.provisioner import Again, Failed, Provisioner
from rackless.ports.resources import Key, Record
from rackless.provisioning.baremetalhost import KIND as HOST
from rackless.provisioning.baremetalhost import PAUSED, BadRecord, Host, Operational, read
from rackless.provisioning.credentials import Incomplete, host_access
from rackless.provisioning.data_image import FINALIZER, KIND, PLACES, attached, failures, wanted

AGAIN = 60.0
"""Seconds after which an image that could not be fetched is tried once more, while the host is off."""


@dataclass
class DataImageController:
    cache: Cache
    hosts: Cache
    secrets: Cache
    provisioner: Provisioner
    bmc_ca: Path | None = None
    now: Callable[[], str] = wall_clock
    name: str = "data-image"
    wakes: Sequence[Wake] = field(init=False)
    _again: set[Key] = field(default_factory=set)
    """Images that could not be fetched and are tried once more."""

    def __post_init__(self) -> None:
        # an API without this kind has hosts all the same
        self.wakes = (replace(own(self.cache, _asks_other), needed=False), Wake(self.hosts, _of_host))
        self._reader = CachedReader(self.cache.resources, self.secrets)

    async def reconcile(self, key: Key, record: Record | None) -> Result:
        if record is None:
            return Result()
        deleting = bool(record["metadata"].get("deletionTimestamp"))
        kept = [name for name in record["metadata"].get("finalizers") or () if name != FINALIZER]
        if not deleting and len(kept) == len(record["metadata"].get("finalizers") or ()):
            return Result(0.0, change={"metadata": {"finalizers": [*kept, FINALIZER]}})
        host = self._host(key)
        if host is not None and PAUSED in host.annotations:
            return Result()
        if host is not None and host.status.operational is Operational.DETACHED:
            return Result(change={"metadata": {"finalizers": kept}}) if deleting else Result()
        placed = host is not None and host.status.state in PLACES
        if attached(record) is not None and not placed:
            # whoever took its system off has emptied its drive
            return Result(0.0, status=self._status(None))
        if wanted(record) == attached(record):
            return Result(change={"metadata": {"finalizers": kept}}) if deleting else Result()
        if host is None or not placed or host.status.powered_on:
            return Result()
        return await self._exchange(key, host, record)

    async def _exchange(self, key: Key, host: Host, record: Record) -> Result:
        """Eject and insert: the host is off, and its drive does not have the wanted image."""
        try:
            access, _ = await host_access(self._reader, host, self.bmc_ca)
        except Incomplete:
            return Result()  # the host's own status says so
        url, before = wanted(record), failures(record)
        result = await self.provisioner.media(access, url, restart=before > 0 and key not in self._again)
        if isinstance(result, Again):
            if not result.busy:
                self._again.add(key)
            return Result(max(result.after, 0.5))
        self._again.discard(key)
        if isinstance(result, Failed):
            status = self._status(attached(record)) | {"error": {"count": before + 1, "message": result.message}}
            what = "attached" if url else "detached"
            told = Happened(
                "DataImageFailed", f"{url or attached(record)} could not be {what}: {result.message}", "Warning"
            )
            return Result(AGAIN, status=status, events=(told,))
        told = Happened("Attached", str(url)) if url else Happened("Detached", str(attached(record)))
        return Result(0.0, status=self._status(url), events=(told,))

    def _status(self, url: str | None) -> dict[str, Any]:
        return {"lastReconciled": self.now(), **({"attachedImage": {"url": url}} if url else {})}

    def _host(self, key: Key) -> Host | None:
        record = self.hosts.get(Key(HOST, key.namespace, key.name))
        try:
            return read(record) if record is not None else None
        except BadRecord:
            return None

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        return None

    def stopped(self, key: Key) -> None: ...


def _asks_other(before: Record, after: Record) -> bool:
    old, new = before["metadata"], after["metadata"]
    return bool(
        old.get("generation") != new.get("generation") or old.get("deletionTimestamp") != new.get("deletionTimestamp")
    )


def _of_host(before: Record | None, after: Record | None) -> Iterable[Key]:
    """Wake the DataImages of hosts whose state or power changed."""
    if _concerns(before) != _concerns(after):
        metadata = (after or before or {})["metadata"]
        yield Key(KIND, metadata.get("namespace") or "", metadata["name"])


def _concerns(record: Record | None) -> tuple[Any, ...]:
    status = (record or {}).get("status") or {}
    annotations = ((record or {}).get("metadata") or {}).get("annotations") or {}
    state = (status.get("provisioning") or {}).get("state")
    return state, status.get("poweredOn"), status.get("operationalStatus") == "detached", PAUSED in annotations
