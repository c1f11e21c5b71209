"""The evidence and the repairs of a running lab that `labd/remedies.py` uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.errors import RacklessError
from rackless.lab.network_watch import NetworkWatch
from rackless.labd.api import LabApi
from rackless.labd.hosts import LabHosts
from rackless.labd.machines import LabMachines
from rackless.ports.hypervisor import Hypervisor
from rackless.protocol.messages import HostWish, LabObjects, LabStatus
from rackless.run.supervise import KeptProcesses


@dataclass(frozen=True)
class LabRepairs:
    status: Callable[[], Awaitable[LabStatus]]
    room: Callable[[], int]
    """Bytes that are free for the servers' disks."""
    hosts: LabHosts
    machines: LabMachines
    hypervisor: Hypervisor
    processes: KeptProcesses
    api: LabApi
    network_watch: NetworkWatch

    async def evidence(self) -> LabEvidence:
        status = await self.status()
        objects = LabObjects()
        with suppress(RacklessError):  # the API may be what is down
            objects = await self.machines.objects()
        return LabEvidence(
            lab=status.lab,
            daemon="running",
            kept=True,
            status=status,
            hosts=await self.hosts.known(),
            machines=objects.machines,
            nodes=objects.nodes,
            requests=objects.requests,
            free_bytes=self.room(),
        )

    async def start_parts(self) -> None:
        for keeper in self.processes.kept:
            keeper.hurry()
        self.api.hurry()
        await self.network_watch.hurry()

    async def restart_server(self, name: str) -> None:
        """Switch the server off; Ironic switches it on when the host is retried."""
        await self.hypervisor.power_off(name)
        await self.retry_host(name)

    async def retry_host(self, name: str) -> None:
        await self.hosts.wish(HostWish("retry", name, wait=False))

    async def approve_request(self, name: str) -> None:
        await self.machines.approve(name)
