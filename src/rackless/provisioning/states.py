"""The state machine of a BareMetalHost, as a table from each provisioning state to its step; a step does one thing and says what
follows.

                                     ┌────────────── image changed or gone ───────────────┐
    registering → inspecting → preparing → available → provisioning → provisioned → deprovisioning
                                              ↑                └─ failed ─────────────────→ │
                                              └────────────────────────────────────────────┘
    available → inspecting, preparing (on demand, or for settings of its firmware), externally provisioned → provisioned
    when deleted: … → deprovisioning → powering off before delete → deleting → gone

A step reads records and calls the provisioner; it writes nothing. `settle` turns its outcome into a status and a time
to come back; `controllers/host` keeps the time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rackless.ports.provisioner import (
    NO_SETTINGS,
    Again,
    Done,
    ErrorKind,
    Failed,
    HostAccess,
    Image,
    Provisioner,
    Result,
)
from rackless.ports.resources import Reader
from rackless.provisioning.baremetalhost import CLEAN, INSPECT, REBOOT, Host, State
from rackless.provisioning.config_drive import config_drive
from rackless.provisioning.hardware import hardware

POWER_POLL = 60.0
HELD_POLL = 5.0
ESCAPE_AFTER = 3
"""How often deprovisioning a deleted host may fail before the host is deleted anyway."""
MAX_PROVISIONING_FAILURES = 5


@dataclass(frozen=True, slots=True)
class Stay:
    """Come back `after` seconds; None waits for a change of the record. `cleared`: an error told before is over.

    `answered` is an annotation that is thereby done. `waits` is what it is called when it does not come to an end in
    time; None is rest, which has no end. `agent`: the host itself is to call.
    """

    after: float | None
    doing: str = ""
    cleared: bool = True
    changes: Mapping[str, Any] = field(default_factory=dict)
    answered: str = ""
    waits: ErrorKind | None = None
    agent: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """Go on in another state, with these changes of the status; `answered` is an annotation that is thereby done."""

    to: State
    changes: Mapping[str, Any] = field(default_factory=dict)
    answered: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """The host is removed from Ironic: only its record is left to delete."""


Outcome = Stay | Move | Failed | Gone


@dataclass(frozen=True, slots=True)
class Turn:
    """The input of a step."""

    host: Host
    access: HostAccess
    provisioner: Provisioner
    resources: Reader
    settings: Mapping[str, str] = field(default_factory=lambda: NO_SETTINGS)
    """BIOS settings that must be applied."""
    held: bool = False
    """Whether the host must stay off for now, because its drive is being changed."""

    def failed_before(self, kind: ErrorKind) -> bool:
        return self.host.status.error_type == kind


Step = Callable[[Turn], Awaitable[Outcome]]


async def begin(turn: Turn) -> Outcome:
    return Move(State.REGISTERING if turn.host.spec.managed else State.UNMANAGED)


async def unmanaged(turn: Turn) -> Outcome:
    return Move(State.REGISTERING) if turn.host.spec.managed else Stay(None)


async def register(turn: Turn) -> Outcome:
    result = await turn.provisioner.register(turn.access, restart=turn.failed_before(ErrorKind.REGISTRATION))
    if not isinstance(result, Done):
        return _pending(result, ErrorKind.REGISTRATION)
    changes = {"id": result.detail.get("id", "")}
    if turn.host.spec.externally_provisioned:
        return Move(State.EXTERNALLY_PROVISIONED, changes)
    looked_at = turn.host.spec.inspect and turn.host.annotations.get(INSPECT) != "disabled"
    return Move(State.INSPECTING if looked_at else State.PREPARING, changes)


async def inspect(turn: Turn) -> Outcome:
    result = await turn.provisioner.inspect(turn.access, restart=turn.failed_before(ErrorKind.INSPECTION))
    if not isinstance(result, Done):
        return _pending(result, ErrorKind.INSPECTION)
    return Move(State.PREPARING, {"hardware": hardware(result.detail, turn.host.spec.boot_mac)})


async def prepare(turn: Turn) -> Outcome:
    again = turn.failed_before(ErrorKind.PREPARATION)
    result = await turn.provisioner.prepare(turn.access, turn.settings, restart=again)
    return Move(State.AVAILABLE) if isinstance(result, Done) else _pending(result, ErrorKind.PREPARATION)


async def available(turn: Turn) -> Outcome:
    spec = turn.host.spec
    if spec.externally_provisioned:
        return Move(State.EXTERNALLY_PROVISIONED)
    if turn.host.annotations.get(INSPECT) == "":
        return await _anew(turn, INSPECT, ErrorKind.INSPECTION, turn.provisioner.inspect, State.INSPECTING)
    if CLEAN in turn.host.annotations:
        return await _anew(turn, CLEAN, ErrorKind.PREPARATION, turn.provisioner.prepare, State.PREPARING)
    if turn.settings:
        return Move(State.PREPARING)
    if spec.online and spec.image is not None:
        # a reboot that was asked for before is not one of the new system
        return Move(State.PROVISIONING, {"image": spec.image, "boot_mode": spec.boot_mode}, answered=REBOOT)
    return await _power(turn, hard=True)  # an agent may still run there, which does not listen to a power button


async def provision(turn: Turn) -> Outcome:
    spec, status = turn.host.spec, turn.host.status
    if turn.failed_before(ErrorKind.PROVISIONING):
        if status.provisioning_fail_count + 1 >= MAX_PROVISIONING_FAILURES:
            return Stay(None, cleared=False)
        return Move(State.DEPROVISIONING, {"provisioning_fail_count": status.provisioning_fail_count + 1})
    if status.image is None or replaces(spec.image, status.image):
        return Move(State.DEPROVISIONING, {"provisioning_fail_count": 0})
    config = await config_drive(turn.resources, turn.host)
    if isinstance(config, Failed):
        return config
    result = await turn.provisioner.provision(turn.access, status.image, config)
    if not isinstance(result, Done):
        return _pending(result, ErrorKind.PROVISIONING)
    return Move(State.PROVISIONED, {"powered_on": True, "provisioning_fail_count": 0})


async def provisioned(turn: Turn) -> Outcome:
    spec, status = turn.host.spec, turn.host.status
    image = status.image or spec.image
    if image is None or replaces(spec.image, status.image):
        return Move(State.DEPROVISIONING)
    # an engine that has lost its memory learns what is there; nothing is installed again
    result = await turn.provisioner.adopt(turn.access, image, restart=turn.failed_before(ErrorKind.ADOPTION))
    return await _power(turn) if isinstance(result, Done) else _pending(result, ErrorKind.ADOPTION)


async def externally_provisioned(turn: Turn) -> Outcome:
    if not turn.host.spec.externally_provisioned:
        return Move(State.PROVISIONED, {"image": turn.host.spec.image})
    return await _power(turn)


async def deprovision(turn: Turn) -> Outcome:
    after = State.POWERING_OFF if turn.host.deleting else State.AVAILABLE
    result = await turn.provisioner.deprovision(turn.access, restart=turn.failed_before(ErrorKind.PROVISIONING))
    return Move(after, {"image": None}) if isinstance(result, Done) else _pending(result, ErrorKind.PROVISIONING)


async def power_off(turn: Turn) -> Outcome:
    restart = turn.failed_before(ErrorKind.POWER)
    result = await turn.provisioner.power(turn.access, False, hard=True, restart=restart)
    return (
        Move(State.DELETING, {"powered_on": False}) if isinstance(result, Done) else _pending(result, ErrorKind.POWER)
    )


async def delete(turn: Turn) -> Outcome:
    result = await turn.provisioner.delete(turn.access)
    return Gone() if isinstance(result, Done) else _pending(result, ErrorKind.REGISTRATION)


STEPS: Mapping[State, Step] = {
    State.NONE: begin,
    State.UNMANAGED: unmanaged,
    State.REGISTERING: register,
    State.INSPECTING: inspect,
    State.PREPARING: prepare,
    State.AVAILABLE: available,
    State.PROVISIONING: provision,
    State.PROVISIONED: provisioned,
    State.EXTERNALLY_PROVISIONED: externally_provisioned,
    State.DEPROVISIONING: deprovision,
    State.POWERING_OFF: power_off,
    State.DELETING: delete,
}

WHEN_DELETED: Mapping[State, State] = {
    State.NONE: State.DELETING,
    State.UNMANAGED: State.DELETING,
    State.REGISTERING: State.DELETING,
    State.INSPECTING: State.POWERING_OFF,
    State.PREPARING: State.POWERING_OFF,
    State.AVAILABLE: State.POWERING_OFF,
    State.PROVISIONING: State.DEPROVISIONING,
    State.PROVISIONED: State.DEPROVISIONING,
    State.EXTERNALLY_PROVISIONED: State.DELETING,
}
"""Where a host goes on when its record is deleted; states that are not here are already on that way."""

ESCAPES: Mapping[State, State] = {
    State.DEPROVISIONING: State.POWERING_OFF,
    State.POWERING_OFF: State.DELETING,
}
"""The next state of a deleted host whose step keeps failing."""

MOVES: Mapping[State, tuple[State, ...]] = {
    State.NONE: (State.REGISTERING, State.UNMANAGED),
    State.UNMANAGED: (State.REGISTERING,),
    State.REGISTERING: (State.INSPECTING, State.PREPARING, State.EXTERNALLY_PROVISIONED),
    State.INSPECTING: (State.PREPARING,),
    State.PREPARING: (State.AVAILABLE,),
    State.AVAILABLE: (State.PROVISIONING, State.INSPECTING, State.PREPARING, State.EXTERNALLY_PROVISIONED),
    State.PROVISIONING: (State.PROVISIONED, State.DEPROVISIONING),
    State.PROVISIONED: (State.DEPROVISIONING,),
    State.EXTERNALLY_PROVISIONED: (State.PROVISIONED,),
    State.DEPROVISIONING: (State.AVAILABLE, State.POWERING_OFF),
    State.POWERING_OFF: (State.DELETING,),
    State.DELETING: (),
}
"""Where each step may lead; with `WHEN_DELETED` these are all the ways there are."""

UNREGISTERED = (State.NONE, State.UNMANAGED, State.REGISTERING, State.DELETING)
"""States in which the host need not be known to the engine before the step is taken."""


def replaces(wanted: Image | None, there: Image | None) -> bool:
    """Whether what is wanted takes off what is there: by Metal3's rule, when the URL or the deploy step is another, or none.

    A checksum or a format that is mended tells nothing of a disk that was written: a host is never taken off for that.
    """
    if wanted is None:
        return True
    if there is None:
        return False
    if there.method and wanted.method != there.method:
        return True
    return bool(there.url) and wanted.url != there.url


def escape(host: Host, outcome: Outcome) -> Outcome:
    """A deleted host is not kept by a step that fails again and again: the step is skipped."""
    state, failures = host.status.state, host.status.error_count
    if isinstance(outcome, Failed) and host.deleting and state in ESCAPES and failures >= ESCAPE_AFTER:
        return Move(ESCAPES[state])
    return outcome


async def _anew(turn: Turn, wish: str, kind: ErrorKind, begin: Callable[..., Awaitable[Result]], to: State) -> Outcome:
    """Begin anew what a person asked for: the host moves to its next state once Ironic has begun."""
    result = await begin(turn.access, restart=True)
    if isinstance(result, Again) and not result.busy:
        return Move(to, answered=wish)
    return _pending(result, kind) if not isinstance(result, Done) else Stay(0.0)


async def _power(turn: Turn, *, hard: bool = False) -> Outcome:
    reboots = [name for name in turn.host.annotations if name.partition("/")[0] == REBOOT]
    want = turn.host.spec.online and not reboots
    if want and turn.held and not turn.host.status.powered_on:
        return Stay(HELD_POLL, "its data image is changed while it is off", waits=ErrorKind.POWER)
    hard = hard or any('"hard"' in turn.host.annotations[name] for name in reboots)
    result = await turn.provisioner.power(turn.access, want, hard=hard, restart=turn.failed_before(ErrorKind.POWER))
    if not isinstance(result, Done):
        return _pending(result, ErrorKind.POWER)
    if REBOOT in reboots:  # it is off, which was the first half of it
        return Stay(0.0, changes={"powered_on": want}, answered=REBOOT)
    return Stay(POWER_POLL, changes={"powered_on": want})


def _pending(result: Again | Failed, kind: ErrorKind) -> Outcome:
    if isinstance(result, Failed):
        return result
    return Stay(result.after, result.doing, cleared=not result.busy, waits=kind, agent=result.agent)
