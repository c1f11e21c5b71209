"""The controller of MachineHealthChecks.

The remediation of an unhealthy Machine: with the annotation `machine.openshift.io/remediation-strategy: external-baremetal` on
the check, its host is switched off and on (`machines/remediating.py`); without it the Machine is deleted, where a MachineSet
makes another one. When more than `maxUnhealthy` are unhealthy, something else is broken, and nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rackless.controllers.health.judging import Health, allowed, judge, seconds
from rackless.controllers.machines.records import KIND as MACHINE
from rackless.controllers.machines.records import REMEDIATE, Machine, controller_of, read
from rackless.controllers.machines.selectors import BadSelector, matches
from rackless.controllers.pausing import is_paused
from rackless.controllers.runtime.cache import Cache
from rackless.controllers.runtime.controller import Happened, Result, Wake, own
from rackless.controllers.runtime.recorder import Recorder
from rackless.controllers.runtime.runtime import Runtime
from rackless.ports.resources import Key, Record, Resources, key_of

KIND = "MachineHealthCheck"
STRATEGY = "machine.openshift.io/remediation-strategy"
POWER_CYCLE = "external-baremetal"


@dataclass
class HealthController:
    cache: Cache
    machines: Cache
    nodes: Cache
    recorder: Recorder
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    name: str = "machine-health-check"
    wakes: Sequence[Wake] = field(init=False)

    def __post_init__(self) -> None:
        self.wakes = (
            own(self.cache, lambda before, after: _wanted(before) != _wanted(after)),
            Wake(self.machines, lambda before, after: self._all()),
            Wake(self.nodes, self._of_node),
        )

    def _all(self) -> Iterable[Key]:
        return [key_of(record) for record in self.cache]

    def _of_node(self, before: Record | None, after: Record | None) -> Iterable[Key]:
        """Wake the health checks of a changed Node, but not for heartbeats."""
        if before is not None and after is not None and _answers(before) == _answers(after):
            return ()
        return self._all()

    async def reconcile(self, key: Key, record: Record | None) -> Result:
        if record is None or is_paused(record):
            return Result()
        spec = record.get("spec") or {}
        try:
            machines = [found for found in self.machines if self._targeted(found, spec, key.namespace)]
        except BadSelector as error:
            return Result(events=(Happened("InvalidSelector", str(error), "Warning"),))
        found = [(machine, self._health(spec, machine)) for machine in machines]
        unwell = [(machine, health) for machine, health in found if not health.well]
        limit = allowed(spec.get("maxUnhealthy"), len(machines))
        events: list[Happened] = []
        if restricted := _restriction(spec, len(machines), len(unwell), limit):
            if not _restricted(record):
                events.append(Happened("RemediationRestricted", restricted[1], "Warning"))
            status = self._status(record, len(machines), len(unwell), 0, restricted)
        else:
            for machine, health in unwell:
                events += await self._remedy(record, machine, health)
            status = self._status(record, len(machines), len(unwell), limit - len(unwell), None)
        waits = [health.later for _, health in found if health.later is not None]
        changed = status if status != (record.get("status") or {}) else None
        return Result(min(waits, default=None), changed, events=tuple(events))

    def _targeted(self, machine: Record, spec: Mapping[str, Any], namespace: str) -> bool:
        metadata = machine["metadata"]
        there = metadata.get("namespace") == namespace and not metadata.get("deletionTimestamp")
        return there and matches(spec.get("selector") or {}, metadata.get("labels") or {})

    def _health(self, spec: Mapping[str, Any], record: Record) -> Health:
        machine = read(record)
        name = (machine.status.get("nodeRef") or {}).get("name")
        node = self.nodes.get(Key("Node", "", str(name))) if name else None
        return judge(spec, machine, node, self.now())

    async def _remedy(self, check: Record, record: Record, health: Health) -> list[Happened]:
        machine, metadata = read(record), record["metadata"]
        by_power = (check["metadata"].get("annotations") or {}).get(STRATEGY) == POWER_CYCLE
        if by_power and machine.phase != "Failed":
            if REMEDIATE in machine.annotations:
                return []  # it is being done
            self.machines.put(
                await self.machines.resources.patch(
                    MACHINE,
                    machine.name,
                    {"metadata": {"annotations": {REMEDIATE: _startup(check)}}},
                    namespace=machine.namespace,
                    resource_version=metadata["resourceVersion"],
                )
            )
            return self._told(record, machine, f"{health.why}: its host is switched off and on")
        if (owner := controller_of(record)) is None or machine.control_plane:
            return []  # nobody would make another one
        await self.machines.resources.delete(MACHINE, machine.name, namespace=machine.namespace, uid=metadata["uid"])
        return self._told(record, machine, f"{health.why}: it is deleted, and {owner.get('name')} makes another one")

    def _told(self, record: Record, machine: Machine, said: str) -> list[Happened]:
        self.recorder.tell(self.machines.resources, self.name, record, Happened("Unhealthy", said, "Warning"))
        return [Happened("RemediationStarted", f"{machine.name}: {said}")]

    def _status(
        self, record: Record, machines: int, unwell: int, left: int, restricted: tuple[str, str] | None
    ) -> dict[str, Any]:
        before = record.get("status") or {}
        old: Mapping[str, Any] = next(
            (each for each in before.get("conditions") or () if each.get("type") == "RemediationAllowed"), {}
        )
        truth = "False" if restricted else "True"
        at = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "RemediationAllowed",
            "status": truth,
            "lastTransitionTime": old["lastTransitionTime"] if old.get("status") == truth else at,
            **({"reason": restricted[0], "message": restricted[1], "severity": "Warning"} if restricted else {}),
        }
        return {
            **before,
            "expectedMachines": machines,
            "currentHealthy": machines - unwell,
            "remediationsAllowed": max(0, left),
            "conditions": [condition],
        }

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        return None

    def stopped(self, key: Key) -> None:
        """Nothing to forget: this controller keeps no state between reconciliations."""


def health_controller(runtime: Runtime, resources: Resources, nodes: Resources, **more: Any) -> HealthController:
    controller = HealthController(
        runtime.cache(resources, KIND),
        runtime.cache(resources, MACHINE),
        runtime.cache(nodes, "Node"),
        runtime.recorder,
        **more,
    )
    runtime.add(controller)
    return controller


def _startup(check: Record) -> str:
    """For how many seconds a system may take to become a Node again, where the check says so."""
    limit = seconds((check.get("spec") or {}).get("nodeStartupTimeout"), 0.0)
    return f"{limit:.0f}" if limit else ""


def _restriction(spec: Mapping[str, Any], machines: int, unwell: int, limit: int) -> tuple[str, str] | None:
    """Why nothing is done about the unhealthy: a reason in one word, and in words; None when something is."""
    if spec.get("remediationTemplate"):  # the embedded API refuses it; another one does not
        return "RemediationTemplate", "its remediationTemplate is for another controller: nothing is done here"
    if unwell > limit:
        return "TooManyUnhealthy", f"{unwell} of {machines} are unwell, more than {limit}: nothing is done"
    return None


def _restricted(record: Record) -> bool:
    conditions = (record.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "RemediationAllowed" and each.get("status") == "False" for each in conditions)


def _answers(node: Record) -> list[tuple[Any, Any]]:
    return [(each.get("type"), each.get("status")) for each in (node.get("status") or {}).get("conditions") or ()]


def _wanted(record: Record) -> tuple[Any, ...]:
    metadata = record["metadata"]
    return metadata["uid"], metadata["generation"], metadata.get("annotations")
