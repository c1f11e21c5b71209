"""Which pods leave a Node that is drained, as `kubectl drain --ignore-daemonsets --delete-emptydir-data --force` decides. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from rackless.controllers.machines.records import controller_of
from rackless.ports.resources import Record

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a pod that the kubelet keeps of a file: the API cannot end it."""
UNREACHABLE_GRACE_S = 1
"""Nobody can tell a pod on a Node that is not heard of to end: it gets no longer than this."""
LOOK_AGAIN = 5.0
"""Seconds until the pods of a Node that is drained are asked for again: they are not watched."""
TOLD = 5
"""Pods that one message names."""
_OVER = ("Succeeded", "Failed")
_ROLES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def to_evict(pods: Iterable[Record], *, unreachable: bool) -> list[Record]:
    """The pods that must go before the Node is empty; those that go already on a Node that is not heard of are not waited for."""
    return [pod for pod in pods if _leaves(pod) and not (unreachable and _goes(pod))]


def unreachable(node: Record) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "Unknown" for each in conditions)


def being_drained(node: Record, others: Iterable[Record], cordoning: Container[str] = ()) -> str:
    """Another control plane that takes nothing new, while this Node is one: of control planes one is drained at a time.

    `cordoning` are those that are about to take nothing new.
    """
    if not _is_control_plane(node):
        return ""
    name = node["metadata"]["name"]
    found = (
        each["metadata"]["name"]
        for each in others
        if each["metadata"]["name"] != name
        and ((each.get("spec") or {}).get("unschedulable") or each["metadata"]["name"] in cordoning)
        and _is_control_plane(each)
    )
    return min(found, default="")


def names_of(pods: Sequence[Record]) -> str:
    """`2 pods: a/b, c/d`, the first few of them."""
    names = sorted(f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}" for pod in pods)
    left = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return f"{len(names)} {'pods' if len(names) > 1 else 'pod'}: {', '.join(names[:TOLD])}{left}"


def waiting(pods: Iterable[Record]) -> list[Record]:
    """Those that were not told to go yet."""
    return [pod for pod in pods if not _goes(pod)]


def _goes(pod: Record) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _leaves(pod: Record) -> bool:
    if MIRROR in (pod["metadata"].get("annotations") or {}):
        return False
    over = (pod.get("status") or {}).get("phase") in _OVER
    return over or (controller_of(pod) or {}).get("kind") != "DaemonSet"


def _is_control_plane(node: Record) -> bool:
    return any(role in (node["metadata"].get("labels") or {}) for role in _ROLES)
