"""Machine records (machine.openshift.io/v1beta1) as typed values, and the words they are written with. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rackless.ports.resources import Record
from rackless.provisioning import baremetalhost

HOST = baremetalhost.KIND
KIND = "Machine"
SET = "MachineSet"
API_VERSION = "machine.openshift.io/v1beta1"
FINALIZER = "machine.machine.openshift.io"
LINK = "metal3.io/BareMetalHost"
"""On a Machine: the host it has, as `namespace/name`."""
INSTANCE_STATE = "machine.openshift.io/instance-state"
"""On a Machine: the state of its host."""
DELETE_FIRST = ("machine.openshift.io/delete-machine", "machine.openshift.io/cluster-api-delete-machine")
"""On a Machine: when its set shrinks, this one goes first."""
WITHOUT_DRAIN = "machine.openshift.io/exclude-node-draining"
MACHINE_OF = "machine.openshift.io/machine"
"""On a Node: its Machine, as `namespace/name`."""
ROLE = "machine.openshift.io/cluster-api-machine-role"
CONTROL_PLANE = ("master", "control-plane")
NODE_ROLES = ("control-plane", "worker")
AUTOSCALE = "metal3.io/autoscale-to-hosts"
"""On a MachineSet: as many Machines as there are hosts for them."""
UNHEALTHY_HOST = "capm3.metal3.io/unhealthy"
"""On a host: it is never chosen."""
USER_DATA_OF_HOST = "rackless.test/user-data"
"""On a host: the Secret with its own user data, which a Machine gives it instead of the one for all of a role."""
REMEDIATE = "host.metal3.io/external-remediation"
"""On a Machine: its Node is unhealthy, and its host is to be power cycled."""
PROVIDER = "baremetalhost:///"


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    finalizers: tuple[str, ...]
    deleting: bool
    provider_id: str
    provider_spec: Mapping[str, Any]
    hooks: Mapping[str, Sequence[Mapping[str, str]]]
    """Lifecycle hooks `preDrain` and `preTerminate`: deletion waits until they are removed."""
    node_labels: Mapping[str, str]
    node_annotations: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    status: Mapping[str, Any]
    owned: bool
    """Whether a controller owns it and would make another one in its place."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def control_plane(self) -> bool:
        return self.labels.get(ROLE) in CONTROL_PLANE

    @property
    def role_labels(self) -> Mapping[str, str]:
        """What its Node is labelled with for its role: a node may not label itself so."""
        role = "control-plane" if self.control_plane else self.labels.get(ROLE)
        return {f"node-role.kubernetes.io/{role}": ""} if role in NODE_ROLES else {}

    @property
    def phase(self) -> str:
        return str(self.status.get("phase") or "")

    @property
    def addresses(self) -> Sequence[Mapping[str, str]]:
        return self.status.get("addresses") or ()

    def addresses_of(self, *types: str) -> list[str]:
        return [each["address"] for each in self.addresses if each.get("type") in types]

    def condition(self, type_: str) -> str:
        """The status of a condition; empty when there is none."""
        for each in self.status.get("conditions") or ():
            if each.get("type") == type_:
                return str(each.get("status"))
        return ""

    @property
    def host(self) -> str:
        """Its host as `namespace/name`, as far as its own record says so."""
        if self.provider_id.startswith(PROVIDER):
            return "/".join(self.provider_id.removeprefix(PROVIDER).split("/")[:2])
        return self.annotations.get(LINK) or ""

    @property
    def host_uid(self) -> str:
        parts = self.provider_id.removeprefix(PROVIDER).split("/")
        return parts[2] if self.provider_id.startswith(PROVIDER) and len(parts) == 3 else ""


def read(record: Record) -> Machine:
    metadata, spec = record["metadata"], record.get("spec") or {}
    hooks, node = spec.get("lifecycleHooks") or {}, spec.get("metadata") or {}
    return Machine(
        name=metadata["name"],
        namespace=metadata.get("namespace") or "",
        uid=metadata["uid"],
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting=bool(metadata.get("deletionTimestamp")),
        provider_id=spec.get("providerID") or "",
        provider_spec=(spec.get("providerSpec") or {}).get("value") or {},
        hooks={name: tuple(hooks.get(name) or ()) for name in ("preDrain", "preTerminate")},
        node_labels=node.get("labels") or {},
        node_annotations=node.get("annotations") or {},
        taints=tuple(spec.get("taints") or ()),
        status=record.get("status") or {},
        owned=controller_of(record) is not None,
    )


def problem(spec: Mapping[str, Any]) -> str:
    """Why no host can be provisioned from this providerSpec; empty when one can."""
    image, deploy = spec.get("image"), spec.get("customDeploy")
    if isinstance(deploy, Mapping) and deploy.get("method"):
        return ""
    if not isinstance(image, Mapping) or not image.get("url"):
        return "providerSpec needs an image with its url and checksum, or customDeploy with its method"
    if not image.get("checksum") and image.get("format") != "live-iso" and not str(image["url"]).startswith("oci://"):
        return f"the image {image['url']} has no checksum"
    return ""


def provider_id(host: Record) -> str:
    metadata = host["metadata"]
    return f"{PROVIDER}{metadata['namespace']}/{metadata['name']}/{metadata['uid']}"


def consumer_of(host: Record) -> str:
    """The Machine that has this host, as `namespace/name`; empty when none, or something else, has it."""
    reference = (host.get("spec") or {}).get("consumerRef") or {}
    if reference.get("kind") != KIND:
        return ""
    return f"{reference.get('namespace') or host['metadata'].get('namespace') or ''}/{reference.get('name') or ''}"


def consumer_reference(machine: Machine) -> Record:
    return {"kind": KIND, "apiVersion": API_VERSION, "name": machine.name, "namespace": machine.namespace}


def left_alone(host: Record) -> str:
    """Why nobody looks after a host, so that whoever waits for it waits in vain; empty when somebody does."""
    annotations = host["metadata"].get("annotations") or {}
    if baremetalhost.PAUSED in annotations:
        return "it is paused"
    return "it is detached" if (host.get("status") or {}).get("operationalStatus") == "detached" else ""


def state_of(host: Record) -> str:
    return str(((host.get("status") or {}).get("provisioning") or {}).get("state") or "")


def controller_of(record: Record) -> Mapping[str, Any] | None:
    """The owner that controls a record."""
    owners = record["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def delete_first(annotations: Mapping[str, str]) -> bool:
    return any(name in annotations for name in DELETE_FIRST)


def moment(text: Any) -> datetime | None:
    """A time as records have it; None where there is none."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None


def ready(node: Record) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
