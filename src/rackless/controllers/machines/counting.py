"""How many Machines a MachineSet has, how many it wants, and which of them are deleted first. Pure.

The order of deletion is deterministic: those that cost least first, then the newest, then by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rackless.controllers.machines.choosing import by_name
from rackless.controllers.machines.records import (
    API_VERSION,
    FINALIZER,
    KIND,
    SET,
    consumer_of,
    controller_of,
    delete_first,
    read,
    ready,
)
from rackless.controllers.machines.selectors import Selector, matches, text
from rackless.ports.resources import Record

MUST, BETTER, COULD, MAY = 100.0, 50.0, 40.0, 20.0
"""Deletion priorities: the Machine is being deleted already; an annotation or an error asks for it; it has no Node yet; none of
these."""
LONG = 100 * 86400.0
"""Seconds: a Machine of this age counts as old."""


def owned(machine_set: Record, machine: Record) -> bool:
    owner = controller_of(machine)
    return owner is not None and owner.get("uid") == machine_set["metadata"]["uid"]


def orphan(machine_set: Record, machine: Record) -> bool:
    """Whether a Machine without an owner matches this set's selector."""
    selector = (machine_set.get("spec") or {}).get("selector") or {}
    return (
        controller_of(machine) is None
        and not machine["metadata"].get("deletionTimestamp")
        and bool(text(selector))
        and matches(selector, machine["metadata"].get("labels") or {})
    )


def owner_reference(machine_set: Record) -> Record:
    metadata = machine_set["metadata"]
    return {
        "apiVersion": API_VERSION,
        "kind": SET,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def problem(machine_set: Record) -> str:
    """Why no Machines can be made of this set; empty when they can. Raises BadSelector."""
    spec = machine_set.get("spec") or {}
    selector, labels = spec.get("selector") or {}, _template(machine_set)[0].get("labels") or {}
    if not text(selector):
        return "spec.selector is empty: every Machine there is would be its own"
    if not matches(selector, labels):
        return f"the labels of spec.template do not fulfil spec.selector ({text(selector)}): its Machines would not be its own"
    return ""


def new_machine(machine_set: Record, suffix: str) -> Record:
    metadata, spec = _template(machine_set)
    name = machine_set["metadata"]["name"]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": f"{name[: 253 - len(suffix) - 1]}-{suffix}",
            "namespace": machine_set["metadata"]["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owner_reference(machine_set)],
            "finalizers": [FINALIZER],
        },
        "spec": spec,
    }


def _template(machine_set: Record) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    template = (machine_set.get("spec") or {}).get("template") or {}
    return template.get("metadata") or {}, template.get("spec") or {}


@dataclass(frozen=True, slots=True)
class Going:
    """A Machine's deletion priority, and the reason for it."""

    priority: float
    why: str


def going(policy: str, machine: Record, now: datetime) -> Going:
    found = read(machine)
    if found.deleting:
        return Going(MUST, "it is being deleted already")
    chosen = BETTER if policy == "Random" else MUST
    if delete_first(found.annotations):
        return Going(chosen, "it is marked to go first")
    if found.status.get("errorReason") or found.status.get("errorMessage") or found.phase == "Failed":
        return Going(chosen, f"it has failed: {found.status.get('errorMessage') or found.phase}")
    if policy == "Random":
        if not found.status.get("nodeRef"):
            return Going(COULD, "it is no Node yet")
        return Going(MAY, "one of those that are alike, the newest first")
    aged = BETTER * (1 - math.exp(-max(0.0, (now - _born(machine)).total_seconds()) / LONG))
    return Going(aged if policy == "Oldest" else MUST - aged, f"it is the {policy.lower()}")


def leaving(policy: str, machines: Sequence[Record], many: int, now: datetime) -> list[tuple[Record, str]]:
    """The `many` Machines that are deleted first, with the reasons."""

    def order(machine: Record) -> tuple[Any, ...]:
        return (
            -going(policy, machine, now).priority,
            -_born(machine).timestamp(),
            by_name(machine["metadata"]["name"]),
        )

    return [(machine, going(policy, machine, now).why) for machine in sorted(machines, key=order)[: max(0, many)]]


def _born(record: Record) -> datetime:
    try:
        return datetime.fromisoformat(record["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
    except (KeyError, ValueError):
        return datetime.fromtimestamp(0, UTC)


def hosts_for(machine_set: Record, hosts: Sequence[Record], machine: Callable[[str], Record | None]) -> int | None:
    """How many hosts the Machines of a set could have: available ones and those they have, in whatever state. None: not known now.

    `machine` finds a Machine by `namespace/name`. Raises BadSelector.
    """
    spec = machine_set.get("spec") or {}
    _, template = _template(machine_set)
    wanted: Selector = ((template.get("providerSpec") or {}).get("value") or {}).get("hostSelector") or {}
    found = 0
    for host in hosts:
        if not (host.get("spec") or {}).get("consumerRef"):
            found += matches(wanted, host["metadata"].get("labels") or {})
        elif consumer := consumer_of(host):
            its = machine(consumer)
            if its is None:
                return None  # between two looks; counting now would take one away that is needed
            found += matches(spec.get("selector") or {}, its["metadata"].get("labels") or {})
    return found


def status(
    machine_set: Record, machines: Sequence[Record], node: Callable[[str], Record | None], now: datetime
) -> tuple[dict[str, Any], float | None]:
    """The status of a set, and in how many seconds another of its Machines counts as available."""
    spec = machine_set.get("spec") or {}
    labels = _template(machine_set)[0].get("labels") or {}
    patience = int(spec.get("minReadySeconds") or 0)
    many_ready = available = complete = 0
    soonest: float | None = None
    for machine in machines:
        found = read(machine)
        complete += labels.items() <= dict(found.labels).items()
        its = node(str((found.status.get("nodeRef") or {}).get("name") or ""))
        if its is None or not ready(its):
            continue
        many_ready += 1
        left = patience - (now - _ready_since(its, now)).total_seconds()
        if left <= 0:
            available += 1
        else:
            soonest = left if soonest is None else min(soonest, left)
    fresh = {
        **(machine_set.get("status") or {}),
        "replicas": len(machines),
        "fullyLabeledReplicas": complete,
        "readyReplicas": many_ready,
        "availableReplicas": available,
        "observedGeneration": machine_set["metadata"]["generation"],
    }
    if selector := text(spec.get("selector") or {}):
        fresh["labelSelector"] = selector
    return fresh, soonest


def _ready_since(node: Record, now: datetime) -> datetime:
    for each in (node.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Ready":
            try:
                return datetime.fromisoformat(str(each.get("lastTransitionTime")).replace("Z", "+00:00"))
            except ValueError:
                break
    return now
