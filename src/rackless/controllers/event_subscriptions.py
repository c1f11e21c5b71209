"""BMCEventSubscriptions: a host's BMC sends its events to an address.

A subscription is created at the BMC once, and its status has the id that the BMC gave it; the API refuses later changes. It is
deleted at the BMC when its object is deleted. When its host is gone, the BMC cannot be asked, and the object is deleted all the
same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rackless.controllers.runtime.cache import Cache, CachedReader
from rackless.controllers.runtime.controller import Happened, Result, Wake, own
from rackless.ports.provisioner import Again, EventReceiver, Failed, Provisioner
from rackless.ports.resources import Key, Record
from rackless.provisioning.baremetalhost import KIND as HOST
from rackless.provisioning.baremetalhost import PAUSED, BadRecord, Host, Operational, read, secret_text
from rackless.provisioning.credentials import Incomplete, host_access
from rackless.provisioning.states import UNREGISTERED

KIND = "BMCEventSubscription"
FINALIZER = "bmceventsubscription.metal3.io"
BY_HOST, BY_SECRET = "host", "secret"
"""Names of the cache's indexes: subscriptions by host, and by Secret."""
AGAIN = 60.0


@dataclass
class SubscriptionController:
    cache: Cache
    hosts: Cache
    secrets: Cache
    provisioner: Provisioner
    bmc_ca: Path | None = None
    name: str = "bmc-event-subscription"
    wakes: Sequence[Wake] = field(init=False)

    def __post_init__(self) -> None:
        # an API without this kind has hosts all the same
        self.cache.index(BY_HOST, _host_named)
        self.cache.index(BY_SECRET, _secret_named)
        self.wakes = (
            replace(own(self.cache, _is_to_go), needed=False),
            Wake(self.hosts, self._of_host),
            Wake(self.secrets, self._of_secret),
        )
        self._reader = CachedReader(self.cache.resources, self.secrets)

    def _of_host(self, before: Record | None, after: Record | None) -> Iterable[Key]:
        return (
            self.cache.having(BY_HOST, _name(after or before or {})) if _reachable(before) != _reachable(after) else ()
        )

    def _of_secret(self, before: Record | None, after: Record | None) -> Iterable[Key]:
        return self.cache.having(BY_SECRET, _name(after or before or {}))

    async def reconcile(self, key: Key, record: Record | None) -> Result:
        if record is None:
            return Result()
        finalizers, status = record["metadata"].get("finalizers") or [], record.get("status") or {}
        if record["metadata"].get("deletionTimestamp"):
            return await self._end(key, record, [name for name in finalizers if name != FINALIZER])
        if FINALIZER not in finalizers:
            return Result(0.0, change={"metadata": {"finalizers": [*finalizers, FINALIZER]}})
        if status.get("subscriptionID"):
            return Result()
        name = (record.get("spec") or {}).get("hostName") or ""
        host = self._host(key, record)
        if host is None:
            return _failed(record, f"there is no host {name}", None)
        if not _asked(host):
            return Result()  # it is looked at again when the host is registered
        try:
            receiver = await self._receiver(record)
            access, _ = await host_access(self._reader, host, self.bmc_ca)
        except (ValueError, Incomplete) as error:
            return _failed(record, str(error), None)
        result = await self.provisioner.subscribe(access, receiver)
        if isinstance(result, Again):
            return Result(max(result.after, 1.0))
        if isinstance(result, Failed):
            return _failed(record, result.message, AGAIN)
        told = Happened("Subscribed", f"{name}'s BMC sends its events to {receiver.destination}")
        return Result(status={"subscriptionID": result.detail["id"]}, events=(told,))

    async def _end(self, key: Key, record: Record, kept: list[str]) -> Result:
        gone = Result(change={"metadata": {"finalizers": kept}})
        id, host = (record.get("status") or {}).get("subscriptionID"), self._host(key, record)
        if not id or host is None or host.deleting or host.status.operational is Operational.DETACHED:
            return gone
        if not _asked(host):
            return Result()
        try:
            access, _ = await host_access(self._reader, host, self.bmc_ca)
        except Incomplete as error:
            return _failed(record, str(error), None)
        result = await self.provisioner.unsubscribe(access, str(id))
        if isinstance(result, Again):
            return Result(max(result.after, 1.0))
        return _failed(record, result.message, AGAIN) if isinstance(result, Failed) else gone

    async def _receiver(self, record: Record) -> EventReceiver:
        """Raises ValueError."""
        spec = record.get("spec") or {}
        name = (spec.get("httpHeadersRef") or {}).get("name") or ""
        headers: dict[str, str] = {}
        if name:
            secret = await self._reader.get("Secret", name)
            if secret is None:
                raise ValueError(f"secret {name} with the headers is not there")
            headers = {header: (secret_text(secret, header) or "").strip() for header in secret.get("data") or {}}
        return EventReceiver(spec.get("destination") or "", spec.get("context") or "", headers)

    def _host(self, key: Key, record: Record) -> Host | None:
        name = (record.get("spec") or {}).get("hostName") or ""
        found = self.hosts.get(Key(HOST, key.namespace, name))
        try:
            return read(found) if found is not None else None
        except BadRecord:
            return None

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        return None

    def stopped(self, key: Key) -> None: ...


def _asked(host: Host) -> bool:
    return (
        host.status.state not in UNREGISTERED
        and PAUSED not in host.annotations
        and host.status.operational is not Operational.DETACHED
    )


def _failed(record: Record, why: str, after: float | None) -> Result:
    status = record.get("status") or {}
    if status.get("error") == why:
        return Result(after)
    return Result(after, status={**status, "error": why}, events=(Happened("SubscriptionFailed", why, "Warning"),))


def _host_named(record: Record) -> Iterable[str]:
    name = (record.get("spec") or {}).get("hostName")
    return (f"{record['metadata'].get('namespace') or ''}/{name}",) if name else ()


def _secret_named(record: Record) -> Iterable[str]:
    name = ((record.get("spec") or {}).get("httpHeadersRef") or {}).get("name")
    return (f"{record['metadata'].get('namespace') or ''}/{name}",) if name else ()


def _name(record: Record) -> str:
    return f"{record['metadata'].get('namespace') or ''}/{record['metadata']['name']}"


def _reachable(record: Record | None) -> tuple[Any, ...]:
    if record is None:
        return ()
    try:
        host = read(record)
    except BadRecord:
        return ()
    return host.uid, _asked(host), host.deleting


def _is_to_go(before: Record, after: Record) -> bool:
    return bool(
        before["metadata"].get("deletionTimestamp") != after["metadata"].get("deletionTimestamp")
        or before["metadata"].get("generation") != after["metadata"].get("generation")
    )
