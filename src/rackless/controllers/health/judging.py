"""Whether a Machine is healthy, by its MachineHealthCheck and the conditions of its Node. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rackless.controllers.machines.records import Machine, moment
from rackless.ports.resources import Record

STARTUP = 600.0
"""nodeStartupTimeout in seconds, where the check has none: from the host's installation until its Node joins."""
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")


@dataclass(frozen=True, slots=True)
class Health:
    well: bool
    why: str = ""
    """Why the Machine is unhealthy."""
    later: float | None = None
    """In how many seconds it will count as unhealthy when nothing changes; None: never."""


def seconds(text: Any, otherwise: float) -> float:
    """`5m30s` and its kin."""
    parts = _PART.findall(str(text or ""))
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else otherwise


def allowed(limit: Any, machines: int) -> int:
    """maxUnhealthy as a number: how many Machines may be unhealthy before nothing is done; a percentage is rounded down."""
    text = str("100%" if limit is None else limit)
    many = math.floor(machines * int(text[:-1]) / 100) if text.endswith("%") else int(text)
    return max(0, many)


def judge(check: Mapping[str, Any], machine: Machine, node: Record | None, now: datetime) -> Health:
    """`check` is the spec of the health check."""
    if machine.phase == "Failed":
        return Health(False, f"it has failed: {machine.status.get('errorMessage') or 'no reason is told'}")
    reference = machine.status.get("nodeRef")
    if node is None and reference:
        return Health(False, f"its Node {reference.get('name')} is gone")
    if node is None:
        return _starting(check, machine, now)
    soonest: float | None = None
    for rule in check.get("unhealthyConditions") or ():
        for condition in _conditions(node, rule):
            since = moment(condition.get("lastTransitionTime")) or now
            left = seconds(rule.get("timeout"), 300.0) - (now - since).total_seconds()
            if left <= 0:
                said = f"its Node says {rule.get('type')}={rule.get('status')} for more than {rule.get('timeout')}"
                return Health(False, said)
            soonest = left if soonest is None else min(soonest, left)
    return Health(True, later=soonest)


def _starting(check: Mapping[str, Any], machine: Machine, now: datetime) -> Health:
    limit = seconds(check.get("nodeStartupTimeout"), STARTUP)
    begun = next(
        (
            moment(each.get("lastTransitionTime"))
            for each in machine.status.get("conditions") or ()
            if each.get("type") == "InstanceExists" and each.get("status") == "True"
        ),
        None,
    )
    if begun is None or limit == 0:
        return Health(True)  # its host is not there yet, which has deadlines of its own; or nobody counts
    left = limit - (now - begun).total_seconds()
    if left <= 0:
        return Health(False, f"its system has not become a Node within {check.get('nodeStartupTimeout') or '10m'}")
    return Health(True, later=left)


def _conditions(node: Record, rule: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found = (node.get("status") or {}).get("conditions") or ()
    return [each for each in found if (each.get("type"), each.get("status")) == (rule.get("type"), rule.get("status"))]
