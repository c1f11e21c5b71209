"""The phases of an install's machines as steps, made from what is seen of them: somebody else does the work."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from rackless.events import Bus, Step, current_step, inside
from rackless.ports.resources import Record

BUSY = frozenset({"registering", "inspecting", "preparing", "provisioning", "deprovisioning", "deleting"})
"""States in which somebody works on a host; the others are results."""
JOINING = "joining the cluster"


class SeenPhases:
    """They belong to the step in which this is made, whichever they are seen in. Those still open end with the `with` block, as
    cancelled: then nobody looks on. `by` is who does the work: how long it takes hangs on that."""

    def __init__(self, bus: Bus, by: str) -> None:
        self._bus = bus
        self._by = {f"by_{by}": 1.0}
        self._parent = current_step()
        self._open: dict[str, tuple[str, Step]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for subject in list(self._open):
            _, step = self._open.pop(subject)
            step.outcome = "cancelled"
            step.end()

    def see(self, subject: str, phase: str, error: str = "") -> None:
        """`phase` goes on now, or nothing does if it is empty; the one before ended, by `error` if there is one."""
        now, step = self._open.get(subject, ("", None))
        if phase == now:
            return
        if step is not None:
            del self._open[subject]
            if error:
                step.failed("", error)
            step.end()
        if phase:
            with inside(self._parent):
                self._open[subject] = (phase, self._bus.begin(phase, subject=subject, **self._by))

    def see_hosts(self, hosts: Sequence[Record], nodes: Sequence[Record] | None = None) -> None:
        """What the API says of hosts and, where that is known, of the nodes that they become, which have their names."""
        for host in hosts:
            name, status = str(host["metadata"]["name"]), host.get("status") or {}
            state, error = (status.get("provisioning") or {}).get("state") or "", status.get("errorMessage") or ""
            self.see(f"host/{name}", state if state in BUSY and not error else "", str(error))
            if nodes is not None:
                node = next((each for each in nodes if each["metadata"]["name"] == name), None)
                joins = state == "provisioned" and not (node is not None and is_ready(node))
                self.see(f"node/{name}", JOINING if joins else "")


def is_ready(node: Record) -> bool:
    conditions: Sequence[Any] = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
