"""The servers of a lab: planned boxes as hardware, with their disks, defined and left switched off."""

from __future__ import annotations

import hashlib

from rackless.events import Bus
from rackless.plan.addressing import LabPlan, PlannedServer
from rackless.ports.hypervisor import Disk, Firmware, Hypervisor, Nic, Server
from rackless.ports.process import Processes
from rackless.run.paths import LabPaths


def hardware(server: PlannedServer, plan: LabPlan, paths: LabPaths) -> Server:
    return Server(
        name=server.name,
        uuid=server.uuid,
        memory_mib=server.memory_mib,
        vcpus=server.vcpus,
        firmware=Firmware.UEFI,
        disks=(Disk(paths.disks / f"{server.name}.qcow2", server.disk_bytes, _serial(plan.name, server.name)),),
        nics=(Nic(server.mac, plan.cluster.bridge),),
        nvram=paths.disks / f"{server.name}.nvram",
        console_log=paths.console(server.name),
    )


async def ensure_servers(
    plan: LabPlan, paths: LabPaths, hypervisor: Hypervisor, processes: Processes, bus: Bus
) -> None:
    with bus.step(f"{len(plan.servers)} servers") as step:
        paths.disks.mkdir(parents=True, exist_ok=True)
        # an agent prints its one-time tokens there
        paths.console("").parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        changed = False
        for planned in plan.servers:
            server = hardware(planned, plan, paths)
            for disk in server.disks:
                changed |= await _ensure_disk(disk, processes)
            changed |= await hypervisor.ensure(server)
        if not changed:
            step.unchanged()


async def _ensure_disk(disk: Disk, processes: Processes) -> bool:
    if disk.path.exists():
        return False
    scratch = disk.path.with_suffix(".new")
    await processes.run(["qemu-img", "create", "-q", "-f", "qcow2", scratch, str(disk.size_bytes)])
    scratch.rename(disk.path)
    return True


def _serial(lab: str, server: str) -> str:
    return "RL" + hashlib.sha256(f"{lab}/{server}".encode()).hexdigest()[:12].upper()
