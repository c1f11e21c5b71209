"""The lab's nodes as Machines, and the controllers of Machines and Nodes: hosts and Machines in labd's API, Nodes in the cluster's.

The Machines are written once the cluster answers. Running hosts are not changed: each Machine claims the provisioned host that it
was written for.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

from rackless.cluster.reference.machines import WORKERS, machine_for, new_image, worker_set
from rackless.cluster.reference.recipe import Cluster
from rackless.controllers.health.controller import health_controller
from rackless.controllers.machines.controller import machine_controller
from rackless.controllers.machines.records import HOST, KIND, SET
from rackless.controllers.machines.sets import machineset_controller
from rackless.controllers.nodes.approving import approve, csr_controller
from rackless.controllers.nodes.life import node_life_controller
from rackless.controllers.runtime.runtime import Runtime
from rackless.errors import GaveUp, InputError, LabError
from rackless.events import Bus
from rackless.installer.assets.ignition.front import API_PORT
from rackless.labd.api import LabApi
from rackless.labd.growth import Servers, growth_controller
from rackless.plan.model import LabPlan, PlannedServer
from rackless.ports.api import Access, ApiConnection
from rackless.ports.drivers import Drivers
from rackless.ports.provisioner import Image
from rackless.ports.resources import ALL, Conflict, Record
from rackless.protocol.messages import LabObjects, ObjectEvents, Scaled
from rackless.run.waiting import until
from rackless.spec.lab import Role

PATIENCE = 30.0
"""Seconds for which a request to the lab's own API is retried while it does not answer …"""
CLUSTER_PATIENCE = 5.0
"""… and a request to the cluster's API, which may be down for long: the controllers' caches retry by themselves."""

CLAIMED_WITHIN = 30.0
"""Seconds for new Machines to claim their hosts."""

MOST_EVENTS = 200
"""Kubernetes Events in one answer."""


class LabMachines:
    def __init__(
        self,
        plan: LabPlan,
        api: LabApi,
        resources: ApiConnection,
        cluster: Cluster,
        servers: Servers,
        drivers: Drivers,
        bus: Bus,
    ) -> None:
        self._plan = plan
        self._api = api
        self._resources = resources
        self._cluster = cluster
        self._drivers = drivers
        self._bus = bus
        self._servers = servers
        self._open: list[ApiConnection] = []
        self._running: asyncio.Task[None] | None = None
        self.runtime: Runtime | None = None
        """While somebody looks after them."""

    def replan(self, plan: LabPlan, cluster: Cluster) -> None:
        """Servers were made or taken away on demand."""
        self._plan, self._cluster = plan, cluster

    async def lacking(self) -> str:
        """Why Machines must be written: which node has none. Empty when all have one, or where rackless makes no cluster."""
        if not await self._cluster.forms():
            return ""
        if alone := [server.name for server, _ in await self._alone()]:
            return f"{', '.join(alone)} is no Machine's"
        if await self._resources.get(SET, WORKERS) is None:
            return f"there is no MachineSet {WORKERS}"
        return "" if self._running is not None and not self._running.done() else "nobody looks after the Machines"

    async def ensure(self, image: Image) -> None:
        """Give every node a Machine, put the workers' into one MachineSet, and run the controllers of Machines and Nodes."""
        if not await self._cluster.forms():
            return
        if not await self.lacking():
            await self._renew_image(image)
            return
        with self._bus.step("Machines") as step:
            await self.stop()  # or the set's controller would see too few Machines and make more
            await self._bury()
            alone = await self._alone()
            workers = [(server, host) for server, host in alone if server.role is Role.WORKER]
            for server, host in alone:
                await self._resources.apply(machine_for(server, host, image))
            found = await self._resources.get(SET, WORKERS)
            if found is None:
                with suppress(Conflict):  # the answer to the first try was lost
                    await self._resources.create(worker_set(len(workers), image))
            elif workers:
                many = int(found["spec"].get("replicas") or 0) + len(workers)
                await self._resources.patch(SET, WORKERS, {"spec": {"replicas": many}})
            await self._renew_image(image)
            self.start()
            await self._await_claims()
            step.detail = ", ".join(server.name for server, _ in alone)

    async def _await_claims(self) -> None:
        """Wait until each Machine has claimed its host: until then `plan` would still have actions."""

        async def claimed() -> tuple[bool, str]:
            alone = [server.name for server, _ in await self._alone()]
            return not alone, f"{', '.join(alone)} is no Machine's yet"

        clock = self._drivers.clock
        try:
            await until(claimed, what="the nodes to be Machines'", within=CLAIMED_WITHIN, every=0.2, clock=clock)
        except GaveUp as error:  # the cluster works without; the next `up` tries again
            self._bus.tell("machines-without-hosts", why=str(error))

    async def scale(self, wanted: int) -> Scaled:
        """Set the replicas of the workers' MachineSet. Raises LabError when there is none yet."""
        if wanted < 0:
            raise InputError(f"{wanted} workers cannot be wanted")
        found = await self._resources.get(SET, WORKERS)
        if found is None:
            raise LabError(
                "the lab has no workers as Machines yet", hint="`rackless up` writes them when the cluster is there"
            )
        before = int(found["spec"].get("replicas") or 0)
        await self._resources.patch(SET, WORKERS, {"spec": {"replicas": wanted}})
        hosts = await self._resources.list(HOST)
        spare = [host for host in hosts if not (host.get("spec") or {}).get("consumerRef")]
        possible, made = self._servers.elastic()
        return Scaled(before, wanted, len(spare) + len(possible) - len(made))

    async def objects(self) -> LabObjects:
        """Machines, Nodes and certificate requests; without the cluster's part while its API does not answer."""
        machines = tuple(await self._resources.list(KIND))
        nodes: tuple[Record, ...] = ()
        requests: tuple[Record, ...] = ()
        if self._open:
            with suppress(LabError):
                nodes = tuple(await self._open[-1].list("Node"))
                requests = tuple(await self._open[-1].list("CertificateSigningRequest"))
        return LabObjects(machines, nodes, requests)

    async def object_events(self, kind: str, name: str) -> ObjectEvents:
        """Kubernetes Events of both APIs, the latest first; without the cluster's while its API does not answer."""
        found: list[Record] = []
        for connection in (self._resources, *self._open[-1:]):
            with suppress(LabError):
                found += await connection.list("Event", namespace=ALL)
        if kind:
            found = [one for one in found if _is_about(one, kind, name)]
        return ObjectEvents(tuple(sorted(found, key=_happened_at, reverse=True)[:MOST_EVENTS]))

    async def phases(self) -> dict[str, str]:
        """The phase of each Machine, by name; none while the API does not answer: `status` still shows the rest."""
        if not self._api.started:
            return {}
        with suppress(LabError):
            return {
                record["metadata"]["name"]: str((record.get("status") or {}).get("phase") or "")
                for record in await self._resources.list(KIND)
            }
        return {}

    async def approve(self, name: str) -> None:
        """Approve a node's CertificateSigningRequest; the caller has checked that it is that node's."""
        if not self._open:
            raise LabError("nobody speaks to the cluster's API yet", hint="`rackless up` goes on until it is there")
        resources = self._open[-1]
        found = await resources.get("CertificateSigningRequest", name)
        if found is None:
            raise LabError(f"there is no certificate request {name}")
        await approve(resources, found, "Remedied", "a server of this lab asks, by its own name", datetime.now(UTC))

    def start(self) -> None:
        if self._running is not None and not self._running.done():
            return
        if not self._plan.control_planes or not self._cluster.keys.made:
            return
        own = self._api.open(patience=PATIENCE)
        folder = self._cluster.keys.api
        vip = self._plan.api_vip
        url = f"https://{f'[{vip}]' if vip.version == 6 else vip}:{API_PORT}"
        access = Access(url, folder / "ca.crt", folder / "admin.crt", folder / "admin.key")
        nodes = self._drivers.open_api(access, patience=CLUSTER_PATIENCE)
        self._open = [own, nodes]
        runtime = Runtime(self._drivers.clock, self._bus)
        machine_controller(runtime, own, nodes)
        machineset_controller(runtime, own, nodes)
        health_controller(runtime, own, nodes)
        csr_controller(runtime, own, nodes)
        node_life_controller(runtime, nodes)
        if self._plan.elastic:
            growth_controller(runtime, own, self._servers)
        self._running = asyncio.create_task(runtime.run(), name="machines")
        self.runtime = runtime

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = self.runtime = None
        for connection in self._open:
            await connection.close()
        self._open = []

    async def _alone(self) -> list[tuple[PlannedServer, Record]]:
        """The lab's nodes whose hosts no Machine has claimed."""
        hosts = {host["metadata"]["name"]: host for host in await self._resources.list(HOST)}
        return [
            (server, hosts[server.name])
            for server in await self._cluster.ours()
            if server.name in hosts and not hosts[server.name]["spec"].get("consumerRef")
        ]

    async def _bury(self) -> None:
        """Delete Machines whose hosts are gone with their servers; their finalizers would wait for ever."""
        uids = {host["metadata"]["uid"] for host in await self._resources.list(HOST)}
        for record in await self._resources.list(KIND):
            provider = str((record.get("spec") or {}).get("providerID") or "")
            if provider and provider.rpartition("/")[2] not in uids:
                name = record["metadata"]["name"]
                await self._resources.patch(KIND, name, {"metadata": {"finalizers": []}})
                await self._resources.delete(KIND, name, uid=record["metadata"]["uid"])

    async def _renew_image(self, image: Image) -> None:
        found = await self._resources.get(SET, WORKERS)
        if found is not None and (change := new_image(found, image)) is not None:
            await self._resources.patch(SET, WORKERS, change)


def _is_about(event: Record, kind: str, name: str) -> bool:
    about = event.get("involvedObject") or {}
    return about.get("kind") == kind and about.get("name") == name


def _happened_at(event: Record) -> str:
    """An Event's last time in the API's format, which sorts as text."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
