"""Node lifecycle: Nodes that stop sending heartbeats become NotReady, and conditions of a Node become taints.

A heartbeat is a change of the node's Lease, or of the heartbeat in its status. Its time is measured by this process's own clock:
the node's may be wrong. After the grace period without one, the API is asked once more before the Node is called NotReady: the
watch may have missed a heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rackless.controllers.runtime.cache import Cache
from rackless.controllers.runtime.controller import Happened, Result, Wake, own
from rackless.controllers.runtime.recorder import wall_clock
from rackless.controllers.runtime.runtime import Runtime
from rackless.ports.clock import Clock
from rackless.ports.resources import Key, Record, Resources

LEASES = "kube-node-lease"
GRACE_PERIOD = 40.0
"""Seconds without a heartbeat, as kube-controller-manager's node-monitor-grace-period was for years: four renewals of the Lease."""
SILENT = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that only the node itself can report: they become Unknown."""
_UNREACHABLE, _NOT_READY = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
TAINTS: Mapping[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    ("Ready", "False"): (_NOT_READY, ("NoSchedule", "NoExecute")),
    ("Ready", "Unknown"): (_UNREACHABLE, ("NoSchedule", "NoExecute")),
    ("MemoryPressure", "True"): ("node.kubernetes.io/memory-pressure", ("NoSchedule",)),
    ("DiskPressure", "True"): ("node.kubernetes.io/disk-pressure", ("NoSchedule",)),
    ("PIDPressure", "True"): ("node.kubernetes.io/pid-pressure", ("NoSchedule",)),
    ("NetworkUnavailable", "True"): ("node.kubernetes.io/network-unavailable", ("NoSchedule",)),
}
"""The taint for each condition and status: NoSchedule keeps new pods away, NoExecute evicts those that run."""
OURS = frozenset([*(key for key, _ in TAINTS.values()), _UNSCHEDULABLE])


@dataclass
class NodeLifeController:
    cache: Cache
    leases: Cache
    clock: Clock
    grace: float = GRACE_PERIOD
    now: Callable[[], str] = wall_clock
    name: str = "node-lifecycle"
    wakes: Sequence[Wake] = field(init=False)
    _heard: dict[str, tuple[Any, Any, float]] = field(default_factory=dict)
    """For each node: the last heartbeat in its Lease and its status, and when this process saw it."""

    def __post_init__(self) -> None:
        self.wakes = (own(self.cache, self._of_node), Wake(self.leases, self._of_lease))

    def _of_node(self, before: Record, after: Record) -> bool:
        """A heartbeat is only noted; another change of a Node wakes the controller."""
        self._listen(after["metadata"]["name"], beat=_beat(after))
        return _concern(before) != _concern(after)

    def _of_lease(self, before: Record | None, after: Record | None) -> Iterator[Key]:
        """A renewal of the Lease is only noted, unless the Node was NotReady or is new."""
        if after is None:
            return
        name = after["metadata"]["name"]
        key = Key("Node", "", name)
        known = name in self._heard
        self._listen(name, renewed=_renewed(after))
        node = self.cache.get(key)
        if node is not None and (not known or _status_of(node, "Ready") in (None, "Unknown")):
            yield key

    def _listen(self, name: str, *, renewed: Any = None, beat: Any = None) -> None:
        old_renewed, old_beat, at = self._heard.get(name, (None, None, 0.0))
        fresh = (old_renewed if renewed is None else renewed, old_beat if beat is None else beat)
        if name not in self._heard or fresh != (old_renewed, old_beat):
            at = self.clock.now()
        self._heard[name] = (*fresh, at)

    async def reconcile(self, key: Key, record: Record | None) -> Result:
        if record is None:
            self._heard.pop(key.name, None)
            return Result()
        self._listen(key.name, beat=_beat(record))
        left = self._left(key.name)
        if left <= 0:
            await self._ask_after(key.name)
            left = self._left(key.name)
        silent = left <= 0
        conditions = [dict(each) for each in (record.get("status") or {}).get("conditions") or ()]
        events: list[Happened] = []
        status = None
        if silent and _status_of(record, "Ready") != "Unknown":
            never = _status_of(record, "Ready") is None
            conditions = _silenced(conditions, never=never, now=self.now())
            status = {**(record.get("status") or {}), "conditions": conditions}
            said = f"no sign of life for {self.grace:.0f} seconds"
            events.append(
                Happened("NodeNotReady", f"{said}; it never said that it is ready" if never else said, "Warning")
            )
        change = _taint_change(record, conditions, self.now())
        if change is not None and _status_of(record, "Ready") == "True" and not silent and _shunned(record):
            events.append(Happened("NodeReady", "it is heard of again, and ready"))
        return Result(self.grace if silent else max(left, 0.1), status, change, tuple(events))

    def _left(self, name: str) -> float:
        return self._heard[name][2] + self.grace - self.clock.now()

    async def _ask_after(self, name: str) -> None:
        lease = await self.leases.resources.get("Lease", name, namespace=LEASES)
        if lease is not None:
            self._listen(name, renewed=_renewed(lease))

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        return None  # a Node's status is the node's

    def stopped(self, key: Key) -> None:
        """The next leader gives every node its grace period anew."""


def node_life_controller(runtime: Runtime, nodes: Resources, **more: Any) -> NodeLifeController:
    controller = NodeLifeController(
        runtime.cache(nodes, "Node"), runtime.cache(nodes, "Lease", namespace=LEASES), runtime.clock, **more
    )
    runtime.add(controller)
    return controller


def _silenced(conditions: Sequence[Mapping[str, Any]], *, never: bool, now: str) -> list[dict[str, Any]]:
    reason, message = (
        ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
        if never
        else ("NodeStatusUnknown", "Kubelet stopped posting node status.")
    )
    found = {str(each.get("type")): dict(each) for each in conditions}
    for type_ in SILENT:
        if type_ in found or type_ == "Ready":
            found[type_] = {
                **found.get(type_, {"type": type_}), "status": "Unknown", "reason": reason, "message": message,
                "lastTransitionTime": now,
            }  # fmt: skip
    return list(found.values())


def _taint_change(record: Record, conditions: Sequence[Mapping[str, Any]], now: str) -> Mapping[str, Any] | None:
    """The taints that the Node's conditions ask for; taints of others are left alone."""
    wanted: dict[tuple[str, str], None] = {}
    for each in conditions:
        key, effects = TAINTS.get((str(each.get("type")), str(each.get("status"))), ("", ()))
        wanted.update(dict.fromkeys((key, effect) for effect in effects))
    if (record.get("spec") or {}).get("unschedulable"):
        wanted[_UNSCHEDULABLE, "NoSchedule"] = None
    taints = [dict(each) for each in (record.get("spec") or {}).get("taints") or ()]
    kept = [t for t in taints if t.get("key") not in OURS or (str(t["key"]), str(t.get("effect"))) in wanted]
    there = {(str(each.get("key")), str(each.get("effect"))) for each in kept}
    for key, effect in wanted:
        if (key, effect) not in there:
            kept.append({"key": key, "effect": effect, "timeAdded": now})
    return {"spec": {"taints": kept or None}} if kept != taints else None


def _shunned(node: Record) -> bool:
    return any(taint.get("key") in (_UNREACHABLE, _NOT_READY) for taint in (node.get("spec") or {}).get("taints") or ())


def _status_of(node: Record, type_: str) -> str | None:
    for each in (node.get("status") or {}).get("conditions") or ():
        if each.get("type") == type_:
            return str(each.get("status"))
    return None


def _beat(node: Record) -> Any:
    """The heartbeat that the node itself last wrote, not what this controller wrote in its place."""
    return [
        each.get("lastHeartbeatTime")
        for each in (node.get("status") or {}).get("conditions") or ()
        if each.get("type") == "Ready"
    ]


def _renewed(lease: Record) -> Any:
    spec = lease.get("spec") or {}
    return spec.get("renewTime"), spec.get("holderIdentity")


def _concern(node: Record) -> tuple[Any, ...]:
    conditions = (node.get("status") or {}).get("conditions") or ()
    spec = node.get("spec") or {}
    return (
        node["metadata"]["uid"],
        [(each.get("type"), each.get("status")) for each in conditions],
        spec.get("taints"),
        spec.get("unschedulable"),
    )
