"""The objects that the installer waits for, in the order in which it asks. Pure.

On the bootstrap: hosts in Metal3's states, the ConfigMap that ends bootstrapping, etcd's word that the bootstrap's member is gone.
After the hand-over: ClusterVersion, the ingress CA, ClusterOperators, the console's route. They have no schema here: the installer
reads a few conditions of each.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from rackless.cluster.openshift.site import ClusterMetal

Json = dict[str, Any]

MACHINE_API = "openshift-machine-api"
NAMESPACES = (MACHINE_API, "openshift-config-managed", "openshift-console", "openshift-config")
STATES = ("registering", "inspecting", "preparing", "available", "provisioning", "provisioned")
"""What a host goes through; a quick rehearsal asks BMCs in the first and only tells the others."""
OPERATORS = (
    "authentication", "baremetal", "cloud-credential", "cluster-autoscaler", "config-operator", "console", "dns", "etcd",
    "image-registry", "ingress", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "machine-api",
    "machine-config", "monitoring", "network", "openshift-apiserver", "service-ca", "storage",
)  # fmt: skip
DEGRADED = "ingress"
WHY_DEGRADED = "The ingress controller is degraded (asked for by --fail)"
UNSTABLE = "authentication"
WHY_UNSTABLE = "The deployment is rolled out for ever (asked for by --fail)"
_STABLE = timedelta(minutes=2)
"""The installer wants operators that have not been progressing for 30 seconds."""
KINDS = (
    ("metal3.io", "v1alpha1", "BareMetalHost", "baremetalhosts", True),
    ("operator.openshift.io", "v1", "Etcd", "etcds", False),
    ("config.openshift.io", "v1", "ClusterVersion", "clusterversions", False),
    ("config.openshift.io", "v1", "ClusterOperator", "clusteroperators", False),
    ("route.openshift.io", "v1", "Route", "routes", True),
)


def definitions() -> list[Json]:
    return [definition(*kind) for kind in KINDS]


def definition(group: str, version: str, kind: str, plural: str, namespaced: bool) -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def host(known: ClusterMetal, state: str, error: str = "", kind: str = "registration error") -> Json:
    """A BareMetalHost in one of Metal3's states; with `error` it says so and stays there."""
    status: Json = {
        "operationalStatus": "error" if error else "OK",
        "errorType": kind if error else "",
        "errorMessage": error,
        "errorCount": 1 if error else 0,
        "poweredOn": False,
        "hardwareProfile": "",
        "provisioning": {"state": state, "ID": "", "image": {"url": ""}},
    }
    metadata = {**known.manifest["metadata"], "namespace": MACHINE_API}
    return {**known.manifest, "metadata": metadata, "status": status}


def bootstrap_complete() -> Json:
    return _config_map("kube-system", "bootstrap", {"status": "complete"})


def etcd(*, removed: bool) -> Json:
    return {
        "apiVersion": "operator.openshift.io/v1",
        "kind": "Etcd",
        "metadata": {"name": "cluster"},
        "spec": {"managementState": "Managed"},
        "status": {"conditions": [_condition("EtcdBootstrapMemberRemoved", removed)]},
    }


def cluster_version(*, done: bool, why: str = "") -> Json:
    conditions = [_condition("Available", done), _condition("Progressing", not done, why), _condition("Failing", False)]
    return {
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterVersion",
        "metadata": {"name": "version"},
        "spec": {"clusterID": "00000000-0000-4000-8000-000000000000"},
        "status": {"conditions": conditions, "desired": {"version": "rehearsal"}},
    }


def operator(
    name: str, *, available: bool = True, degraded: bool = False, progressing: bool = False, message: str = ""
) -> Json:
    conditions = [
        _condition("Available", available, message),
        _condition("Progressing", progressing, message if progressing else ""),
        _condition("Degraded", degraded, message),
    ]
    return {
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": {"name": name},
        "spec": {},
        "status": {"conditions": conditions},
    }


def ingress_ca(certificate: str) -> Json:
    return _config_map("openshift-config-managed", "default-ingress-cert", {"ca-bundle.crt": certificate})


def console(apps: str) -> Json:
    host = f"console-openshift-console.{apps}"
    admitted = {"host": host, "routerName": "default", "conditions": [{"type": "Admitted", "status": "True"}]}
    return {
        "apiVersion": "route.openshift.io/v1",
        "kind": "Route",
        "metadata": {"name": "console", "namespace": "openshift-console"},
        "spec": {"host": host, "to": {"kind": "Service", "name": "console"}, "tls": {"termination": "reencrypt"}},
        "status": {"ingress": [admitted]},
    }


def _config_map(namespace: str, name: str, data: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def _condition(kind: str, holds: bool, message: str = "") -> Json:
    since = (datetime.now(UTC) - _STABLE).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": "AsExpected",
        "message": message,
        "lastTransitionTime": since,
    }
