"""The kinds that clients ask for and that never have an object here: there is no kubelet and no scheduler.

They can be listed and watched, and are empty; nothing can be written. `kubectl describe node` asks for the node's pods,
`kubectl cluster-info` for services, `kubectl drain` for what there is to evict, `kubectl get all` for everything.
"""

from __future__ import annotations

from rackless.api.kinds.kind import Kind, Version
from rackless.api.kinds.shapes import ANY, root

_POD_FIELDS = frozenset((
    "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
    "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
))  # fmt: skip
_FIELDS = {
    "pods": _POD_FIELDS,
    "replicationcontrollers": frozenset(["status.replicas"]),
    "replicasets": frozenset(["status.replicas"]),
    "jobs": frozenset(["status.successful"]),
    "services": frozenset(["spec.clusterIP", "spec.type"]),
}


def _empty(
    group: str, versions: str, plural: str, kind: str, short: str = "", *, namespaced: bool = True, all: bool = True
) -> Kind:
    schema = root(f"{kind} objects do not exist here: this server lists none and takes none.", spec=ANY, status=ANY)
    return Kind(
        group, plural, kind,
        tuple(Version(name, schema, storage=index == 0) for index, name in enumerate(versions.split())),
        namespaced=namespaced, short_names=tuple(short.split()), categories=("all",) if all else (),
        verbs=("get", "list", "watch"), field_names=_FIELDS.get(plural, frozenset()),
        fields=(lambda obj: {}) if plural in _FIELDS else None,
    )  # fmt: skip


EMPTY = (
    _empty("", "v1", "pods", "Pod", "po"),
    _empty("", "v1", "services", "Service", "svc"),
    _empty("", "v1", "endpoints", "Endpoints", "ep", all=False),
    _empty("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", all=False),
    _empty("", "v1", "persistentvolumes", "PersistentVolume", "pv", namespaced=False, all=False),
    _empty("", "v1", "replicationcontrollers", "ReplicationController", "rc"),
    _empty("", "v1", "resourcequotas", "ResourceQuota", "quota", all=False),
    _empty("", "v1", "limitranges", "LimitRange", "limits", all=False),
    _empty("apps", "v1", "daemonsets", "DaemonSet", "ds"),
    _empty("apps", "v1", "deployments", "Deployment", "deploy"),
    _empty("apps", "v1", "replicasets", "ReplicaSet", "rs"),
    _empty("apps", "v1", "statefulsets", "StatefulSet", "sts"),
    _empty("autoscaling", "v2 v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa"),
    _empty("batch", "v1", "cronjobs", "CronJob", "cj"),
    _empty("batch", "v1", "jobs", "Job"),
    _empty("networking.k8s.io", "v1", "ingresses", "Ingress", "ing", all=False),
)
