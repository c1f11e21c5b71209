"""The annotation that pauses the controllers of an object, with any value. Hosts have Metal3's, the kinds beside them Cluster
API's."""

from __future__ import annotations

from rackless.ports.resources import Record
from rackless.provisioning import baremetalhost

PAUSED = "cluster.x-k8s.io/paused"


def pause_of(kind: str) -> str:
    return baremetalhost.PAUSED if kind == baremetalhost.KIND else PAUSED


def is_paused(record: Record) -> bool:
    return pause_of(record["kind"]) in (record["metadata"].get("annotations") or {})
