"""BareMetalHosts are brought to what their records want, one small step at a look.

Everything needed to go on stands in the records and in the provisioner: a controller that starts anew takes up where
the last one ended. A host is looked at when its step wants another look, and when its record or a Secret that it
names changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rackless.api.definitions.unheeded import unheeded
from rackless.controllers import host_events
from rackless.controllers.data_images import DataImageController
from rackless.controllers.event_subscriptions import KIND as SUBSCRIPTION
from rackless.controllers.event_subscriptions import SubscriptionController
from rackless.controllers.host_annotations import (
    awaits_status,
    brought_along,
    detach,
    forget,
    held,
    waits_with_its_end,
    wants_detached,
)
from rackless.controllers.host_firmware import FirmwareController
from rackless.controllers.runtime.cache import Cache, CachedReader
from rackless.controllers.runtime.controller import Happened, Result, Wake, own
from rackless.controllers.runtime.recorder import wall_clock
from rackless.controllers.runtime.runtime import Runtime
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.clock import Clock
from rackless.ports.provisioner import NO_SETTINGS, Again, Done, ErrorKind, Failed, HostAccess, Provisioner
from rackless.ports.resources import Conflict, Key, Record, Resources, key_of
from rackless.provisioning.baremetalhost import (
    CLEAN,
    DEADLINES,
    FINALIZER,
    HARDWARE_DATA,
    INSPECT,
    KIND,
    PAUSED,
    REBOOT,
    RETRY,
    BadRecord,
    Host,
    Operational,
    State,
    Status,
    hardware_data,
    read,
    secrets_of,
    status_record,
)
from rackless.provisioning.credentials import Incomplete, host_access
from rackless.provisioning.data_image import KIND as DATA_IMAGE
from rackless.provisioning.data_image import holds_up
from rackless.provisioning.deadlines import BY_DEFAULT, OTHERWISE, BadDeadlines, read_deadlines
from rackless.provisioning.firmware import SETTINGS, to_give
from rackless.provisioning.progress import Progress, worded
from rackless.provisioning.settle import BackOff, settle, stamped
from rackless.provisioning.states import (
    STEPS,
    UNREGISTERED,
    WHEN_DELETED,
    Gone,
    Move,
    Outcome,
    Stay,
    Turn,
    escape,
    replaces,
)

SECRETS = "secrets"
"""The index of hosts by the Secrets they name."""
PHASE_ERRORS: Mapping[State, ErrorKind] = {
    State.INSPECTING: ErrorKind.INSPECTION,
    State.PREPARING: ErrorKind.PREPARATION,
    State.PROVISIONING: ErrorKind.PROVISIONING,
    State.DEPROVISIONING: ErrorKind.PROVISIONING,
    State.AVAILABLE: ErrorKind.POWER,
    State.PROVISIONED: ErrorKind.POWER,
    State.EXTERNALLY_PROVISIONED: ErrorKind.POWER,
    State.POWERING_OFF: ErrorKind.POWER,
}
"""What an error that nobody expected is called in each state; elsewhere it is one of registration."""
INSTALLING = (State.NONE, State.REGISTERING, State.INSPECTING, State.PREPARING, State.PROVISIONING)
"""States of a host that somebody waits for."""
ASKED = (*INSTALLING, State.AVAILABLE)
"""States in which what a host's record asks for is yet to be done."""
YIELD_POLL, YIELD_WITHIN = 10.0, 900.0
"""Seconds between two looks whether others are still being installed, and for how long they go first."""
TOLD_EVERY = 5.0
"""Seconds between two writes of a host's status that say only what is being done."""
RESTING = (State.AVAILABLE, State.PROVISIONED)
"""States in which only the power is looked after, unless somebody wants something else."""


@dataclass
class _Known:
    """What is remembered of a host between two looks, none of it needed after a restart."""

    progress: Progress
    access: tuple[HostAccess, str] | None = None
    """With this access the provisioner has confirmed the host."""
    waiting: tuple[State, ErrorKind, float] | None = None
    """What is waited for, and since when."""
    given: str = ""
    """The wish for settings of its firmware that was last fulfilled, until its record says so itself."""
    yields_until: float | None = None
    """When it stops letting others go first."""
    told: HostAccess | None = None
    """With which access the provisioner was told of it; None when it is to know nothing of it, or somebody else looks after it."""
    doing: tuple[State, str] = (State.NONE, "")
    doing_at: float = float("-inf")
    """What its status says that is being done, and when that was written."""
    deadlines: tuple[str, Mapping[State, float]] = ("", BY_DEFAULT)
    """What its annotation said, and what that means."""


@dataclass
class HostController:
    """One of the runtime's controllers; `host_controller` puts it into one."""

    cache: Cache
    secrets: Cache
    provisioner: Provisioner
    clock: Clock
    bus: Bus
    bmc_ca: Path | None = None
    """Whom to trust at the BMCs' end."""
    evidence: Callable[[str], str] = lambda _: ""
    """What can be seen of a host from outside the provisioner, for the message of a failure."""
    lost: Callable[[str], str] = lambda _: ""
    """Why a host that should call will not; empty while it may. Asked so that nobody waits out the agent's patience."""
    back_off: BackOff = field(default_factory=BackOff)
    now: Callable[[], str] = wall_clock
    chance: Callable[[], float] = random.random
    firmware: Cache | None = None
    images: Cache | None = None
    """HostFirmwareSettings and DataImages; without, nobody looks after those."""
    new_engine: bool = False
    """Whether the provisioner begins with nothing, on a machine that has little to spare: then hosts that are being installed come
    first, and those that are installed are adopted afterwards."""
    name: str = "baremetal-host"
    wakes: Sequence[Wake] = field(init=False)
    _hosts: dict[Key, _Known] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cache.index(SECRETS, secrets_of)
        beside = [cache for cache in (self.firmware, self.images) if cache is not None]
        self.wakes = (
            own(self.cache, _wants_other),
            Wake(self.secrets, self._naming),
            # an API without these kinds has hosts all the same
            *(Wake(cache, _of_its_name, needed=False) for cache in beside),
        )
        self._reader = CachedReader(self.cache.resources, self.secrets)

    @property
    def _resources(self) -> Resources:
        return self.cache.resources

    def _naming(self, before: Record | None, after: Record | None) -> Iterable[Key]:
        """The hosts that name a Secret."""
        metadata = (after or before or {})["metadata"]
        return self.cache.having(SECRETS, f"{metadata['namespace']}/{metadata['name']}")

    async def reconcile(self, key: Key, record: Record | None) -> Result:
        """One look at one host, one step, and what comes of it."""
        if record is None:
            return await self._collect(key)
        known = self._hosts.setdefault(key, _Known(Progress(self.bus, key.name)))
        try:
            host = read(record)
        except BadRecord as error:
            self.bus.tell("record-unreadable", subject=f"host/{key.name}", name=key.name, why=str(error))
            return Result(events=(Happened("Unreadable", str(error), "Warning"),))
        if PAUSED in host.annotations:
            known.told = None
            return Result()
        if FINALIZER not in host.finalizers and not host.deleting:
            return Result(0.0, change={"metadata": {"finalizers": [*host.finalizers, FINALIZER]}})
        if (brought := brought_along(record, host, self.now())) is not None:
            return brought
        if host.status.operational is Operational.DETACHED or wants_detached(host):
            return await self._apart(host, known, key.namespace)
        if host.status.operational is not Operational.ERROR:
            known.progress.at(host.status.state)
        if RETRY in host.annotations:
            return _forgiven(host)
        outcome, version = await self._decide(host, key, known)
        if isinstance(outcome, Gone):
            known.told = None
            await self._resources.delete(HARDWARE_DATA, host.name, namespace=key.namespace)
            kept = [name for name in host.finalizers if name != FINALIZER]
            return Result(
                change={"metadata": {"finalizers": kept}}, events=(Happened("Deleted", "nothing of it is left"),)
            )
        status, after = await self._settled(host, record, outcome, version, known)
        events = (*host_events.changed(host.status, status, outcome), *host_events.let_in(host.status, status))
        if isinstance(outcome, Stay):
            events += host_events.switched(host.status, status)
        further = replace(host, status=status)
        if isinstance(outcome, Move) and _rests(further):
            # how it stands there is part of the same write, unless that leads elsewhere
            second: Outcome | None = None
            try:
                second, version = await self._decide(further, key, known)
            except Exception:  # what was reached is written first: a host that was just installed did not fail to be
                known.access = None  # the next look meets it again, and tells it of the state that it belongs to
            if isinstance(second, Stay | Failed):
                status, after = await self._settled(further, record, second, version, known)
                events += host_events.changed(further.status, status, second)
        answered = outcome.answered if isinstance(outcome, Move | Stay) else ""
        return Result(
            after,
            status=status_record(status, host.spec.credentials_name) if status != host.status else None,
            change=_without(answered) if answered in host.annotations else None,
            events=(*events, *host_events.unused(host, outcome, known.access), *_read_anew(host, known)),
        )

    async def _collect(self, key: Key) -> Result:
        """The record is gone. Where somebody took its finalizer away, the provisioner still knows the host, and forgets it now."""
        known = self._hosts.get(key)
        if known is not None and known.told is not None:
            result = await self.provisioner.delete(known.told)
            if isinstance(result, Again):
                return Result(max(result.after, 1.0))
            if isinstance(result, Failed):
                raise RacklessError(f"the provisioner keeps host {key.name}, whose record is gone: {result.message}")
            await self._resources.delete(HARDWARE_DATA, key.name, namespace=key.namespace)
            self.bus.tell("host-collected", subject=f"host/{key.name}", name=key.name)
        self._forget(key)
        return Result()

    async def _decide(self, host: Host, key: Key, known: _Known) -> tuple[Outcome, str]:
        """One step, and what it means when it took too long, or keeps failing."""
        outcome, version = await self._step(host, key, known)
        outcome = escape(host, self._in_time(host, known, outcome))
        if isinstance(outcome, Failed) and (seen := self.evidence(host.name)):
            outcome = replace(outcome, message=f"{outcome.message}\n{seen}")
        return outcome, version

    async def _apart(self, host: Host, known: _Known, namespace: str) -> Result:
        """A host that the provisioner does not look after, until the annotation is gone, or the host."""
        known.access = known.told = None
        if wants_detached(host) and (not host.deleting or waits_with_its_end(host)):
            access, _ = await host_access(self._reader, host, self.bmc_ca)
            return await detach(host, access, self.provisioner, self.now())
        if host.deleting:  # nothing is taken off, and nothing is switched off
            if host.status.operational is not Operational.DETACHED:
                # asked for and deleted before anybody looked: the provisioner would go on switching it
                access, _ = await host_access(self._reader, host, self.bmc_ca)
                if (still := await forget(access, self.provisioner)) is not None:
                    return still
            kept = [name for name in host.finalizers if name != FINALIZER]
            await self._resources.delete(HARDWARE_DATA, host.name, namespace=namespace)
            told = Happened("Deleted", "it was detached: what runs there runs on")
            return Result(change={"metadata": {"finalizers": kept}}, events=(told,))
        status = stamped(replace(host.status, operational=Operational.OK), self.now())
        told = Happened("Attached", "the provisioner learns of it again")
        return Result(0.0, status=status_record(status, host.spec.credentials_name), events=(told,))

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        """An error nobody expected is the host's like any other; a second one of the same kind changes nothing."""
        try:
            host = read(record)
        except BadRecord:
            return None
        if isinstance(error, RacklessError):
            message = str(error)
        else:
            message = f"rackless met an error of its own, {type(error).__name__}: {error}"
        if host.status.error_message == message:
            return None
        if awaits_status(record):
            return held(host, message)
        if known := self._hosts.get(key_of(record)):
            known.access = None
        failed = Failed(PHASE_ERRORS.get(host.status.state, ErrorKind.REGISTRATION), message)
        status, _ = settle(host.status, failed, self.now(), self.back_off, self.chance)
        return status_record(status, host.spec.credentials_name)

    def stopped(self, key: Key) -> None:
        if (known := self._hosts.pop(key, None)) is not None:
            known.progress.abandon()

    def _forget(self, key: Key) -> None:
        if (known := self._hosts.pop(key, None)) is not None:
            known.progress.close()

    def _in_time(self, host: Host, known: _Known, outcome: Outcome) -> Outcome:
        """What has been waited for too long has failed; what the provisioner was at last is part of the message."""
        if not isinstance(outcome, Stay) or outcome.waits is None:
            known.waiting = None
            return outcome
        state, now = host.status.state, self.clock.now()
        if outcome.agent and (why := self.lost(host.name)):
            known.waiting = None
            return Failed(outcome.waits, f"{why}, while {outcome.doing or 'it was waited for'}")
        if known.waiting is None or known.waiting[:2] != (state, outcome.waits):
            known.waiting = (state, outcome.waits, now)
        limit = known.deadlines[1].get(state, OTHERWISE)
        left = known.waiting[2] + limit - now
        if left > 0:
            return replace(outcome, after=min(outcome.after or 0.0, left))
        known.waiting = None
        last = f", which was last at: {outcome.doing}" if outcome.doing else ""
        return Failed(outcome.waits, f"{limit / 60:.0f} minutes were not enough for the engine{last}")

    async def _step(self, host: Host, key: Key, known: _Known) -> tuple[Outcome, str]:
        state = host.status.state
        if host.deleting and state in WHEN_DELETED:
            return Move(WHEN_DELETED[state]), ""
        try:
            self._require_heeded(host, key)
            access = await host_access(self._reader, host, self.bmc_ca)
        except Incomplete as incomplete:
            if host.status.error_message == str(incomplete):
                return Stay(None, cleared=False), ""
            return incomplete.failed, ""
        known.told = access[0]
        wish, settings = self._settings(key, known)
        turn = Turn(host, access[0], self.provisioner, self._reader, settings, self._held(key))
        if self._yields(host, known):
            return Stay(YIELD_POLL, "lets hosts that are being installed go first"), ""
        if state not in UNREGISTERED and known.access != access:
            unregistered = await self._registered(turn)
            if unregistered is not None:
                return unregistered, ""
            known.access = access
        outcome = await STEPS[state](turn)
        if isinstance(outcome, Failed):
            known.access = None  # the provisioner may have lost it: confirm before the next try
        elif state is State.REGISTERING and isinstance(outcome, Move):
            known.access = access
        elif state is State.PREPARING and isinstance(outcome, Move):
            known.given = wish
        return outcome, access[1] if known.access else ""

    def _require_heeded(self, host: Host, key: Key) -> None:
        """What nobody does is an error also where the API takes it; not of a host that is installed. Raises Incomplete."""
        asked = host.status.state in ASKED and host.spec.managed and not host.deleting
        record = self.cache.get(key) if asked and not host.spec.externally_provisioned else None
        if record is not None and (causes := unheeded(record.get("spec") or {}, {})):
            raise Incomplete("; ".join(map(str, causes)))

    def _yields(self, host: Host, known: _Known) -> bool:
        """An installed host with nothing to be done, which the provisioner does not know yet, while others are being installed."""
        if not self.new_engine or known.access is not None or host.status.state is not State.PROVISIONED:
            return False
        reboots = any(name.partition("/")[0] == REBOOT for name in host.annotations)
        wanted = reboots or host.status.powered_on != host.spec.online
        if wanted or host.deleting or host.status.error_type or replaces(host.spec.image, host.status.image):
            return False
        if known.yields_until is None:
            known.yields_until = self.clock.now() + YIELD_WITHIN
        return self.clock.now() < known.yields_until and any(_is_installed(each) for each in self.cache)

    def _settings(self, key: Key, known: _Known) -> tuple[str, Mapping[str, str]]:
        """What its firmware is to be given. Its record says so until somebody has looked, also when it was given."""
        record = self.firmware.get(key._replace(kind=SETTINGS)) if self.firmware is not None else None
        wish, settings = to_give(record)
        if wish and wish == known.given:
            return wish, NO_SETTINGS
        known.given = ""
        return wish, settings

    def _held(self, key: Key) -> bool:
        return self.images is not None and holds_up(self.images.get(key._replace(kind=DATA_IMAGE)))

    async def _registered(self, turn: Turn) -> Outcome | None:
        """None when the provisioner knows the host, with this access; after a restart of either it may not."""
        result = await self.provisioner.register(turn.access, restart=turn.failed_before(ErrorKind.REGISTRATION))
        match result:
            case Again(after, doing, busy):
                over = not busy and turn.failed_before(ErrorKind.REGISTRATION)
                return Stay(after, doing, cleared=over, waits=ErrorKind.REGISTRATION)
            case Failed():
                return result
            case Done(detail) if turn.host.status.id and detail.get("id", turn.host.status.id) != turn.host.status.id:
                # another engine, or one that began anew, knows it by another name
                return Stay(0.0, cleared=False, changes={"id": str(detail["id"])})
        return None

    async def _settled(
        self, host: Host, record: Record, outcome: Stay | Move | Failed, version: str, known: _Known
    ) -> tuple[Status, float | None]:
        before = replace(host.status, good_credentials=version or host.status.good_credentials)
        if isinstance(outcome, Stay) and (said := self._worded(host, known, outcome)):
            outcome = replace(outcome, changes={**outcome.changes, "doing": said})
        status, after = settle(before, outcome, self.now(), self.back_off, self.chance)
        # told before it is stored: whoever waits for the stored state has then already heard how it was reached
        if isinstance(outcome, Failed):
            known.progress.failed(outcome.kind.value, outcome.message)
        elif status.operational is not Operational.ERROR:
            known.progress.at(status.state)
        if isinstance(outcome, Stay):
            known.progress.doing(outcome.doing)
        if isinstance(outcome, Move) and status.hardware is not None and "hardware" in outcome.changes:
            await self._keep_hardware(host, record, status.hardware)
        return status, after

    def _worded(self, host: Host, known: _Known, outcome: Stay) -> str:
        """What the status is to say of what is being done; empty when it says so, or has said something else just now."""
        state, now = host.status.state, self.clock.now()
        new = known.doing != (state, outcome.doing) and (
            known.doing[0] is not state or now - known.doing_at >= TOLD_EVERY
        )
        if state not in BY_DEFAULT or not outcome.doing or not new:
            return ""
        known.doing, known.doing_at = (state, outcome.doing), now
        return worded(state, outcome.doing, self.now())

    async def _keep_hardware(self, host: Host, record: Record, hardware: Mapping[str, Any]) -> None:
        """What was found, beside the host; what an earlier inspection found is replaced."""
        found = hardware_data(host, hardware)
        found["metadata"]["namespace"] = record["metadata"]["namespace"]
        try:
            await self._resources.create(found)
        except Conflict:
            await self._resources.apply(found)


def host_controller(runtime: Runtime, resources: Resources, provisioner: Provisioner, **more: Any) -> HostController:
    """The controllers of the BareMetalHosts of this connection, and of what stands beside them, in a runtime to be run."""
    hosts, secrets = runtime.cache(resources, KIND), runtime.cache(resources, "Secret")
    firmware, images = runtime.cache(resources, SETTINGS), runtime.cache(resources, DATA_IMAGE)
    beside = {name: more[name] for name in ("bmc_ca", "now") if name in more}
    runtime.add(FirmwareController(firmware, hosts, secrets, provisioner, **beside))
    runtime.add(DataImageController(images, hosts, secrets, provisioner, **beside))
    subscriptions = runtime.cache(resources, SUBSCRIPTION)
    runtime.add(SubscriptionController(subscriptions, hosts, secrets, provisioner, more.get("bmc_ca")))
    controller = HostController(
        hosts,
        secrets,
        provisioner,
        runtime.clock,
        runtime.bus,
        firmware=firmware,
        images=images,
        **more,
    )
    runtime.add(controller)
    return controller


def _is_installed(record: Record) -> bool:
    """Whether somebody is at it just now: not one that failed, or that is left alone."""
    try:
        host = read(record)
    except BadRecord:
        return False
    left_alone = PAUSED in host.annotations or host.deleting or wants_detached(host) or not host.spec.online
    return host.status.state in INSTALLING and host.spec.managed and not left_alone and not host.status.error_type


def _read_anew(host: Host, known: _Known) -> tuple[Happened, ...]:
    """The annotation with its deadlines, when it says something else than before: from the next step on."""
    text = host.annotations.get(DEADLINES, "")
    if text == known.deadlines[0]:
        return ()
    try:
        known.deadlines = text, read_deadlines(text)
    except BadDeadlines as error:
        known.deadlines = text, BY_DEFAULT
        return (Happened("DeadlinesNotRead", f"annotation {DEADLINES}: {error}", "Warning"),)
    return ()


def _forgiven(host: Host) -> Result:
    """Forget how often it has failed, not that it has: the next step begins anew, at once."""
    status = replace(host.status, error_count=0, provisioning_fail_count=0)
    return Result(
        0.0,
        status=status_record(status, host.spec.credentials_name) if status != host.status else None,
        change=_without(RETRY),
    )


def _without(annotation: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {annotation: None}}}


def _rests(host: Host) -> bool:
    """Nobody wants anything of a host that has come to rest, so that its next step only looks."""
    wishes = [name for name in host.annotations if name.partition("/")[0] in (REBOOT, INSPECT) or name == CLEAN]
    return host.status.state in RESTING and not wishes and not host.deleting and not wants_detached(host)


def _of_its_name(before: Record | None, after: Record | None) -> Iterable[Key]:
    """The host that something beside it is called after."""
    metadata = (after or before or {})["metadata"]
    yield Key(KIND, metadata.get("namespace") or "", metadata["name"])


def _wants_other(before: Record, after: Record) -> bool:
    """Whether more has changed than a status, which is our own writing."""
    return _wanted(before) != _wanted(after)


def _wanted(record: Record) -> tuple[Any, ...]:
    metadata = record["metadata"]
    return (
        metadata["uid"],
        metadata["generation"],
        metadata.get("annotations") or {},
        metadata.get("deletionTimestamp"),
    )
