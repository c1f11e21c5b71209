"""An install after its bootstrap machine, seen in the cluster's own API: who looks after the hosts, and how far the workers are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rackless.cluster.bootstrap.following import MACHINE_API, Retrying, describe_state
from rackless.cluster.bootstrap.phases import SeenPhases, is_ready
from rackless.events import Bus
from rackless.ports.api import ApiUnreachable
from rackless.ports.clock import Clock
from rackless.ports.resources import Record, Refused, Resources
from rackless.provisioning.baremetalhost import PAUSED
from rackless.run.waiting import until

LEASE = "metal3"
METAL3_WITHIN = 1800.0
INSTALL_WITHIN = 3600.0
"""An hour, as the OpenShift installer waits on bare metal."""
LOOK_EVERY = 3.0
_MOST_TOLD = 3


@dataclass
class ClusterFollowing:
    api: Resources
    clock: Clock
    bus: Bus
    require_lab: Callable[[], None] = lambda: None
    """Raises LabError when the lab ended, through which the API is reached."""
    retries: bool = False
    """Whether hosts that have failed are tried again at once, when they are first seen."""

    async def has_bootstrapped(self) -> bool:
        """Whether an earlier run came as far as the hand-over."""
        try:
            found = await self.api.get("ConfigMap", "bootstrap", namespace="kube-system")
        except ApiUnreachable:  # not begun, or not yet
            return False
        return ((found or {}).get("data") or {}).get("status") == "complete"

    async def release_host(self, name: str) -> None:
        """The server that the bootstrap ran on is off: now the cluster looks after its host, and installs a worker on it."""

        async def released() -> tuple[bool, str]:
            self.require_lab()
            try:
                await self.api.patch(
                    "BareMetalHost", name, {"metadata": {"annotations": {PAUSED: None}}}, namespace=MACHINE_API
                )
            except (ApiUnreachable, Refused) as error:
                return False, str(error)
            return True, "released"

        await until(
            released, what=f"{name} to be the cluster's", within=METAL3_WITHIN, every=LOOK_EVERY, clock=self.clock
        )

    async def await_complete(self) -> None:
        await self._await_metal3()
        await self._await_workers()

    async def _await_metal3(self) -> None:
        holder: list[str] = []

        async def led() -> tuple[bool, str]:
            self.require_lab()
            try:
                lease = await self.api.get("Lease", LEASE, namespace=MACHINE_API)
                nodes = {each["metadata"]["name"] for each in await self.api.list("Node")}
            except ApiUnreachable as error:
                return False, error.why or error.what
            holder[:] = [str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")]
            return holder[0] in nodes, f"held by {holder[0]}" if holder[0] else "nobody looks after the hosts yet"

        with self.bus.step("metal3 on the control plane") as step:
            await until(led, what="a control plane to look after the hosts", within=METAL3_WITHIN, every=LOOK_EVERY,
                        clock=self.clock)  # fmt: skip
            step.detail = f"on {holder[0]}"

    async def _await_workers(self) -> None:
        failed = Retrying(self.api, self.bus, self.retries)

        async def joined() -> tuple[bool, str]:
            self.require_lab()
            try:
                sets = await self.api.list("MachineSet", namespace=MACHINE_API)
                machines = await self.api.list("Machine", namespace=MACHINE_API)
                hosts = await self.api.list("BareMetalHost", namespace=MACHINE_API)
                nodes = await self.api.list("Node")
                await failed.look(hosts)
            except (ApiUnreachable, Refused) as error:
                return False, error.why or error.what
            phases.see_hosts(hosts, nodes)
            lacking = describe_lacking_workers(sets, machines, hosts, nodes)
            return not lacking, lacking or f"{len(nodes)} nodes ready"

        with self.bus.step("workers") as step, SeenPhases(self.bus, "cluster") as phases:
            step.detail = await until(
                joined, what="the workers to join", within=INSTALL_WITHIN, every=LOOK_EVERY, clock=self.clock
            )  # fmt: skip


def describe_lacking_workers(
    sets: Sequence[Record], machines: Sequence[Record], hosts: Sequence[Record], nodes: Sequence[Record]
) -> str:
    """What is missing until every set has its Machines and every Machine a node that is ready; empty when nothing is."""
    known = {each["metadata"]["name"]: each for each in nodes}
    consumed = {((each["spec"].get("consumerRef") or {}).get("name")): each for each in hosts}
    for each in sets:
        wanted, owner = int(each["spec"].get("replicas") or 0), each["metadata"]["uid"]
        owned = [
            one for one in machines if owner in (ref["uid"] for ref in one["metadata"].get("ownerReferences") or ())
        ]
        if len(owned) < wanted:
            return f"{each['metadata']['name']} has {len(owned)} of {wanted} Machines"
    for machine in machines:
        name = machine["metadata"]["name"]
        ref = ((machine.get("status") or {}).get("nodeRef") or {}).get("name")
        if ref in known and is_ready(known[ref]):
            continue
        if ref:
            return f"node {ref} is not ready"
        host = consumed.get(name)
        if host is None:
            return f"{name} has no host{_unready(hosts)}"
        state = describe_state(host)
        return f"{host['metadata']['name']} is {state}{', and its node has not joined' * (state == 'provisioned')}"
    return ""


def _unready(hosts: Sequence[Record]) -> str:
    """The hosts that nobody has and that are not available yet, with their errors: one of them will do once it is."""
    free = [each for each in hosts if not (each["spec"].get("consumerRef") or {}).get("name")]
    told = [f"{each['metadata']['name']} is {state}" for each in free if (state := describe_state(each)) != "available"]
    return f": {'; '.join(told[:_MOST_TOLD])}" if told else ""
