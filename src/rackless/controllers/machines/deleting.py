"""Deleting a Machine: the steps in their order, each when those before it are done. Pure.

hooks before drain ─▶ drain ─▶ hooks before the end ─▶ the host is given back, empty ─▶ its Node is gone ─▶ gone
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rackless.controllers.machines import draining
from rackless.controllers.machines.draft import Draft
from rackless.controllers.machines.records import FINALIZER, WITHOUT_DRAIN, Machine, consumer_of, left_alone, state_of
from rackless.controllers.runtime.controller import Happened

PRE_DRAIN, PRE_TERMINATE = ("preDrain", "Drainable", "drained"), ("preTerminate", "Terminable", "ended")
HOOKS = (PRE_DRAIN, PRE_TERMINATE)
"""The moments at which hooks hold a Machine, the condition that says so, and what they hold up."""
OCCUPIED = ("provisioning", "provisioned", "deprovisioning")
"""Provisioning states of a host that still has the Machine's system on it."""
ASK_AGAIN = 30.0
"""Seconds until a Machine checks again whether the Nodes' API answers: no watch tells of that."""


def end(draft: Draft) -> bool:
    if FINALIZER not in draft.seen.machine.finalizers:
        return False  # others hold it; nothing of it is ours
    draft.phase("Deleting")
    return True


def before_drain(draft: Draft) -> bool:
    return _hooks(draft, *PRE_DRAIN, first=draft.seen.machine.phase != "Deleting")


def drain(draft: Draft) -> bool:
    """Drain the Node: cordon it, and have its pods evicted until none is left."""
    machine, node = draft.seen.machine, draft.seen.node
    if is_drained(machine):
        return True
    if WITHOUT_DRAIN in machine.annotations:
        if draft.condition("Drained", "True", "DrainSkipped", f"annotation {WITHOUT_DRAIN}"):
            draft.tell("DrainSkipped", f"annotation {WITHOUT_DRAIN}")
        return True
    if not draft.seen.nodes_known:
        why = f"the API that has the Nodes does not answer; the annotation {WITHOUT_DRAIN} goes on without it"
        return _not_drained(draft, "NodesUnknown", why, ASK_AGAIN)
    if draft.seen.drained_first:
        why = f"control planes are drained one after the other: {draft.seen.drained_first} takes nothing new"
        return _not_drained(draft, "OtherControlPlane", why, ASK_AGAIN)
    if node is not None and not (node.get("spec") or {}).get("unschedulable"):
        draft.node_change = {"spec": {"unschedulable": True}}
    if draft.seen.pods:
        draft.evict = draining.waiting(draft.seen.pods)
        said = f"it waits for {draining.names_of(draft.seen.pods)}"
        draft.after = draining.LOOK_AGAIN
        if draft.condition("Drained", "False", "Draining", said):
            draft.tell("Draining", said)
        return False
    if draft.condition("Drained", "True", message="" if node else "there is no Node") and node is not None:
        draft.tell("DrainSucceeded", f"Node {node['metadata']['name']} takes nothing new, and is empty")
    return True


def is_due(machine: Machine) -> bool:
    """Whether its Node is to be drained now, so that its pods have to be known."""
    wanted = machine.deleting and FINALIZER in machine.finalizers and WITHOUT_DRAIN not in machine.annotations
    return wanted and not machine.hooks["preDrain"] and not is_drained(machine)


def has_begun(machine: Machine) -> bool:
    """Whether its pods were already asked to go: then it does not wait for another control plane."""
    found = machine.status.get("conditions") or ()
    return any((each.get("type"), each.get("reason")) == ("Drained", "Draining") for each in found)


def is_drained(machine: Machine) -> bool:
    return machine.condition("Drained") == "True"


def _not_drained(draft: Draft, reason: str, why: str, after: float) -> bool:
    if draft.condition("Drained", "False", reason, why):
        draft.tell("DrainRequeued", why, "Warning")
    draft.after = after
    return False


def before_end(draft: Draft) -> bool:
    return _hooks(draft, *PRE_TERMINATE, first=not is_drained(draft.seen.machine))


def give_back(draft: Draft) -> bool:
    """Deprovision the host; it keeps its consumerRef until its system is gone."""
    machine, host = draft.seen.machine, draft.seen.host
    if host is None or consumer_of(host) != machine.key:
        return True
    spec, status, state = host.get("spec") or {}, host.get("status") or {}, state_of(host)
    name = host["metadata"]["name"]
    change = {field: None for field in ("image", "customDeploy", "userData") if spec.get(field) is not None}
    wanted = {**change, **({"online": False} if spec.get("online") and not spec.get("disablePowerOff") else {})}
    busy = state in OCCUPIED or (state == "externally provisioned" and bool(status.get("poweredOn")))
    if host["metadata"].get("deletionTimestamp"):
        busy = False  # it takes itself down
    if not busy:
        wanted["consumerRef"] = None
        draft.host_events.append(Happened("Released", f"Machine {machine.name} is done with it"))
    if wanted:
        draft.host, draft.host_change = host, {"spec": wanted}
    if not busy:
        return True
    if why := left_alone(host):
        said = f"what is on host {name} is to be taken off, and nobody does so: {why}"
        if draft.condition("InstanceExists", "True", "HostLeftAlone", said):
            draft.tell("HostLeftAlone", said, "Warning")
        return False
    said = f"what is on host {name} is taken off"
    if status.get("errorMessage"):
        said += f"; {status.get('errorType')}: {status['errorMessage']}"
    if draft.condition("InstanceExists", "True", "Deprovisioning", said):
        draft.tell("Deprovisioning", f"what is on host {name} is taken off")
    return False


def let_go(draft: Draft) -> bool:
    machine, host = draft.seen.machine, draft.seen.host
    draft.forget_node = draft.seen.node is not None
    draft.change.setdefault("metadata", {})["finalizers"] = [each for each in machine.finalizers if each != FINALIZER]
    said = "nothing of it is left"
    if host is not None and consumer_of(host) == machine.key:
        said += f", and host {host['metadata']['name']} can be had by others"
    draft.tell("Deleted", said)
    return True


def held(draft: Draft, moment: str, condition: str, done: str) -> str:
    """Why the hooks of this moment hold a Machine, as its condition says; empty when there are none."""
    hooks = draft.seen.machine.hooks[moment]
    if not hooks:
        draft.condition(condition, "True")
        return ""
    names = ", ".join(f"{hook.get('name')} of {hook.get('owner')}" for hook in hooks)
    why = f"it is {done} when spec.lifecycleHooks.{moment} is empty; it is held by {names}"
    draft.condition(condition, "False", "HookPresent", why)
    return why


def _hooks(draft: Draft, moment: str, condition: str, done: str, *, first: bool) -> bool:
    """`first`: the Machine came to these hooks just now, which is told."""
    why = held(draft, moment, condition, done)
    if why and first:
        draft.tell("HookPresent", why, "Warning")
    return not why


STEPS: Sequence[Callable[[Draft], bool]] = (end, before_drain, drain, before_end, give_back, let_go)
