"""The nodes of a lab as Machines, and its workers as a set of them, so that kubectl grows and shrinks the cluster. Pure.

A Machine is written for a provisioned host and claims it unchanged. Machines that the MachineSet makes later claim spare servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackless.controllers.machines.living import QUORUM_HOOK
from rackless.controllers.machines.records import API_VERSION, KIND, LINK, ROLE, SET, USER_DATA_OF_HOST
from rackless.plan.model import PlannedServer
from rackless.ports.provisioner import Image
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import METAL, image_record
from rackless.spec.lab import Role

WORKERS = "workers"
"""The name of the set."""
_MEMBER = {"machine.openshift.io/cluster-api-machineset": WORKERS, ROLE: "worker"}
_NODE_LABELS = {
    Role.CONTROL_PLANE: "node-role.kubernetes.io/control-plane",
    Role.WORKER: "node-role.kubernetes.io/worker",
}


def machine_for(server: PlannedServer, host: Record, image: Image) -> Record:
    """The Machine for this host; its name has a part of the host's UID, so that a later host of the same name gets another
    Machine."""
    metadata = host["metadata"]
    control_plane = server.role is Role.CONTROL_PLANE
    spec = _machine_spec(server.role, image)
    if control_plane:
        spec["lifecycleHooks"] = {"preDrain": [QUORUM_HOOK]}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": f"{server.name}-{metadata['uid'][:5]}",
            "labels": {ROLE: "master"} if control_plane else dict(_MEMBER),
            "annotations": {LINK: f"{metadata['namespace']}/{metadata['name']}"},
        },
        "spec": spec,
    }


def worker_set(replicas: int, image: Image) -> Record:
    spec = _machine_spec(Role.WORKER, image)
    # what a node is told at its first boot is made for servers of the lab; metal is for Machines that bring their own
    spec["providerSpec"]["value"]["hostSelector"] = {"matchExpressions": [{"key": METAL, "operator": "DoesNotExist"}]}
    return {
        "apiVersion": API_VERSION,
        "kind": SET,
        "metadata": {"name": WORKERS},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": dict(_MEMBER)},
            "template": {"metadata": {"labels": dict(_MEMBER)}, "spec": spec},
        },
    }


def new_image(machine_set: Record, image: Image) -> Mapping[str, Any] | None:
    """The change of a set whose Machines would get another image than hosts get now; None when they would not."""
    template = (machine_set["spec"].get("template") or {}).get("spec") or {}
    value = (template.get("providerSpec") or {}).get("value") or {}
    if value.get("image") == image_record(image):
        return None
    return {"spec": {"template": {"spec": {"providerSpec": {"value": {"image": image_record(image)}}}}}}


def with_user_data(host: Record, secret: str) -> Record:
    """A spare host with the user data that a Machine gives it when it claims it: each host has its own keys."""
    metadata = host["metadata"]
    return {
        **host,
        "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), USER_DATA_OF_HOST: secret}},
    }


def _machine_spec(role: Role, image: Image) -> dict[str, Any]:
    value = {
        "apiVersion": "baremetal.cluster.k8s.io/v1alpha1",
        "kind": "BareMetalMachineProviderSpec",
        "image": image_record(image),
    }
    return {"metadata": {"labels": {_NODE_LABELS[role]: ""}}, "providerSpec": {"value": value}}
