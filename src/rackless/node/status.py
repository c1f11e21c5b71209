"""The Node and its Lease as a node writes them. Pure.

The words of conditions and reasons are a kubelet's, because that is what people and programs look for. What differs is
said: this node runs no pods, and its capacity for them is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rackless import __version__
from rackless.node.api import Json
from rackless.node.facts import LEAST_DISK, LEAST_MEMORY, Facts

LEASE_SECONDS = 40
VERSION = f"v1.32.0+rackless-{__version__}"
"""The version of the Kubernetes API whose rules this agent follows, and the version of the agent."""
PORT = 10250
_CONDITIONS = (
    # type, attribute of Facts, reason and words while it is well, reason and words while it is not
    ("MemoryPressure", "memory_pressure", "SufficientMemory", "sufficient memory", "InsufficientMemory", "little memory left"),
    ("DiskPressure", "disk_pressure", "NoDiskPressure", "no disk pressure", "DiskPressure", "little disk space left"),
    ("PIDPressure", "pid_pressure", "SufficientPID", "sufficient PIDs", "InsufficientPID", "few PIDs left"),
)  # fmt: skip


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def fine_moment(seconds: float) -> str:
    """The time with microseconds, as Leases have it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def own_labels(name: str) -> dict[str, str]:
    """The labels that a node may give itself; its role is for the cluster to say."""
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
    }


def node(name: str, taints: Sequence[Mapping[str, str]]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own_labels(name)},
        "spec": {"taints": [dict(taint) for taint in taints]} if taints else {},
    }


def ready_event(name: str, uid: str, now: float, seconds: float, refused: float) -> Json:
    """How long it took from the agent's start until its node was ready, for `kubectl get events`; for the first `refused` seconds
    the API did not let it in."""
    waited = f"; for the first {refused:.1f} s the API did not answer, or did not know it yet" if refused else ""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{int(now * 1000):x}", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid},
        "type": "Normal",
        "reason": "NodeReady",
        "message": f"ready {seconds:.1f} s after its agent was started{waited}",
        "source": {"component": "rackless-node", "host": name},
        "reportingComponent": "rackless-node",
        "firstTimestamp": moment(now),
        "lastTimestamp": moment(now),
        "count": 1,
    }


def status(name: str, facts: Facts, now: float, before: Json, *, serving: bool) -> Json:
    """The whole status of the Node; `before` is the stored status, which has the times when conditions changed last."""
    disk, memory = facts.disk.whole, facts.memory.whole
    shared = {"cpu": str(facts.processors), "pods": "0", "hugepages-2Mi": "0"}
    return {
        "capacity": {**shared, "memory": f"{memory >> 10}Ki", "ephemeral-storage": f"{disk >> 10}Ki"},
        "allocatable": {
            **shared,
            "memory": f"{max(0, memory - LEAST_MEMORY) >> 10}Ki",
            "ephemeral-storage": str(int(disk * (1 - LEAST_DISK))),
        },
        "addresses": [
            *({"type": "InternalIP", "address": address} for address in facts.addresses),
            {"type": "Hostname", "address": name},
        ],
        "conditions": conditions(facts, now, before),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": PORT if serving else 0}},
        "nodeInfo": {
            "machineID": facts.machine_id,
            "systemUUID": facts.system_uuid,
            "bootID": facts.boot_id,
            "kernelVersion": facts.kernel,
            "osImage": facts.system,
            "containerRuntimeVersion": "none",
            "kubeletVersion": VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }


def conditions(facts: Facts, now: float, before: Json) -> list[Json]:
    known = {found.get("type"): found for found in before.get("conditions") or ()}
    told = []
    for kind, attribute, well, well_words, ill, ill_words in _CONDITIONS:
        pressed = bool(getattr(facts, attribute))
        reason, words = (ill, ill_words) if pressed else (well, well_words)
        told.append((kind, "True" if pressed else "False", f"KubeletHas{reason}", f"the node has {words}"))
    told.append(("Ready", "True", "KubeletReady", "the node agent is posting ready status; it runs no pods"))
    return [
        {
            "type": kind,
            "status": value,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": moment(now),
            "lastTransitionTime": _since(known.get(kind) or {}, value) or moment(now),
        }
        for kind, value, reason, message in told
    ]


def _since(before: Json, value: str) -> str:
    return str(before.get("lastTransitionTime") or "") if before.get("status") == value else ""


def differs(told: Json, there: Json) -> bool:
    """Whether the stored status says something else; heartbeat times do not count."""
    return _worded(told) != _worded({key: there.get(key) for key in told})


def _worded(found: Json) -> Json:
    bare = [
        (each.get("type"), each.get("status"), each.get("reason"), each.get("message"))
        for each in found.get("conditions") or ()
    ]
    ours = {kind for kind, *_ in _CONDITIONS} | {"Ready"}
    return {**found, "conditions": sorted(each for each in bare if each[0] in ours)}


def lease(name: str, uid: str, now: float) -> Json:
    """The Lease is owned by the Node, so that it is removed with it."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
        **renewal(name, now),
    }


def renewal(name: str, now: float) -> Json:
    return {"spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": fine_moment(now)}}
