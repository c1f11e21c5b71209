"""A host's progress as events on the bus: one step for each phase, from entering a provisioning state to leaving it or failing in
it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from rackless.events import Bus, Step
from rackless.provisioning.baremetalhost import State

_PHASES = (
    State.REGISTERING,
    State.INSPECTING,
    State.PREPARING,
    State.PROVISIONING,
    State.DEPROVISIONING,
    State.POWERING_OFF,
    State.DELETING,
)
"""Provisioning states in which something is done; the others get no step."""

_BOOT = "the server boots the agent"
_STEPS: Mapping[State, Sequence[str]] = {
    State.REGISTERING: ("registering", "checking access to the BMC"),
    State.INSPECTING: ("starting inspection", _BOOT, "inspecting"),
    State.PREPARING: ("giving the firmware its settings", "cleaning", _BOOT, "erase devices metadata"),
    State.PROVISIONING: (
        "starting to write the image", "deploy", _BOOT, "write image", "prepare instance boot", "tear down agent",
        "switch to tenant network", "boot instance",
    ),
    State.DEPROVISIONING: ("taking the system off", "cleaning", _BOOT, "erase devices metadata"),
}  # fmt: skip
"""What the engine does in each state, in this order: how much of it is done is told in percent."""


def worded(state: State, doing: str, since: str) -> str:
    """For the status: what is being done, how much of its phase lies behind it, and since when (an RFC 3339 time)."""
    steps = _STEPS.get(state, ())
    part = f"{steps.index(doing) * 100 // len(steps)} %: " if doing in steps else ""
    return f"{part}{doing}, since {since.partition('T')[2]}"


class Progress:
    """The open step of one host. All calls come from the one task that looks after the host."""

    def __init__(self, bus: Bus, host: str) -> None:
        self._bus = bus
        self._host = host
        self._state: State | None = None
        self._step: Step | None = None
        self._open = ExitStack()
        self._said = ""

    def at(self, state: State) -> None:
        """The host is in this state now."""
        if state is self._state:
            return
        self.close()
        self._state = state
        if state in _PHASES:
            self._step = self._open.enter_context(self._bus.step(state.value, subject=f"host/{self._host}"))

    def doing(self, what: str) -> None:
        if self._step and what and what != self._said:
            self._said = what
            self._step.progress(what)

    def failed(self, kind: str, message: str) -> None:
        """The phase failed; it begins as a new step when it is tried again."""
        if self._step:
            self._step.failed(kind, f"{kind}: {message}".partition("\n")[0])
        else:
            self._bus.tell("host-failed", subject=f"host/{self._host}", host=self._host, kind=kind, why=message)
        self.close()

    def close(self) -> None:
        self._open.close()
        self._state, self._step, self._said = None, None, ""

    def abandon(self) -> None:
        """The controller stops; the phase goes on in Ironic."""
        if self._step:
            self._step.outcome = "cancelled"
        self.close()
