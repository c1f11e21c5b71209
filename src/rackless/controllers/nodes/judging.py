"""Whether a CertificateSigningRequest comes from the node of a Machine. Pure.

Identity only: who asks, for whom, and which Machine has that name and those addresses. As OpenShift's
cluster-machine-approver decides, and like it this never denies: a request that cannot be decided stays pending, with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any

from cryptography import x509

from rackless.controllers.machines.records import Machine, moment
from rackless.ports.resources import Record
from rackless.trust.requests import Asked, read_request

CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
BOOTSTRAPPER = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
BOOTSTRAPPERS = "system:bootstrappers"
BOOTSTRAPPERS_OF_ONE = "system:bootstrappers:rackless:"
"""Prefix of a group, followed by a node's name: a member may ask for that node's certificate only."""
NODES, NODE = "system:nodes", "system:node:"
EARLIEST, LATEST = timedelta(seconds=-10), timedelta(hours=2)
"""The time window for a node's first certificate, counted from when its Machine claimed its host."""
_USAGES = {CLIENT: "client auth", SERVING: "server auth"}


@dataclass(frozen=True, slots=True)
class Verdict:
    approved: bool
    why: str
    """Why it is approved, or why not yet."""
    ours: bool = True
    """False: the request is of another kind, and other approvers decide it."""


FindMachine = Callable[[str], Sequence[tuple[Machine, datetime]]]
"""The Machines with this name among their addresses, and since when they have their hosts."""


def judge(request: Record, machines: FindMachine, node: Record | None, now: datetime) -> Verdict:
    """`node` is the Node of the name that is asked for, if it is there."""
    spec = request.get("spec") or {}
    signer = spec.get("signerName")
    if signer not in _USAGES:
        return Verdict(False, f"signer {signer} is none of ours", ours=False)
    try:
        asked = read_request(spec.get("request") or "")
    except ValueError as error:
        return Verdict(False, str(error))
    name = asked.name.removeprefix(NODE)
    if wrong := misshaped(asked, name, spec, str(signer)):
        return Verdict(False, wrong)
    found = machines(name)
    if not found:
        return Verdict(False, f"no Machine has the name {name} among its addresses")
    if len(found) > 1:
        names = ", ".join(machine.name for machine, _ in found)
        return Verdict(False, f"the name {name} is among the addresses of several Machines: {names}")
    [(machine, since)] = found
    if machine.deleting:
        return Verdict(False, f"Machine {machine.name} is being deleted")
    if signer == SERVING:
        return _serving(asked, name, spec, machine)
    if spec.get("username") == asked.name:
        return _renewed(name, spec, machine)
    return _first(name, spec, machine, since, node, request)


def misshaped(asked: Asked, name: str, spec: Mapping[str, Any], signer: str) -> str:
    """Why it is not what a node asks for; empty when it is."""
    if not name or not asked.name.startswith(NODE):
        return f"the subject {asked.name or 'without a name'} is no node's"
    if asked.organizations != (NODES,):
        return f"the organization of the subject is not {NODES}"
    usages, purpose = set(spec.get("usages") or ()), _USAGES[signer]
    if not {"digital signature", purpose} <= usages <= {"digital signature", "key encipherment", purpose}:
        return f"the usages are not those of a {purpose}"
    if signer == CLIENT and asked.alternatives:
        return "a client has no names besides its subject"
    return ""


def _first(
    name: str, spec: Mapping[str, Any], machine: Machine, since: datetime, node: Record | None, request: Record
) -> Verdict:
    groups = set(spec.get("groups") or ())
    if spec.get("username") != BOOTSTRAPPER and BOOTSTRAPPERS not in groups:
        return Verdict(False, f"{spec.get('username')} may not ask for a node's first certificate")
    bound = {group.removeprefix(BOOTSTRAPPERS_OF_ONE) for group in groups if group.startswith(BOOTSTRAPPERS_OF_ONE)}
    if bound - {name}:
        return Verdict(False, f"whoever asks may do so for {', '.join(sorted(bound))} only")
    if bound:
        return Verdict(True, f"only {name} of Machine {machine.name} was given the token that it asks with")
    if node is not None:
        return Verdict(False, f"there is a Node {name} already: delete it when its system was installed anew")
    if machine.status.get("nodeRef"):
        return Verdict(False, f"Machine {machine.name} has its Node, {machine.status['nodeRef'].get('name')}")
    asked_at = moment(request["metadata"].get("creationTimestamp"))
    if asked_at is None or not since + EARLIEST <= asked_at <= since + LATEST:
        return Verdict(False, f"it was not made within two hours after Machine {machine.name} got its host")
    return Verdict(True, f"it is the first certificate of Machine {machine.name}")


def _renewed(name: str, spec: Mapping[str, Any], machine: Machine) -> Verdict:
    if NODES not in (spec.get("groups") or ()):
        return Verdict(False, f"{spec.get('username')} is not in the group {NODES}")
    if (machine.status.get("nodeRef") or {}).get("name", name) != name:
        return Verdict(False, f"Machine {machine.name} has another Node")
    return Verdict(True, f"Node {name} of Machine {machine.name} renews its own certificate")


def _serving(asked: Asked, name: str, spec: Mapping[str, Any], machine: Machine) -> Verdict:
    groups = set(spec.get("groups") or ())
    if spec.get("username") != asked.name or not {NODES, "system:authenticated"} <= groups:
        return Verdict(False, f"{spec.get('username')} may not ask for what {asked.name} serves with")
    if not asked.alternatives:
        return Verdict(False, "it names no address to serve at")
    known = {_plain(each["address"]) for each in machine.addresses if each.get("address")}
    strange = [value for value in alternatives(asked) if value not in known]
    if strange:
        return Verdict(False, f"{', '.join(strange)} is no address of Machine {machine.name}")
    return Verdict(True, f"all its names and addresses are those of Machine {machine.name}")


def alternatives(asked: Asked) -> list[str]:
    """The names and addresses beside the subject, in their canonical form; of what is neither, its kind."""
    return [_plain(_value(one)) for one in asked.alternatives or ()]


def _value(name: x509.GeneralName) -> str:
    if isinstance(name, x509.DNSName | x509.IPAddress):
        return str(name.value)
    return f"{type(name).__name__}"


def _plain(address: str) -> str:
    """The canonical form of an address."""
    try:
        return str(ip_address(address))
    except ValueError:
        return address.lower()
