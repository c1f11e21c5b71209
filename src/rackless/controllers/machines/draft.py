"""What one reconciliation of a Machine has read, and what it has decided, before any of it is written. Pure.

A step of `living` or `deleting` reads what is seen, writes into the draft, and says whether the next step may follow.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rackless.controllers.machines.choosing import Choice
from rackless.controllers.machines.records import Machine
from rackless.controllers.runtime.controller import Happened
from rackless.ports.resources import Record

Truth = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Seen:
    machine: Machine
    host: Record | None
    """The Machine's host: the one whose consumerRef names it, or that its annotation names."""
    node: Record | None
    now: str
    choose: Callable[[], Choice]
    """Chooses a host for a Machine that has none; called only then. Raises BadSelector."""
    nodes_known: bool = True
    """Whether the cache of Nodes is filled."""
    pods: Sequence[Record] = ()
    """The pods that must leave the Node before the Machine may go; asked for only when it is drained."""
    drained_first: str = ""
    """The Node of another control plane that is being drained: this one waits for it."""


@dataclass
class Draft:
    seen: Seen
    status: dict[str, Any] = field(init=False)
    change: dict[str, Any] = field(default_factory=dict)
    """Merged into the Machine."""
    host: Record | None = None
    """Which host `host_change` is for."""
    host_change: dict[str, Any] = field(default_factory=dict)
    node_change: dict[str, Any] = field(default_factory=dict)
    forget_node: bool = False
    evict: Sequence[Record] = ()
    """Pods that are asked to leave the Node."""
    delete: bool = False
    """The Machine itself: whoever owns it makes another one."""
    after: float | None = None
    events: list[Happened] = field(default_factory=list)
    host_events: list[Happened] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.status = copy.deepcopy(dict(self.seen.machine.status))

    def annotate(self, **annotations: str | None) -> None:
        """With names that are no words: `annotate(**{NAME: value})`. What is there already is not written again."""
        found = self.seen.machine.annotations
        wanted = {name: value for name, value in annotations.items() if found.get(name) != value}
        if wanted:
            self.change.setdefault("metadata", {}).setdefault("annotations", {}).update(wanted)

    def condition(self, type_: str, truth: Truth, reason: str = "", message: str = "") -> bool:
        """Set a condition; True when its status or reason changed."""
        conditions = self.status.setdefault("conditions", [])
        found: dict[str, Any] | None = next((each for each in conditions if each.get("type") == type_), None)
        if found is None:
            found = {"type": type_}
            conditions.append(found)
        turned = found.get("status") != truth
        news = turned or found.get("reason", "") != reason
        if turned:
            found["lastTransitionTime"] = self.seen.now
        found["status"] = truth
        for name, value in (("reason", reason), ("message", message)):
            if value:
                found[name] = value
            else:
                found.pop(name, None)
        if truth == "False" and reason:
            found["severity"] = "Warning" if reason in _WARNINGS else "Info"
        else:
            found.pop("severity", None)
        return news

    def phase(self, phase: str) -> None:
        if self.status.get("phase") != phase:
            before = self.status.get("phase") or "new"
            self.status["phase"] = phase
            self.events.append(
                Happened(phase, f"from {before} to {phase}", "Warning" if phase == "Failed" else "Normal")
            )

    def error(self, reason: str = "", message: str = "") -> None:
        for name, value in (("errorReason", reason), ("errorMessage", message)):
            if value:
                self.status[name] = value
            else:
                self.status.pop(name, None)

    def tell(self, reason: str, message: str, type_: Literal["Normal", "Warning"] = "Normal") -> None:
        self.events.append(Happened(reason, message, type_))

    @property
    def new_status(self) -> Mapping[str, Any] | None:
        """The status where it differs from what is stored."""
        if self.status == self.seen.machine.status:
            return None
        return {**self.status, "lastUpdated": self.seen.now}


_WARNINGS = ("NoHostAvailable", "InvalidConfiguration", "HostGone", "HostFailed", "HostLeftAlone", "HookPresent")
