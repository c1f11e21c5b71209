"""The phases of a pivot: pause, copy in owner order, delete in the source, resume; each phase may be repeated after a kill.

No host is powered or changed. At no time do controllers act on an object in both APIs: it is paused in the source before it is
written to the target, and paused there until it is deleted in the source. Before that, the source's host controller detaches the
host from its Ironic, because an Ironic that knows a host enforces its power state; the target's Ironic adopts it.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rackless.controllers.host_annotations import DETACHED
from rackless.controllers.machines.records import KIND as MACHINE
from rackless.controllers.pausing import pause_of
from rackless.controllers.pivot import journal as journals
from rackless.controllers.pivot.copying import BESIDE, MOVE, ORDER, PAUSED_KINDS, SECRET, copy_of, same, secrets_named
from rackless.controllers.pivot.journal import CAN_BE_UNDONE, MoveJournal, MovePhase
from rackless.errors import InputError, LabError
from rackless.ports.clock import Clock
from rackless.ports.resources import Conflict, Record, Refused, Resources
from rackless.provisioning.baremetalhost import KIND as HOST
from rackless.provisioning.baremetalhost import Operational, State

AT_REST = (State.AVAILABLE, State.PROVISIONED, State.EXTERNALLY_PROVISIONED, State.UNMANAGED)
"""Provisioning states in which no work is under way on a host; in others the target's Ironic would begin the work anew."""
DETACH_WITHIN = 120.0
"""Seconds for the source's host controller to detach the hosts. It may not be running: then the pivot goes on without."""
LOOK_EVERY = 1.0
LET_GO = '{"force": true}'
"""The value of the annotation `detached`: with `force` a host in error is detached, too."""


@dataclass
class Moved:
    id: str
    counts: dict[str, int] = field(default_factory=dict)
    """How many objects went, by kind."""
    remembered: tuple[str, ...] = ()
    """Hosts that were not detached: an Ironic of the source, if there is one, still knows them."""


@dataclass
class Pivot:
    source: Resources
    target: Resources
    clock: Clock
    to: str
    """The target's address, for people."""
    tell: Callable[[MovePhase], None] = lambda _: None
    detach_within: float = DETACH_WITHIN

    async def go(self) -> Moved:
        """Move all objects, or finish a pivot that was begun. Raises InputError, LabError."""
        journal = await journals.load(self.source)
        if journal is not None and journal.phase is MovePhase.UNDOING:
            await self.undo()
            journal = None
        if journal is None or journal.phase is MovePhase.MOVED:
            journal = await self._begin(journal)
        await self._require_same_target(journal)
        done = Moved(journal.id)
        steps: Mapping[MovePhase, tuple[Callable[[MoveJournal, Moved], Awaitable[None]], MovePhase]] = {
            MovePhase.PAUSING: (self._pause, MovePhase.COPYING),
            MovePhase.COPYING: (self._copy, MovePhase.LEAVING),
            MovePhase.LEAVING: (self._leave, MovePhase.RESUMING),
            MovePhase.RESUMING: (self._resume, MovePhase.MOVED),
        }
        while journal.phase is not MovePhase.MOVED:
            step, following = steps[journal.phase]
            self.tell(journal.phase)
            await step(journal, done)
            journal = await journals.reach(self.source, journal, following)
        return done

    async def undo(self) -> None:
        """Undo a pivot that was begun and has not deleted anything yet. Raises LabError."""
        journal = await journals.load(self.source)
        if journal is None or journal.phase is MovePhase.MOVED:
            raise LabError("no move is under way here", hint="`rackless pivot --from` brings back what was moved")
        if journal.phase not in CAN_BE_UNDONE:
            raise LabError(
                f"the move to {journal.to} is too far to be undone: it is {journal.phase}",
                hint="run it again to end it; then move the objects back",
            )
        await self._require_same_target(journal)
        self.tell(MovePhase.UNDOING)
        await journals.reach(self.source, journal, MovePhase.UNDOING)
        for kind in reversed(ORDER):
            for record in await self._marked(self.target, kind, journal):
                await _remove(self.target, record)
        await self._release(self.source, journal)
        await journals.strike(self.source)

    async def _begin(self, before: MoveJournal | None) -> MoveJournal:
        """Check both APIs before anything is changed. Raises InputError, LabError."""
        target = await _identity(self.target)
        if target and target == await _identity(self.source):
            raise InputError("both kubeconfigs lead to the same API", hint="name another one with --to")
        other = await journals.load(self.target)
        if other is not None and other.phase is not MovePhase.MOVED:
            raise LabError(f"a move from there to {other.to} is not ended: it is {other.phase}")
        taken = [
            f"{kind} {record['metadata']['name']}"
            for kind, records in (await self._everything()).items()
            for record in records
            if (found := await self._there(kind, record)) is not None and not (kind == SECRET and same(found, record))
        ]
        if taken:
            raise LabError(
                "the other API has objects of these names already", why=", ".join(taken), hint="delete one of each two"
            )
        if not await self.source.list(HOST) and not await self.source.list(MACHINE):
            gone = f"they went to {before.to}" if before is not None else "there are no hosts and no Machines"
            raise LabError(f"there is nothing to move from namespace {self.source.namespace}", why=gone)
        return await journals.store(self.source, MoveJournal(uuid.uuid4().hex[:12], MovePhase.PAUSING, self.to, target))

    async def _there(self, kind: str, record: Record) -> Record | None:
        try:
            return await self.target.get(kind, record["metadata"]["name"])
        except Refused as refused:
            raise LabError(f"the other API does not take {kind} objects", why=refused.why or refused.what) from refused

    async def _require_same_target(self, journal: MoveJournal) -> None:
        found = await _identity(self.target)
        if journal.target and found and journal.target != found:
            raise InputError(
                f"a move to {journal.to} is under way, and this is another API", hint="end that one, or undo it"
            )

    async def _everything(self) -> dict[str, list[Record]]:
        found = {kind: await _list(self.source, kind) for kind in ORDER if kind != SECRET}
        others = [record for kind in (*PAUSED_KINDS, *BESIDE) if kind != HOST for record in found[kind]]
        names = secrets_named(found[HOST], others, self.source.namespace)
        secrets = [await self.source.get(SECRET, name) for name in names]
        return {SECRET: [record for record in secrets if record is not None], **found}

    async def _pause(self, journal: MoveJournal, done: Moved) -> None:
        for kind in PAUSED_KINDS:
            for record in await self.source.list(kind):
                pause = {} if pause_of(kind) in _annotations(record) else {pause_of(kind): journal.id}
                await _annotate(self.source, record, {MOVE: journal.id, **pause})
        for kind, records in (await self._everything()).items():
            for record in records:
                if kind not in PAUSED_KINDS:
                    await _annotate(self.source, record, {MOVE: journal.id})
        if busy := _busy(await self.source.list(HOST), await self.source.list(MACHINE)):
            await self._release(self.source, journal)
            await journals.strike(self.source)
            raise LabError("some objects are being worked on", why=", ".join(busy), hint="wait until they are at rest")

    async def _copy(self, journal: MoveJournal, done: Moved) -> None:
        uids: dict[tuple[str, str], str] = {}
        for kind in ORDER:
            for record in await self._marked(self.source, kind, journal):
                made = await self._put(record, copy_of(record, uids), journal)
                name, status = record["metadata"]["name"], record.get("status")
                uids[kind, name] = made["metadata"]["uid"]
                if status and made.get("status") != status:
                    await self.target.patch_status(kind, name, status)
                done.counts[kind] = done.counts.get(kind, 0) + 1

    async def _put(self, record: Record, wanted: Record, journal: MoveJournal) -> Record:
        kind, name = record["kind"], record["metadata"]["name"]
        found = await self.target.get(kind, name)
        if found is None:
            return await self.target.create(wanted)
        if _annotations(found).get(MOVE) == journal.id:  # written before a kill
            return await self.target.apply(wanted)
        if kind == SECRET and same(found, record):
            return found
        raise LabError(f"somebody made {kind} {name} at {self.to} meanwhile", hint="delete it there, and try again")

    async def _leave(self, journal: MoveJournal, done: Moved) -> None:
        done.remembered = await self._detach(journal)
        for kind in reversed(ORDER):
            for record in await self._marked(self.source, kind, journal):
                await _remove(self.source, record)

    async def _detach(self, journal: MoveJournal) -> tuple[str, ...]:
        """Detach the hosts from the source's Ironic. Returns those that were not detached in time."""
        hosts = [each for each in await self._marked(self.source, HOST, journal) if _managed(each)]
        for record in hosts:
            if DETACHED not in _annotations(record):
                await _annotate(self.source, record, {DETACHED: LET_GO, pause_of(HOST): None})
        until = self.clock.now() + self.detach_within
        while True:
            found = await self._marked(self.source, HOST, journal)
            left = tuple(each["metadata"]["name"] for each in found if _managed(each) and not _detached(each))
            if not left or self.clock.now() >= until:
                return left
            await self.clock.sleep(LOOK_EVERY)

    async def _resume(self, journal: MoveJournal, done: Moved) -> None:
        await self._release(self.target, journal)
        await journals.strike(self.target)  # of a move away from there, when this one leads back

    async def _release(self, resources: Resources, journal: MoveJournal) -> None:
        """Remove the pause: hosts first, MachineSets, which make and delete others, last; what somebody else paused stays
        paused."""
        for kind in (*(kind for kind in ORDER if kind not in PAUSED_KINDS), *reversed(PAUSED_KINDS)):
            for record in await self._marked(resources, kind, journal):
                ours = _annotations(record).get(pause_of(kind)) == journal.id
                await _annotate(resources, record, {MOVE: None, **({pause_of(kind): None} if ours else {})})

    async def _marked(self, resources: Resources, kind: str, journal: MoveJournal) -> list[Record]:
        return [each for each in await _list(resources, kind) if _annotations(each).get(MOVE) == journal.id]


async def _list(resources: Resources, kind: str) -> list[Record]:
    try:
        return await resources.list(kind)
    except Refused:
        if kind in BESIDE:
            return []
        raise


def _busy(hosts: Iterable[Record], machines: Iterable[Record]) -> list[str]:
    found = []
    for host in hosts:
        state = ((host.get("status") or {}).get("provisioning") or {}).get("state") or ""
        if host["metadata"].get("deletionTimestamp"):
            found.append(f"{host['metadata']['name']} is being deleted")
        elif state not in AT_REST:
            found.append(f"{host['metadata']['name']} is {state or 'new'}")
    for machine in machines:
        if machine["metadata"].get("deletionTimestamp"):
            found.append(f"Machine {machine['metadata']['name']} is being deleted")
    return found


async def _identity(resources: Resources) -> str:
    """Which API this is; empty where that cannot be told."""
    found = await resources.get("Namespace", "kube-system")
    return str(found["metadata"]["uid"]) if found is not None else ""


async def _annotate(resources: Resources, record: Record, annotations: Mapping[str, str | None]) -> None:
    found = _annotations(record)
    if all(found.get(name) == value for name, value in annotations.items()):
        return
    await resources.patch(record["kind"], record["metadata"]["name"], {"metadata": {"annotations": dict(annotations)}})


async def _remove(resources: Resources, record: Record) -> None:
    """Delete the object in the source first, so that no controller adds a finalizer again, then remove its finalizers: the
    target's controllers honour them."""
    kind, metadata = record["kind"], record["metadata"]
    await resources.delete(kind, metadata["name"], uid=metadata["uid"])
    if not metadata.get("finalizers"):
        return
    try:
        await resources.patch(kind, metadata["name"], {"metadata": {"finalizers": []}})
    except Conflict:
        return  # gone: its controller was quicker


def _annotations(record: Record) -> Mapping[str, Any]:
    return record["metadata"].get("annotations") or {}


def _managed(host: Record) -> bool:
    return bool(((host.get("spec") or {}).get("bmc") or {}).get("address"))


def _detached(host: Record) -> bool:
    return bool((host.get("status") or {}).get("operationalStatus") == Operational.DETACHED)
