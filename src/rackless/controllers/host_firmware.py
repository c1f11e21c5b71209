"""HostFirmwareSettings: made for every host whose BMC has BIOS settings, kept up to date with them, and validated.

Wanted settings are applied when the host is prepared (`provisioning/states`). This controller only reports whether they are
valid, and whether they are applied. Ironic reads settings when it registers and when it prepares a host, so they are read when a
host leaves these states, and not in between.
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
from rackless.ports.resources import Conflict, Key, Record
from rackless.provisioning.baremetalhost import KIND as HOST
from rackless.provisioning.baremetalhost import PAUSED, BadRecord, Host, Operational, State, read
from rackless.provisioning.credentials import Incomplete, host_access
from rackless.provisioning.firmware import (
    CHANGE_DETECTED,
    SETTINGS,
    VALID,
    Found,
    condition,
    schema_record,
    settings_record,
    settings_status,
)

LOOKED_AT = (State.INSPECTING, State.PREPARING, State.AVAILABLE, State.PROVISIONED, State.EXTERNALLY_PROVISIONED)
"""Provisioning states in which Ironic knows a host's settings."""
UNREADABLE_PAUSE = 60.0


@dataclass
class FirmwareController:
    cache: Cache
    hosts: Cache
    secrets: Cache
    provisioner: Provisioner
    bmc_ca: Path | None = None
    now: Callable[[], str] = wall_clock
    name: str = "host-firmware-settings"
    wakes: Sequence[Wake] = field(init=False)
    _without: set[str] = field(default_factory=set)
    """UIDs of hosts whose BMC has no settings."""
    _schemas: set[tuple[str, str]] = field(default_factory=set)
    """Namespaces and names of the FirmwareSchemas that are there: a thousand hosts of one model share one."""

    def __post_init__(self) -> None:
        # an API without this kind has hosts all the same
        self.wakes = (replace(own(self.cache, _asks_other), needed=False), Wake(self.hosts, _came_out))
        self._reader = CachedReader(self.cache.resources, self.secrets)

    async def reconcile(self, key: Key, record: Record | None) -> Result:
        host = self._host(key)
        if host is None or (record is None and host.uid in self._without):
            return Result()
        found = await self._found(host)
        if isinstance(found, Result):
            return found
        if record is None:
            await self._make(host, key, found)
            return Result()
        schema = schema_record(found, host, key.namespace)
        status = settings_status(record, found, schema, self.now())
        if status is record.get("status"):
            return Result()
        await self._keep_schema(found, schema)
        return Result(status=status, events=_events(record, {**record, "status": status}))

    def _host(self, key: Key) -> Host | None:
        """The host, when it is in a state in which Ironic knows its settings."""
        record = self.hosts.get(Key(HOST, key.namespace, key.name))
        try:
            host = read(record) if record is not None else None
        except BadRecord:
            return None
        if host is None or host.deleting or host.status.state not in LOOKED_AT or PAUSED in host.annotations:
            return None
        return None if host.status.operational is Operational.DETACHED else host

    async def _found(self, host: Host) -> Found | Result:
        try:
            access, _ = await host_access(self._reader, host, self.bmc_ca)
        except Incomplete:
            return Result()  # the host's own status says so
        result = await self.provisioner.firmware(access)
        if isinstance(result, Again):
            return Result(max(result.after, 1.0))
        if isinstance(result, Failed):
            return Result(UNREADABLE_PAUSE, events=(Happened("SettingsUnreadable", result.message, "Warning"),))
        return result.detail

    async def _make(self, host: Host, key: Key, found: Found) -> None:
        if not found:
            self._without.add(host.uid)
            return
        try:
            made = await self.cache.resources.create(settings_record(host, key.namespace))
        except Conflict:
            return  # somebody else was faster: the watch tells of it
        schema = schema_record(found, host, key.namespace)
        await self._keep_schema(found, schema)
        status = settings_status(made, found, schema, self.now())
        version = made["metadata"]["resourceVersion"]
        written = await self.cache.resources.patch_status(
            SETTINGS, key.name, status, namespace=key.namespace, resource_version=version
        )
        self.cache.put(written)

    async def _keep_schema(self, found: Found, schema: Record) -> None:
        place = schema["metadata"]["namespace"], schema["metadata"]["name"]
        if not found or place in self._schemas:
            return
        self._schemas.add(place)  # first: hosts that come at the same time need not write it, too
        try:
            await self.cache.resources.create(schema)
        except Conflict:
            pass  # another host of the same model has it
        except BaseException:
            self._schemas.discard(place)
            raise

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        return None

    def stopped(self, key: Key) -> None: ...


def _events(before: Record, after: Record) -> tuple[Happened, ...]:
    valid, was = condition(after, VALID), condition(before, VALID)
    if valid["status"] == "False" and valid["message"] != was.get("message"):
        return (Happened("ValidationFailed", valid["message"], "Warning"),)
    changed, had = condition(after, CHANGE_DETECTED), condition(before, CHANGE_DETECTED)
    if changed["status"] == "True" and changed["message"] != had.get("message"):
        return (Happened("ChangeDetected", f"to be set when the host is prepared: {changed['message']}"),)
    if changed["status"] == "False" and had.get("status") == "True" and (after["spec"].get("settings") or {}):
        return (Happened("SettingsApplied", had.get("message") or "all that is wanted is so"),)
    return ()


def _asks_other(before: Record, after: Record) -> bool:
    return bool(before["metadata"].get("generation") != after["metadata"].get("generation"))


def _came_out(before: Record | None, after: Record | None) -> Iterable[Key]:
    """Wake for hosts that left a state in which Ironic reads settings."""
    state = _state(after)
    if after is None or state not in LOOKED_AT or (before is not None and _state(before) == state):
        return
    metadata = after["metadata"]
    yield Key(SETTINGS, metadata.get("namespace") or "", metadata["name"])


def _state(record: Record | None) -> str:
    return str((((record or {}).get("status") or {}).get("provisioning") or {}).get("state") or "")
