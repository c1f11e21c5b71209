"""On a control plane of a full rehearsal: writes what the installer waits for after its bootstrap, once it is true or played.

Etcd's condition, the operators `etcd`, `kube-apiserver`, `baremetal`, `machine-api` and `machine-config` are told from what is
there, and the cluster is not available before its workers are; the other operators have nothing behind them, and their messages say
so. It runs on the node image, without pydantic, on the control plane that holds the Lease.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackless.cluster.bootstrap.completing import LEASE as METAL3_LEASE
from rackless.cluster.bootstrap.completing import describe_lacking_workers
from rackless.cluster.bootstrap.membership import EtcdMembership, EtcdRefused
from rackless.cluster.bootstrap.phases import is_ready
from rackless.cluster.bootstrap.taking_over import METAL3_KUBECONFIG
from rackless.cluster.bootstrap.telling import Tell
from rackless.cluster.openshift import payload
from rackless.cluster.openshift.faults import InstallFault
from rackless.cluster.openshift.payload import MACHINE_API, Json
from rackless.controllers.leader import PATIENT, Leader, LostLeadership
from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.client import Client, HttpRefused
from rackless.drivers.kubernetes.resources import MERGE, KubernetesResources
from rackless.installer.assets.ignition import control_plane
from rackless.operations.bootstrap.handover import BOOTSTRAP
from rackless.ports.clock import Clock
from rackless.ports.resources import Resources
from rackless.run.waiting import until
from rackless.trust.kubeconfig_reading import read_kubeconfig

LEASE = "rehearsal"
WITHIN_SECONDS = 7200.0
LOOK_EVERY = 3.0
_PATIENCE_SECONDS = 600.0
NOT_INSTALLED = "rehearsed: nothing of it is installed"
Members = Callable[[], Awaitable[list[str]]]
"""The names of etcd's members that vote."""


@dataclass(frozen=True, slots=True)
class OperatorPlace:
    kubeconfig: Path = Path(METAL3_KUBECONFIG)
    store: Path = Path(control_plane.STORE)
    etcd: str = "https://127.0.0.1:2379"


async def run_operators(
    apps: str, tell: Tell, fault: InstallFault | None = None, place: OperatorPlace | None = None
) -> None:
    """Until all is written; another control plane's turn is waited for. `fault` is what is to go wrong."""
    place, clock = place or OperatorPlace(), SystemClock()
    with tempfile.TemporaryDirectory(prefix="rackless-operators-") as keep:
        access, _ = read_kubeconfig(place.kubeconfig, Path(keep))
        resources = KubernetesResources(access, namespace=payload.MACHINE_API, clock=clock)
        client = Client(access, clock, _PATIENCE_SECONDS)

        async def members() -> list[str]:
            async with EtcdMembership(place.etcd, _tls(place.store)) as etcd:
                return [each.name for each in await etcd.members() if each.votes]

        async def work() -> None:
            if not await is_written(client):  # another control plane had its turn before us
                await write_all(apps, ObjectWriter(client), resources, members, clock, tell, fault)

        try:
            await Leader(resources, LEASE, os.uname().nodename, clock, terms=PATIENT).lead(work)
        except LostLeadership as error:
            raise SystemExit(1) from error
        finally:
            await client.close()
            await resources.close()


def _tls(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.load_cert_chain(folder / "client.crt", folder / "client.key")
    return context


class ObjectWriter:
    """Writes objects as they are, status and all: kinds of the payload have no status apart."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def put(self, body: Json) -> None:
        path = _path(body)
        change = {name: value for name, value in body.items() if name != "metadata"}
        try:
            await self._client.call("PATCH", f"{path}/{body['metadata']['name']}", change, media=MERGE)
        except HttpRefused as refusal:
            if refusal.code != 404:
                raise
            await self._client.call("POST", path, body)


_PLURALS = {"ConfigMap": "configmaps", **{kind: plural for _, _, kind, plural, _ in payload.KINDS}}


def _path(body: Mapping[str, Any]) -> str:
    version, namespace = body["apiVersion"], body["metadata"].get("namespace")
    place = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{place}{f'/namespaces/{namespace}' if namespace else ''}/{_PLURALS[body['kind']]}"


async def is_written(client: Client) -> bool:
    found = await client.call("GET", "/apis/config.openshift.io/v1/clusterversions/version")
    conditions = {one["type"]: one["status"] for one in (found.get("status") or {}).get("conditions") or ()}
    return conditions.get("Available") == "True"


async def write_all(
    apps: str, objects: ObjectWriter, resources: Resources, members: Members, clock: Clock, tell: Tell,
    fault: InstallFault | None = None,
) -> None:  # fmt: skip
    await objects.put(payload.etcd(removed=False))
    voters: list[str] = []

    async def left() -> tuple[bool, str]:
        try:
            voters[:] = await members()
        except EtcdRefused as error:
            return False, str(error)
        return BOOTSTRAP not in voters, f"{', '.join(voters)} vote"

    await until(left, what="etcd to lose the bootstrap's member", within=WITHIN_SECONDS, every=LOOK_EVERY, clock=clock)
    if fault is InstallFault.ETCD_STAYS:
        tell({"fault": fault.value})
        return
    await objects.put(payload.etcd(removed=True))
    tell({"phase": "etcd without the bootstrap", "members": voters})
    nodes, holder = await _await_nodes(objects, resources, clock)
    true = {
        "etcd": f"{len(voters)} members vote: {', '.join(voters)}",
        "kube-apiserver": "it answered this",
        "baremetal": f"metal3 runs on {holder}",
        "machine-api": f"its controllers run on {holder}",
        "machine-config": f"{len(nodes)} nodes were configured by it",
    }
    root = await resources.get("ConfigMap", "root-ca", namespace="kube-system")
    await objects.put(payload.ingress_ca(str(((root or {}).get("data") or {}).get("ca.crt") or "")))
    if fault is not InstallFault.NO_CONSOLE:
        await objects.put(payload.console(apps))
    bad = payload.DEGRADED if fault is InstallFault.OPERATOR_DEGRADED else ""
    for name in payload.OPERATORS:
        if name == bad:
            await objects.put(payload.operator(name, available=False, degraded=True, message=payload.WHY_DEGRADED))
        elif fault is InstallFault.OPERATOR_UNSTABLE and name == payload.UNSTABLE:
            await objects.put(payload.operator(name, progressing=True, message=payload.WHY_UNSTABLE))
        else:
            await objects.put(payload.operator(name, message=true.get(name, NOT_INSTALLED)))
    tell({"phase": "operators", "count": len(payload.OPERATORS), "true": sorted(true)})
    if bad:
        await _put_version(objects, f"Cluster operator {bad} is degraded")
        tell({"fault": InstallFault.OPERATOR_DEGRADED.value})
        return
    await _put_version(objects)
    tell({"phase": "cluster version", "nodes": nodes})


async def _put_version(objects: ObjectWriter, why: str = "") -> None:
    """The installer's own spec stays."""
    version = payload.cluster_version(done=not why, why=why)
    await objects.put({name: value for name, value in version.items() if name != "spec"})


async def _await_nodes(objects: ObjectWriter, resources: Resources, clock: Clock) -> tuple[list[str], str]:
    """All nodes ready, the workers that Machines stand for among them, and one of them looking after the hosts. What is missing is
    the ClusterVersion's message, which the installer shows."""
    found: list[str] = []
    holder, told = [""], [""]

    async def ready() -> tuple[bool, str]:
        nodes = await resources.list("Node")
        found[:] = sorted(each["metadata"]["name"] for each in nodes if is_ready(each))
        lease = await resources.get("Lease", METAL3_LEASE, namespace=MACHINE_API)
        holder[0] = str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")
        lacking = ""
        if not nodes or len(found) < len(nodes):
            lacking = f"{len(found)} of {len(nodes)} nodes are ready"
        elif holder[0] not in found:
            lacking = f"metal3 is {holder[0] or 'nobody'}'s"
        else:
            sets, machines, hosts = [
                await resources.list(kind, namespace=MACHINE_API) for kind in ("MachineSet", "Machine", "BareMetalHost")
            ]
            lacking = describe_lacking_workers(sets, machines, hosts, nodes)
        if lacking and lacking != told[0]:
            told[0] = lacking
            await _put_version(objects, f"Working towards rehearsal: {lacking}")
        return not lacking, lacking

    await until(ready, what="the nodes and metal3", within=WITHIN_SECONDS, every=LOOK_EVERY, clock=clock)
    return found, holder[0]
