"""What can be wrong with a cluster that was installed: etcd, the API's VIP, its nodes, their certificates, Machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rackless.controllers.nodes.judging import BOOTSTRAPPERS_OF_ONE, CLIENT, NODE, SERVING, alternatives, misshaped
from rackless.diagnosis.lab_evidence import JOURNAL, LabEvidence
from rackless.diagnosis.remedy import Cure
from rackless.diagnosis.rule import CauseRule, Depth, Evidence, RootCause
from rackless.diagnosis.rules.logs import explains_cluster, explains_member, explains_node
from rackless.protocol.messages import LabStatus, Record, ServerStatus
from rackless.trust.requests import read_request

_LAST_LINES, _LONGEST_LINE = 3, 200


def _vip_two(seen: LabEvidence) -> Iterator[RootCause]:
    vip = seen.status.vip if seen.status and seen.stands else None
    if vip is not None and len(vip.holders) > 1:
        yield RootCause(
            "vip/api", f"{vip.address} is held by {len(vip.holders)} machines at once: {', '.join(vip.holders)}",
            (Evidence("ARP", vip.detail),),
            "find out which one should (`rackless ssh NAME journalctl -u rackless-vip`: a record in etcd says it) and take the "
            "address from the other; a MAC in the list is a machine that is not of the cluster",
        )  # fmt: skip


def _vip_nobody(seen: LabEvidence) -> Iterator[RootCause]:
    vip = seen.status.vip if seen.status and seen.stands else None
    if vip is not None and not vip.holders and not _quorum_lost(seen) and not explains_cluster(seen):
        yield RootCause(
            "vip/api", f"nobody holds the API VIP {vip.address}", (Evidence("ARP", vip.detail),),
            "a control plane takes it only when its API is ready; look why none is: `rackless ssh NAME systemctl status "
            "rackless-vip rackless-api haproxy`",
        )  # fmt: skip


def _vip_not_ready(seen: LabEvidence) -> Iterator[RootCause]:
    vip = seen.status.vip if seen.status and seen.stands else None
    if vip is not None and vip.holder and not vip.ready and not _quorum_lost(seen) and not explains_cluster(seen):
        yield RootCause(
            "vip/api", f"{vip.holder} holds the API VIP, but no API is ready behind it",
            (Evidence("the API at its VIP", vip.detail),),
            f"look why there: `rackless ssh {vip.holder} systemctl status rackless-api haproxy`",
        )  # fmt: skip


def _quorum_lost(seen: LabEvidence) -> bool:
    etcd = seen.status.etcd if seen.status and seen.stands else None
    return etcd is not None and len(etcd.members) > 0 and 2 * len(seen.sick_members()) >= len(etcd.members)


def _no_quorum(seen: LabEvidence) -> Iterator[RootCause]:
    etcd = seen.status.etcd if seen.status else None
    if etcd is not None and _quorum_lost(seen):
        bad = seen.sick_members()
        yield RootCause(
            "cluster/etcd",
            f"etcd has no quorum: {len(etcd.members) - len(bad)} of {len(etcd.members)} members are healthy, so nothing can be "
            "written",
            tuple(Evidence(f"etcd on {member.name}", member.problem or "not healthy") for member in bad),
            f"bring {bad[0].name} back first: `rackless power {bad[0].name} status`, `rackless console {bad[0].name}`",
        )  # fmt: skip


def _member_down(seen: LabEvidence) -> Iterator[RootCause]:
    etcd = seen.status.etcd if seen.status and seen.stands else None
    if etcd is None or _quorum_lost(seen):
        return
    power = {server.name: server.power for server in seen.status.servers} if seen.status else {}
    for member in seen.sick_members():
        if explains_member(seen, member.name):
            continue
        off = power.get(member.name) == "off"
        yield RootCause(
            f"etcd/{member.name}",
            f"the etcd member on {member.name} does not work{': its server is off' if off else ''}; the quorum is at risk",
            (Evidence(f"etcd on {member.name}", member.problem or "not healthy"), *_last_words(seen, member.name, off)),
            f"`rackless power {member.name} on`" if off else f"look why: `rackless ssh {member.name} systemctl status etcd`",
        )  # fmt: skip


def _last_words(seen: LabEvidence, node: str, off: bool) -> tuple[Evidence, ...]:
    """Of the node's journal, where it was had."""
    lines = () if off else [line for line in seen.logs.get(JOURNAL + node, ()) if line.strip()]
    return tuple(Evidence(f"journal of {node}", line[:_LONGEST_LINE]) for line in lines[-_LAST_LINES:])


def _condition(record: Record, kind: str) -> dict[str, Any]:
    status: Any = record.get("status") or {}
    known = (one for one in status.get("conditions") or () if isinstance(one, dict))
    return next((dict(one) for one in known if one.get("type") == kind), {})


def _name(record: Record) -> str:
    metadata: Any = record["metadata"]
    return str(metadata["name"])


def _node_not_ready(seen: LabEvidence) -> Iterator[RootCause]:
    power = {server.name: server.power for server in seen.status.servers} if seen.status else {}
    for node in seen.nodes:
        ready = _condition(node, "Ready")
        if ready.get("status") == "True":
            continue
        name = _name(node)
        if explains_node(seen, name):
            continue
        off = power.get(name) == "off"
        said = f"{ready.get('reason', '')}: {ready.get('message', '')}".strip(": ") or "it never said that it is Ready"
        yield RootCause(
            f"node/{name}", f"node {name} is not Ready: {'its server is off' if off else said}",
            (Evidence("the Node's conditions", said, str(ready.get("lastTransitionTime") or "")),),
            f"`rackless power {name} on`" if off else f"look why: `rackless ssh {name} systemctl status rackless-node`",
        )  # fmt: skip


def _pending(seen: LabEvidence) -> Iterator[tuple[Record, dict[str, Any], str]]:
    """(request, its spec, the server of this lab that asks by its own name, if it is one) of those that nobody decided."""
    servers = {server.name: _known_as(seen.status, server) for server in seen.status.servers} if seen.status else {}
    for request in seen.requests:
        status: Any = request.get("status") or {}
        if not status.get("conditions") and not status.get("certificate"):
            spec: Any = request.get("spec") or {}
            yield request, spec, _own_server(spec, servers)


def _known_as(status: LabStatus, server: ServerStatus) -> set[str]:
    """The names and addresses that a server may serve at."""
    return {server.name, f"{server.name}.{status.domain}", server.address}


def _own_server(spec: dict[str, Any], servers: Mapping[str, set[str]]) -> str:
    """The server that asks for itself, and for no name or address beside its own; empty when that is not so."""
    try:
        asked = read_request(str(spec.get("request") or ""))
    except ValueError:
        return ""
    name, signer = asked.name.removeprefix(NODE), spec.get("signerName")
    if name not in servers or signer not in (CLIENT, SERVING) or misshaped(asked, name, spec, str(signer)):
        return ""
    return name if set(alternatives(asked)) <= servers[name] and _is_its_own(spec, name) else ""


def _is_its_own(spec: dict[str, Any], name: str) -> bool:
    """Whether the requester has authenticated as this node: by an earlier certificate, or by the bootstrap token made for it
    alone."""
    return spec.get("username") == NODE + name or BOOTSTRAPPERS_OF_ONE + name in (spec.get("groups") or ())


def _own_request(seen: LabEvidence) -> Iterator[RootCause]:
    for request, spec, server in _pending(seen):
        if server:
            yield RootCause(
                f"csr/{_name(request)}", f"a certificate request of {server}, a server of this lab, was not approved",
                (Evidence("CertificateSigningRequest", f"{spec.get('username')} asks {spec.get('signerName')}"),),
                f"`kubectl describe csr {_name(request)}` says why; `kubectl certificate approve {_name(request)}` approves it",
                str(spec.get("request")),
            )  # fmt: skip


def _strange_request(seen: LabEvidence) -> Iterator[RootCause]:
    for request, spec, server in _pending(seen):
        if server:
            continue
        asked = f"{spec.get('username')} asks {spec.get('signerName')}"
        yield RootCause(
            f"csr/{_name(request)}", f"a certificate request was not approved: {asked} for {_wanted(spec)}, and that is no "
            "server of this lab asking for its own name",
            (Evidence("CertificateSigningRequest", asked),),
            f"`kubectl describe csr {_name(request)}` says why; approve it only if you know who asks: "
            f"`kubectl certificate approve {_name(request)}`",
        )  # fmt: skip


def _wanted(spec: dict[str, Any]) -> str:
    try:
        asked = read_request(str(spec.get("request") or ""))
    except ValueError:
        return "what cannot be read"
    return ", ".join(filter(None, (asked.name, *alternatives(asked)))) or "nobody"


def _no_host(seen: LabEvidence) -> Iterator[RootCause]:
    for machine in seen.machines:
        claimed = _condition(machine, "HostClaimed")
        if claimed.get("status") == "False" and claimed.get("reason") == "NoHostAvailable":
            name = _name(machine)
            whole, _, why = str(claimed.get("message") or "").partition(": ")
            at = str(claimed.get("lastTransitionTime") or "")
            yield RootCause(
                f"machine/{name}", f"Machine {name} has no host: none that fits is free",
                (Evidence("its conditions", whole, at), *(Evidence("host", each) for each in why.split("; ") if each)),
                "add a server to the lab (`count` of a group, then `rackless up`), or scale down",
            )  # fmt: skip


RULES: tuple[CauseRule[LabEvidence], ...] = (
    CauseRule("cluster/no-quorum", "nothing can be written, the API is not ready", Depth.CLUSTER, _no_quorum),
    CauseRule("cluster/vip-two", "clients of the API reach now one machine, now another", Depth.NETWORK, _vip_two),
    CauseRule("cluster/vip-nobody", "the API's address does not answer", Depth.CLUSTER, _vip_nobody),
    CauseRule("cluster/vip-not-ready", "the API's address refuses connections", Depth.CLUSTER, _vip_not_ready),
    CauseRule("cluster/etcd-member", "etcd misses a member", Depth.CLUSTER, _member_down),
    CauseRule("cluster/node-not-ready", "`kubectl get nodes` says NotReady", Depth.CLUSTER, _node_not_ready),
    CauseRule(
        "cluster/csr-ours",
        "a node of the lab does not join",
        Depth.MACHINE,
        _own_request,
        cure=Cure.APPROVE_REQUEST,
    ),
    CauseRule("cluster/csr-pending", "a certificate request stays Pending", Depth.MACHINE, _strange_request),
    CauseRule("machine/no-host", "a MachineSet does not grow", Depth.MACHINE, _no_host),
)
