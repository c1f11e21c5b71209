"""Provisioning a Machine until it is a Node: the steps in their order, each when those before it are done. Pure.

'' ─▶ Provisioning ─▶ Provisioned ─▶ Running          Failed: its host is gone, or nothing can be made of its spec
      claims a host   the host is     its Node
                      provisioned     is there
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rackless.controllers.machines.deleting import HOOKS, held
from rackless.controllers.machines.draft import Draft
from rackless.controllers.machines.records import (
    DELETE_FIRST,
    FINALIZER,
    INSTANCE_STATE,
    LINK,
    MACHINE_OF,
    USER_DATA_OF_HOST,
    Machine,
    consumer_of,
    consumer_reference,
    left_alone,
    problem,
    provider_id,
    state_of,
)
from rackless.controllers.machines.remediating import remediate
from rackless.controllers.machines.selectors import BadSelector
from rackless.controllers.runtime.controller import Happened
from rackless.ports.resources import Record

RETRY_AFTER = 30.0
"""Seconds until a Machine without a host tries again; a host that becomes available wakes it at once."""
EXISTS = ("provisioned", "externally provisioned", "unmanaged", "registering")
"""Provisioning states of a host that has a system on it, or had before it was registered again."""
QUORUM_HOOK = {"name": "EtcdQuorumOperator", "owner": "rackless"}
"""The preDrain hook of control planes: it is removed when etcd can do without the member."""


def hold(draft: Draft) -> bool:
    """Add the Machine's finalizer before it claims a host, so that the host is given back when the Machine is deleted."""
    machine = draft.seen.machine
    if FINALIZER not in machine.finalizers:
        draft.change.setdefault("metadata", {})["finalizers"] = [*machine.finalizers, FINALIZER]
        draft.after = 0.0
        return False
    return True


def protect(draft: Draft) -> bool:
    """Add the preDrain hook to a control plane: it is deleted only when somebody has removed the hook, because etcd can do
    without it."""
    machine = draft.seen.machine
    held = machine.hooks["preDrain"]
    if machine.control_plane and not any(hook.get("name") == QUORUM_HOOK["name"] for hook in held):
        draft.change.setdefault("spec", {})["lifecycleHooks"] = {"preDrain": [*map(dict, held), QUORUM_HOOK]}
        draft.tell("Protected", f"a deletion waits until the hook {QUORUM_HOOK['name']} is taken away")
    return True


def hooks(draft: Draft) -> bool:
    """What would hold a deletion up, told while there is none."""
    for moment, condition, done in HOOKS:
        held(draft, moment, condition, done)
    return True


def keep(draft: Draft) -> bool:
    """A Machine whose host is gone is Failed: it never claims another host."""
    machine, host = draft.seen.machine, draft.seen.host
    if not machine.provider_id:
        return True
    lost = ""
    if host is None:
        lost = f"its host {machine.host} is gone"
    elif machine.host_uid and host["metadata"]["uid"] != machine.host_uid:
        lost = f"its host {machine.host} is gone; the one of that name is another"
    elif consumer_of(host) != machine.key and (host.get("spec") or {}).get("consumerRef"):
        lost = f"its host {machine.host} belongs to {host['spec']['consumerRef'].get('name')}"
    if not lost:
        return True
    if draft.condition("InstanceExists", "False", "HostGone", lost):
        draft.tell("FailedUpdate", lost, "Warning")
    draft.error("UpdateError", lost)
    draft.status.pop("addresses", None)
    draft.phase("Failed")
    return False


def check(draft: Draft) -> bool:
    wrong = problem(draft.seen.machine.provider_spec) if draft.seen.host is None else ""
    if not wrong:
        if draft.status.get("errorReason") == "InvalidConfiguration":
            draft.error()
        return True
    if draft.condition("HostClaimed", "False", "InvalidConfiguration", wrong):
        draft.tell("FailedCreate", wrong, "Warning")
    draft.error("InvalidConfiguration", wrong)
    draft.phase("Failed")
    return False


def claim(draft: Draft) -> bool:
    """Claim a host: image, user data and consumerRef in one write, which fails when another Machine was quicker."""
    machine, host = draft.seen.machine, draft.seen.host
    if draft.status.get("phase") in (None, "", "Failed"):
        draft.phase("Provisioning")
    if host is not None and consumer_of(host) == machine.key:
        _claimed(draft, host, "")
        return True
    if host is not None and _adoptable(host):
        draft.host, draft.host_change = host, {"spec": {"consumerRef": consumer_reference(machine)}}
        draft.host_events.append(Happened("Claimed", f"Machine {machine.name} has it, as it is"))
        draft.tell("HostAdopted", f"{host['metadata']['name']}: this Machine names it, and it is nobody else's")
        _claimed(draft, host, f"{host['metadata']['name']}: this Machine names it; what is on it stays")
        return True
    try:
        choice = draft.seen.choose()
    except BadSelector as error:
        wrong = f"hostSelector: {error}"
        if draft.condition("HostClaimed", "False", "InvalidConfiguration", wrong):
            draft.tell("FailedCreate", wrong, "Warning")
        draft.error("InvalidConfiguration", wrong)
        return False
    if choice.host is None:
        if draft.condition("HostClaimed", "False", "NoHostAvailable", choice.why):
            draft.tell("NoHostAvailable", choice.why, "Warning")
        draft.error("InsufficientResources", "No available BareMetalHost found")
        draft.after = RETRY_AFTER
        return False
    draft.host, draft.host_change = choice.host, {"spec": _wanted(machine, choice.host)}
    draft.host_events.append(Happened("Claimed", f"Machine {machine.name} has it now"))
    draft.tell("HostClaimed", choice.why)
    _claimed(draft, choice.host, choice.why)
    draft.condition("InstanceExists", "False", "HostNotProvisioned", _unprovisioned(choice.host))
    return False


def _unprovisioned(host: Record) -> str:
    return f"host {host['metadata']['name']} has no system yet"


def _adoptable(host: Record) -> bool:
    """Whether a host was provisioned before there was a Machine for it."""
    spec = host.get("spec") or {}
    installed = spec.get("image") or spec.get("customDeploy") or spec.get("externallyProvisioned")
    return bool(installed) and not spec.get("consumerRef") and not host["metadata"].get("deletionTimestamp")


def _claimed(draft: Draft, host: Record, why: str) -> None:
    name = host["metadata"]["name"]
    known: Mapping[str, Any] = next(
        (each for each in draft.status.get("conditions") or () if each.get("type") == "HostClaimed"), {}
    )
    if why or known.get("status") != "True":
        draft.condition("HostClaimed", "True", "HostChosen", why or f"{name}: it names this Machine as its consumer")
    if draft.status.get("errorReason") in ("InsufficientResources", "InvalidConfiguration"):
        draft.error()
    state = state_of(host) or "new"
    if state == "available":
        state = "provisioning"  # what a claimed host does next: a write of the Machine less
    draft.annotate(**{LINK: f"{host['metadata']['namespace']}/{name}", INSTANCE_STATE: state})


def _wanted(machine: Machine, host: Record) -> dict[str, Any]:
    spec = machine.provider_spec
    wanted: dict[str, Any] = {"consumerRef": consumer_reference(machine), "online": True}
    if isinstance(image := spec.get("image"), Mapping) and image.get("url"):
        wanted["image"] = {
            name: image[name] for name in ("url", "checksum", "checksumType", "format") if image.get(name)
        }
    if isinstance(deploy := spec.get("customDeploy"), Mapping) and deploy.get("method"):
        wanted["customDeploy"] = {"method": deploy["method"]}
    own = (host["metadata"].get("annotations") or {}).get(USER_DATA_OF_HOST)
    user_data = spec.get("userData")
    if own:
        wanted["userData"] = {"name": own, "namespace": host["metadata"]["namespace"]}
    elif isinstance(user_data, Mapping) and user_data.get("name"):
        wanted["userData"] = {"name": user_data["name"], "namespace": user_data.get("namespace") or machine.namespace}
    return wanted


def follow(draft: Draft) -> bool:
    """Copy the host's state into the Machine; once the host has a system, also providerID and addresses."""
    machine, host = draft.seen.machine, draft.seen.host
    assert host is not None
    state, status = state_of(host), host.get("status") or {}
    if host["metadata"].get("deletionTimestamp") and DELETE_FIRST[0] not in machine.annotations:
        draft.annotate(**{DELETE_FIRST[0]: "host"})
        draft.tell("HostDeleted", f"its host {machine.host} is being deleted: this Machine goes first", "Warning")
    if state not in EXISTS:
        said = _unprovisioned(host)  # the same in all states on its way: which one is in an annotation
        reason = "HostNotProvisioned"
        if failed := str(status.get("errorMessage") or ""):
            reason = "HostFailed"
            said += f"; {status.get('errorType')}: {failed}"
        elif why := left_alone(host):
            reason = "HostLeftAlone"
            said += f", and nobody sees to it: {why}"
        if draft.condition("InstanceExists", "False", reason, said) and reason != "HostNotProvisioned":
            draft.tell(reason, said, "Warning")
        draft.status.pop("addresses", None)
        return False
    if state in ("unmanaged", "registering") and not machine.provider_id:
        return False
    if not machine.provider_id:
        # before the phase says so: a client that waits for Provisioned finds it there
        draft.change.setdefault("spec", {})["providerID"] = provider_id(host)
        draft.after = 0.0
        return False
    draft.condition("InstanceExists", "True")
    found = addresses(host)
    if found:
        draft.status["addresses"] = found
    if draft.status.get("phase") in ("Provisioning", "Failed", ""):
        draft.error()
        draft.phase("Provisioned")
    return True


def addresses(host: Record) -> list[dict[str, str]]:
    """The Machine's addresses: those of the host's inspection, and the host's name.

    A system gets the host's name with its config drive. What the deploy ramdisk called itself counts, too, when it was
    told a name.
    """
    hardware = (host.get("status") or {}).get("hardware") or {}
    found = [{"type": "InternalIP", "address": nic["ip"]} for nic in hardware.get("nics") or () if nic.get("ip")]
    names = [host["metadata"]["name"]]
    called = str(hardware.get("hostname") or "")
    if called and called not in names and not called.startswith("localhost"):
        names.append(called)
    for name in names:
        found += [{"type": type_, "address": name} for type_ in ("Hostname", "InternalDNS")]
    unique: list[dict[str, str]] = []
    for each in found:
        if each not in unique:
            unique.append(each)
    return unique


def join(draft: Draft) -> bool:
    """Link the Machine to its Node, if that has joined, and give the Node the Machine's labels, annotations and taints."""
    machine, node, host = draft.seen.machine, draft.seen.node, draft.seen.host
    if not draft.seen.nodes_known:
        return False
    if node is None:
        if draft.status.pop("nodeRef", None) is not None:
            draft.tell("NodeGone", "its Node is no longer there", "Warning")
            draft.phase("Provisioned")
        return False
    metadata = node["metadata"]
    reference = {"kind": "Node", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
    if draft.status.get("nodeRef") != reference:
        draft.status["nodeRef"] = reference
        draft.tell("NodeJoined", f"it is Node {metadata['name']}")
    draft.phase("Running")
    draft.node_change = node_change(machine, node, provider_id(host) if host is not None else machine.provider_id)
    return True


def node_change(machine: Machine, node: Record, identity: str) -> dict[str, Any]:
    """The labels, annotations and taints that the Node lacks; empty when it has all."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    change: dict[str, Any] = {}
    for field, wanted in (
        ("labels", {**machine.role_labels, **machine.node_labels}),
        ("annotations", {**machine.node_annotations, MACHINE_OF: machine.key}),
    ):
        found = metadata.get(field) or {}
        lacking = {name: value for name, value in wanted.items() if found.get(name) != value}
        if lacking:
            change.setdefault("metadata", {})[field] = lacking
    if identity and not spec.get("providerID"):
        change.setdefault("spec", {})["providerID"] = identity
    taints = [dict(taint) for taint in spec.get("taints") or ()]
    known = {(taint.get("key"), taint.get("effect")) for taint in taints}
    new = [dict(taint) for taint in machine.taints if (taint.get("key"), taint.get("effect")) not in known]
    if new:
        change.setdefault("spec", {})["taints"] = [*taints, *new]
    return change


STEPS: Sequence[Callable[[Draft], bool]] = (hold, protect, hooks, keep, check, claim, follow, remediate, join)
