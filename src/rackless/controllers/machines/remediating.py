"""Remediation by power cycle of a Machine whose Node is unhealthy: its host is switched off, its Node deleted, the host switched
on again. Pure.

    asked for ─▶ the host is off ─▶ the Node's labels are kept ─▶ the Node is gone ─▶ the host is on ─▶ the Node is back

The Node is deleted only when the host is surely off (fencing): its workload may then run elsewhere. The progress is in
annotations of the Machine, so that any controller can go on with it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from rackless.controllers.machines.draft import Draft
from rackless.controllers.machines.records import REMEDIATE, moment, ready
from rackless.controllers.runtime.controller import Happened
from rackless.ports.resources import Record

POWER_OFF = "reboot.metal3.io/capbm-requested-power-off"
OFF = "remediation.metal3.io/powered-off-for-remediation"
LABELS, ANNOTATIONS = "remediation.metal3.io/node-labels", "remediation.metal3.io/node-annotations"
UNTIL = "remediation.metal3.io/power-on-will-timeout-at"
ON_WITHIN = timedelta(minutes=20)
"""For the Node to come back, where the health check has no `nodeStartupTimeout`."""


def remediate(draft: Draft) -> bool:
    machine, host = draft.seen.machine, draft.seen.host
    if REMEDIATE not in machine.annotations or host is None:
        return True
    held = POWER_OFF in (host["metadata"].get("annotations") or {})
    if OFF in machine.annotations:
        return _return(draft, host, held)
    if not held:
        _switch(draft, host, '{"mode": "hard"}')
        draft.tell("RemediationStarted", f"host {host['metadata']['name']} is switched off")
        return False
    if (host.get("status") or {}).get("poweredOn") or not draft.seen.nodes_known:
        return False
    node = draft.seen.node
    if node is not None and LABELS not in machine.annotations:
        metadata = node["metadata"]
        kept = {LABELS: metadata.get("labels") or {}, ANNOTATIONS: metadata.get("annotations") or {}}
        draft.annotate(**{name: json.dumps(value, sort_keys=True) for name, value in kept.items()})
        return False
    draft.forget_node = node is not None
    draft.annotate(**{OFF: draft.seen.now})
    draft.tell("PoweredOff", f"host {host['metadata']['name']} is off, and its Node is gone")
    return False


def _return(draft: Draft, host: Record, held: bool) -> bool:
    machine, node = draft.seen.machine, draft.seen.node
    now = moment(draft.seen.now) or datetime.now(UTC)
    if held:
        _switch(draft, host, None)
        until = now + _within(machine.annotations.get(REMEDIATE, ""))
        draft.annotate(**{UNTIL: until.strftime("%Y-%m-%dT%H:%M:%SZ")})
        return False
    if node is not None and ready(node):
        draft.node_change = _restored(machine.annotations.get(LABELS), machine.annotations.get(ANNOTATIONS), node)
        draft.annotate(**dict.fromkeys((REMEDIATE, OFF, LABELS, ANNOTATIONS, UNTIL)))
        draft.tell("RemediationSucceeded", f"Node {node['metadata']['name']} is back")
        return False
    until = moment(machine.annotations.get(UNTIL)) or now
    if now < until:
        draft.after = max(1.0, (until - now).total_seconds())
        return True
    replaceable = (
        machine.owned and not machine.control_plane and not (host.get("spec") or {}).get("externallyProvisioned")
    )
    if replaceable:
        draft.delete = True
        draft.tell("RemediationFailed", "its Node has not come back: another Machine is made in its place", "Warning")
    elif draft.condition("Remediated", "False", "NodeNotBack", "its Node has not come back"):
        draft.tell("RemediationFailed", "its Node has not come back, and nobody would make another Machine", "Warning")
    return True


def _within(said: str) -> timedelta:
    """The annotation has the seconds of the check that asked for this; a person who asked by hand gave none."""
    return timedelta(seconds=int(said)) if said.isascii() and said.isdigit() and len(said) < 8 else ON_WITHIN


def _switch(draft: Draft, host: Record, value: str | None) -> None:
    draft.host, draft.host_change = host, {"metadata": {"annotations": {POWER_OFF: value}}}
    draft.host_events.append(
        Happened("Remediation", f"Machine {draft.seen.machine.name} wants it {'off' if value else 'on'}")
    )


def _restored(labels: str | None, annotations: str | None, node: Record) -> dict[str, Any]:
    """The labels and annotations that the Node had before and lacks now."""
    change: dict[str, Any] = {}
    for field, kept in (("labels", labels), ("annotations", annotations)):
        found = node["metadata"].get(field) or {}
        try:
            had = json.loads(kept or "{}")
        except ValueError:
            continue  # a person has changed the annotation
        lacking = {name: value for name, value in had.items() if name not in found}
        if lacking:
            change.setdefault("metadata", {})[field] = lacking
    return change
