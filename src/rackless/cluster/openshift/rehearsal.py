"""The two roles in a rehearsal: the bootstrap, which asks the BMCs and then reports its hosts as provisioned, and the cluster
after the hand-over.

Both write objects into an API that the installer watches. `tell` gets what happened, as plain values: in the bootstrap machine it
writes them to the serial console, in the lab to the report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from rackless.cluster.openshift import payload
from rackless.cluster.openshift.faults import InstallFault
from rackless.cluster.openshift.payload import Json
from rackless.cluster.openshift.site import ClusterMetal, ClusterSite

Tell = Callable[[Mapping[str, Any]], None]
Ask = Callable[[ClusterMetal], Awaitable[tuple[bool, str]]]
"""Ask a host's BMC: whether it will do, and what it said."""
_AT_ONCE = 4
STEP_SECONDS = 0.3
"""Between two states of the hosts, so that a person sees them go by in the installer's log."""


class ObjectSink(Protocol):
    async def put(self, body: Json) -> None: ...


async def play_bootstrap(
    site: ClusterSite, objects: ObjectSink, ask: Ask, tell: Tell, fault: InstallFault | None, step: float = STEP_SECONDS
) -> bool:
    """Play the bootstrap until the installer may destroy it; False when it never may, and the installer waits in vain."""
    await objects.put(payload.etcd(removed=False))
    for host in site.hosts:
        await objects.put(payload.host(host, payload.STATES[0]))
    problems = await _ask_all(site, objects, ask, tell)
    if fault is InstallFault.HOST_ERROR and (first := next((host for host in site.hosts if host.control_plane), None)):
        problems[first.name] = await _spoil(first, objects, tell)
    stuck = [host.name for host in site.hosts if host.control_plane and host.name in problems]
    for state in payload.STATES[1:]:
        await asyncio.sleep(step)
        for host in site.hosts:
            if host.name not in problems:
                await objects.put(payload.host(host, state))
    if stuck:
        tell({"waits": f"control planes that cannot be provisioned: {', '.join(stuck)}", "in_vain": True})
        return False
    tell({"phase": "control planes provisioned (simulated)"})
    if fault is InstallFault.CONFIG_MAP_MISSING:
        tell({"waits": "the ConfigMap kube-system/bootstrap, which nobody writes", "in_vain": True})
        return False
    await objects.put(payload.bootstrap_complete())
    await asyncio.sleep(step)
    if fault is InstallFault.ETCD_STAYS:
        tell({"waits": "etcd to give up the bootstrap's member, which it never does", "in_vain": True})
        return False
    await objects.put(payload.etcd(removed=True))
    tell({"phase": "bootstrap complete"})
    return True


async def _ask_all(site: ClusterSite, objects: ObjectSink, ask: Ask, tell: Tell) -> dict[str, str]:
    turn, problems = asyncio.Semaphore(_AT_ONCE), {}

    async def one(host: ClusterMetal) -> None:
        async with turn:
            good, said = await ask(host)
        tell({"bmc": host.name, "good": good, "saw": said})
        if not good:
            problems[host.name] = said
            await objects.put(payload.host(host, payload.STATES[0], f"the BMC {host.bmc}: {said}"))

    await asyncio.gather(*map(one, site.hosts))
    return problems


async def _spoil(host: ClusterMetal, objects: ObjectSink, tell: Tell) -> str:
    said = "timeout reached while inspecting the node (asked for by --fail)"
    await objects.put(payload.host(host, "inspecting", said, "inspection error"))
    tell({"fault": InstallFault.HOST_ERROR.value, "host": host.name})
    return said


async def play_cluster(site: ClusterSite, objects: ObjectSink, tell: Tell, fault: InstallFault | None) -> None:
    """Write the objects that the installer asks for after the bootstrap is gone; masters are simulated."""
    await objects.put(payload.etcd(removed=True))
    await objects.put(payload.bootstrap_complete())
    for host in site.hosts:
        await objects.put(payload.host(host, payload.STATES[-1]))
    await objects.put(payload.ingress_ca(site.root_ca))
    if fault is not InstallFault.NO_CONSOLE:
        await objects.put(payload.console(site.apps))
    degraded = fault is InstallFault.OPERATOR_DEGRADED
    unstable = fault is InstallFault.OPERATOR_UNSTABLE
    for name in payload.OPERATORS:
        bad = degraded and name == payload.DEGRADED
        moves = unstable and name == payload.UNSTABLE
        why = payload.WHY_DEGRADED if bad else payload.WHY_UNSTABLE if moves else ""
        await objects.put(payload.operator(name, available=not bad, degraded=bad, progressing=moves, message=why))
    why = f"Cluster operator {payload.DEGRADED} is degraded" if degraded else ""
    await objects.put(payload.cluster_version(done=not degraded, why=why))
    if degraded:
        tell(
            {
                "waits": f"the ClusterVersion, which is not available: operator {payload.DEGRADED} is degraded",
                "in_vain": True,
            }
        )
    tell({"phase": "the cluster answers (simulated)"})
