"""Hosts are brought to what their records want, each by a loop of its own, until we are stopped.

Everything needed to go on stands in the records and in the engine: a controller that starts anew takes up where the
last one ended. A loop sleeps until its step wants another look or its record, or a Secret, changes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rackless.events import Bus
from rackless.ports.clock import Clock
from rackless.ports.provisioner import Again, ErrorKind, Failed, HostAccess, Provisioner
from rackless.ports.resources import Conflict, Record, RecordEvent, Refused, Resources
from rackless.provisioning.baremetalhost import (
    FINALIZER,
    HARDWARE_DATA,
    KIND,
    PAUSED,
    RETRY,
    BadRecord,
    Host,
    Operational,
    State,
    hardware_data,
    read,
    status_record,
)
from rackless.provisioning.credentials import Incomplete, host_access
from rackless.provisioning.machine import (
    DEADLINES,
    OTHERWISE,
    STEPS,
    UNREGISTERED,
    WHEN_DELETED,
    Gone,
    Move,
    Outcome,
    Stay,
    Turn,
    escape,
)
from rackless.provisioning.progress import Progress
from rackless.provisioning.reconcile import BackOff, settle

REFUSED_PAUSE = 60.0


def _wall_clock() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class _Watched:
    """One host being looked after: its task, how to wake it, and what it looked like when it was last woken."""

    task: asyncio.Task[None]
    wake: asyncio.Event
    seen: Any


@dataclass
class _Known:
    """What a loop remembers between two looks, none of it needed after a restart."""

    access: tuple[HostAccess, str] | None = None
    """With this access the engine has confirmed the host."""
    waiting: tuple[State, ErrorKind, float] | None = None
    """What is waited for, and since when."""


@dataclass
class HostController:
    resources: Resources
    provisioner: Provisioner
    clock: Clock
    bus: Bus
    bmc_ca: Path | None = None
    """Whom to trust at the BMCs' end."""
    evidence: Callable[[str], str] = lambda _: ""
    """What can be seen of a host from outside the engine, for the message of a failure."""
    lost: Callable[[str], str] = lambda _: ""
    """Why a host that should call will not; empty while it may. Asked so that nobody waits out the engine's patience."""
    back_off: BackOff = field(default_factory=BackOff)
    now: Callable[[], str] = _wall_clock
    chance: Callable[[], float] = random.random
    _hosts: dict[str, _Watched] = field(default_factory=dict)

    async def run(self) -> None:
        """Look after all hosts, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch_secrets())
                async for event in self.resources.watch(KIND):
                    self._notice(event, group)
        finally:
            self._hosts.clear()

    def _notice(self, event: RecordEvent, group: asyncio.TaskGroup) -> None:
        name = event.record["metadata"]["name"]
        wanted = _wanted(event.record)
        watched = self._hosts.get(name)
        if event.type == "DELETED":
            if watched:
                watched.wake.set()
        elif watched is None or watched.task.done():
            wake = asyncio.Event()
            self._hosts[name] = _Watched(group.create_task(self._look_after(name, wake)), wake, wanted)
        elif watched.seen != wanted:  # not merely a status, which is our own writing
            watched.seen = wanted
            watched.wake.set()

    async def _watch_secrets(self) -> None:
        async for _ in self.resources.watch("Secret"):
            for watched in self._hosts.values():
                watched.wake.set()

    async def _look_after(self, name: str, wake: asyncio.Event) -> None:
        progress, known = Progress(self.bus, name), _Known()
        try:
            while True:
                wake.clear()
                try:
                    record = await self.resources.get(KIND, name)
                    if record is None:
                        return
                    after = await self._reconcile(record, known, progress)
                except Conflict:
                    continue
                except BadRecord as error:
                    self.bus.warn(f"{name}: its record cannot be read and is left alone: {error}")
                    after = None
                except Refused as refusal:  # one host's trouble is not the others'
                    self.bus.warn(f"{name}: its record could not be written and is tried again: {refusal}")
                    after = REFUSED_PAUSE
                await self._sleep(after, wake)
        except asyncio.CancelledError:
            progress.abandon()
            raise
        finally:
            progress.close()

    async def _sleep(self, after: float | None, wake: asyncio.Event) -> None:
        if after == 0.0:
            await asyncio.sleep(0)  # let others have their turn
            return
        waits: set[asyncio.Task[Any]] = {asyncio.create_task(wake.wait())}
        if after is not None:
            waits.add(asyncio.create_task(self.clock.sleep(after)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _reconcile(self, record: Record, known: _Known, progress: Progress) -> float | None:
        """One look at one host, one step, and what came of it written down."""
        host = read(record)
        if PAUSED in host.annotations:
            return None
        if FINALIZER not in host.finalizers and not host.deleting:
            record["metadata"]["finalizers"] = [*host.finalizers, FINALIZER]
            await self.resources.apply(record)
            return 0.0
        if host.status.operational is not Operational.ERROR:
            progress.at(host.status.state)
        if RETRY in host.annotations:
            await self._forgive(host)
            return 0.0
        outcome, version = await self._step(host, known)
        outcome = escape(host, self._in_time(host, known, outcome))
        if isinstance(outcome, Failed) and (seen := self.evidence(host.name)):
            outcome = Failed(outcome.kind, f"{outcome.message}\n{seen}")
        if isinstance(outcome, Gone):
            await self._release(record)
            return None
        return await self._write(host, outcome, version, progress)

    async def _forgive(self, host: Host) -> None:
        """Forget how often it has failed, not that it has: the next step begins anew, at once."""
        status = replace(host.status, error_count=0, provisioning_fail_count=0)
        if status != host.status:
            record = status_record(status, host.spec.credentials_name)
            await self.resources.patch_status(KIND, host.name, record, resource_version=host.resource_version)
        await self._drop_annotation(host.name, RETRY)

    def _in_time(self, host: Host, known: _Known, outcome: Outcome) -> Outcome:
        """What has been waited for too long has failed; what the engine was at last is part of the message."""
        if not isinstance(outcome, Stay) or outcome.waits is None:
            known.waiting = None
            return outcome
        state, now = host.status.state, self.clock.now()
        if outcome.agent and (why := self.lost(host.name)):
            known.waiting = None
            return Failed(outcome.waits, f"{why}, while {outcome.doing or 'it was waited for'}")
        if known.waiting is None or known.waiting[:2] != (state, outcome.waits):
            known.waiting = (state, outcome.waits, now)
        limit = DEADLINES.get(state, OTHERWISE)
        left = known.waiting[2] + limit - now
        if left > 0:
            return replace(outcome, after=min(outcome.after or 0.0, left))
        known.waiting = None
        last = f", which was last at: {outcome.doing}" if outcome.doing else ""
        return Failed(outcome.waits, f"{limit / 60:.0f} minutes were not enough for the engine{last}")

    async def _step(self, host: Host, known: _Known) -> tuple[Outcome, str]:
        state = host.status.state
        if host.deleting and state in WHEN_DELETED:
            return Move(WHEN_DELETED[state]), ""
        try:
            access = await host_access(self.resources, host, self.bmc_ca)
        except Incomplete as incomplete:
            if host.status.error_message == str(incomplete):
                return Stay(None, cleared=False), ""
            return incomplete.failed, ""
        turn = Turn(host, access[0], self.provisioner, self.resources)
        if state not in UNREGISTERED and known.access != access:
            unregistered = await self._registered(turn)
            if unregistered is not None:
                return unregistered, ""
            known.access = access
        outcome = await STEPS[state](turn)
        if isinstance(outcome, Failed):
            known.access = None  # the engine may have lost it: confirm before the next try
        elif state is State.REGISTERING and isinstance(outcome, Move):
            known.access = access
        return outcome, access[1] if known.access else ""

    async def _registered(self, turn: Turn) -> Outcome | None:
        """None when the engine knows the host, with this access; after a restart of either it may not."""
        result = await self.provisioner.register(turn.access, restart=turn.failed_before(ErrorKind.REGISTRATION))
        match result:
            case Again(after, doing, busy):
                over = not busy and turn.failed_before(ErrorKind.REGISTRATION)
                return Stay(after, doing, cleared=over, waits=ErrorKind.REGISTRATION)
            case Failed():
                return result
        return None

    async def _write(self, host: Host, outcome: Stay | Move | Failed, version: str, progress: Progress) -> float | None:
        before = replace(host.status, good_credentials=version or host.status.good_credentials)
        status, after = settle(before, outcome, self.now(), self.back_off, self.chance)
        # told before it is stored: whoever waits for the stored state has then already heard how it was reached
        if isinstance(outcome, Failed):
            progress.failed(outcome.kind.value, outcome.message)
        elif status.operational is not Operational.ERROR:
            progress.at(status.state)
        if isinstance(outcome, Stay):
            progress.doing(outcome.doing)
        if isinstance(outcome, Move) and status.hardware is not None and "hardware" in outcome.changes:
            await self.resources.apply(hardware_data(host, status.hardware))
        if status != host.status:
            await self.resources.patch_status(
                KIND,
                host.name,
                status_record(status, host.spec.credentials_name),
                resource_version=host.resource_version,
            )
        if isinstance(outcome, Move | Stay) and outcome.answered:
            await self._drop_annotation(host.name, outcome.answered)
        return after

    async def _drop_annotation(self, name: str, annotation: str) -> None:
        record = await self.resources.get(KIND, name)
        if record and annotation in (record["metadata"].get("annotations") or {}):
            del record["metadata"]["annotations"][annotation]
            await self.resources.apply(record)

    async def _release(self, record: Record) -> None:
        await self.resources.delete(HARDWARE_DATA, record["metadata"]["name"])
        kept = [name for name in record["metadata"].get("finalizers") or () if name != FINALIZER]
        record["metadata"]["finalizers"] = kept
        await self.resources.apply(record)


def _wanted(record: Record) -> tuple[Any, ...]:
    metadata = record["metadata"]
    return (
        metadata["uid"],
        metadata["generation"],
        metadata.get("annotations") or {},
        metadata.get("deletionTimestamp"),
    )
