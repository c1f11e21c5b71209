"""From the outcome of a step to the host's next status and the time of its next reconciliation. Pure: time and randomness are
arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rackless.ports.provisioner import ErrorKind, Failed
from rackless.provisioning.baremetalhost import PROGRESSING, Condition, Operational, Span, State, Status
from rackless.provisioning.states import Move, Stay

OPERATIONS: Mapping[State, str] = {
    State.REGISTERING: "register",
    State.INSPECTING: "inspect",
    State.PROVISIONING: "provision",
    State.DEPROVISIONING: "deprovision",
}
"""States whose time is written down in `operationHistory`."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """How long to wait after the n-th failure in a row: `unit` × 2ⁿ, half of it left to chance, as Metal3 does it.

    Metal3's unit is a minute; here someone sits in front of the lab.
    """

    unit: float = 5.0
    ceiling: int = 9

    def after(self, failures: int, chance: float) -> float:
        return float(self.unit * 2 ** min(failures, self.ceiling) * (0.5 + chance / 2))


def settle(
    status: Status, outcome: Stay | Move | Failed, now: str, back_off: BackOff, chance: Callable[[], float]
) -> tuple[Status, float | None]:
    match outcome:
        case Failed(kind, message):
            failed = replace(
                status,
                operational=Operational.ERROR,
                error_type=kind,
                error_message=message,
                error_count=status.error_count + 1,
                doing="",
            )
            return _stamped(status, failed, now), back_off.after(failed.error_count, chance())
        case Stay(after=after, cleared=cleared, changes=changes):
            stayed = replace(_without_error(status) if cleared else status, **changes)
            return _stamped(status, stayed, now), after
        case Move(to=to, changes=changes):
            moved = replace(
                _without_error(status),
                state=to,
                error_count=0,
                history=_history(status, to, now),
                doing="",
                **changes,
            )
            return _stamped(status, moved, now), 0.0


def _without_error(status: Status) -> Status:
    operational = Operational.DISCOVERED if status.state is State.UNMANAGED else Operational.OK
    return replace(status, operational=operational, error_type=None, error_message="")


def _history(status: Status, to: State, now: str) -> dict[str, Span]:
    history = dict(status.history)
    if left := OPERATIONS.get(status.state):
        history[left] = Span(history.get(left, Span()).start, now)
    if entered := OPERATIONS.get(to):
        history[entered] = Span(now, None)
    return history


def _stamped(before: Status, after: Status, now: str) -> Status:
    return after if after == before else stamped(after, now)


def stamped(status: Status, now: str) -> Status:
    """A changed status with its lastUpdated time and its conditions."""
    return replace(status, last_updated=now, conditions=conditions(status, now))


_KNOWN = tuple(state for state in State if state not in (State.NONE, State.UNMANAGED, State.REGISTERING))
_WORKING = (*OPERATIONS, State.PREPARING, State.POWERING_OFF, State.DELETING)
_INSTALLED = (State.PROVISIONED, State.EXTERNALLY_PROVISIONED)


def conditions(status: Status, now: str) -> tuple[Condition, ...]:
    """The conditions of a host, as Metal3 has them. lastTransitionTime is kept while a condition stays the same. Metal3's
    `Healthy` is left out: it is the health that a BMC reports, which is not read here.
    """
    state, wrong = status.state, status.operational in (Operational.ERROR, Operational.DETACHED)
    said = {
        "Manageable": state in _KNOWN and status.error_type is not ErrorKind.REGISTRATION,
        PROGRESSING: state in _WORKING and not wrong,
        "AvailableForProvisioning": state is State.AVAILABLE and not wrong,
        "Provisioned": state in _INSTALLED,
        "Ready": state in _INSTALLED and not wrong,
    }
    before = {each.type: each for each in status.conditions}
    why = status.operational if status.operational is Operational.DETACHED else status.error_type or status.state
    reason = camel(why.value) or "New"
    found = []
    for type_, true in said.items():
        was = before.get(type_)
        since = was.since if was is not None and was.true == true else now
        found.append(Condition(type_, true, reason, since))
    return tuple(found)


def camel(words: str) -> str:
    return "".join(word.capitalize() for word in words.split())
