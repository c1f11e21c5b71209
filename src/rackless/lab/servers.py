"""The servers of a lab: planned boxes as hardware, with their disks, defined and left switched off."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rackless.events import Bus, count
from rackless.plan.addressing import LabPlan, PlannedServer
from rackless.ports.hypervisor import Disk, Hypervisor, Nic, Power, Server
from rackless.ports.process import Processes
from rackless.run.paths import LabPaths


def hardware(server: PlannedServer, plan: LabPlan, paths: LabPaths) -> Server:
    folder = disk_folder(plan, paths)
    return Server(
        name=server.name,
        uuid=server.uuid,
        memory_mib=server.memory_mib,
        vcpus=server.vcpus,
        firmware=server.firmware,
        disks=tuple(
            Disk(folder / f"{name}.qcow2", size, _serial(plan.name, name))
            for name, size in zip(_disk_names(server), server.disks, strict=True)
        ),
        nics=tuple(Nic(nic.mac, nic.bridge) for nic in server.nics),
        nvram=folder / f"{server.name}.nvram",
        console_log=paths.console(server.name),
        secure_boot=server.secure_boot,
        tpm=server.tpm,
    )


def disk_folder(plan: LabPlan, paths: LabPaths) -> Path:
    return plan.storage / plan.name if plan.storage is not None else paths.disks


def _disk_names(server: PlannedServer) -> list[str]:
    return [server.name, *(f"{server.name}-disk{index}" for index in range(1, len(server.disks)))]


async def ensure_servers(
    plan: LabPlan, paths: LabPaths, hypervisor: Hypervisor, processes: Processes, bus: Bus
) -> None:
    with bus.step(count(len(plan.servers), "server")) as step:
        disk_folder(plan, paths).mkdir(parents=True, exist_ok=True)
        # an agent prints its one-time tokens there
        paths.console("").parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        changed = False
        for planned in plan.servers:
            server = hardware(planned, plan, paths)
            for disk in server.disks:
                changed |= await _ensure_disk(disk, processes)
            if await hypervisor.ensure(server):
                changed = True
                state = await hypervisor.observe(server.name)
                if state is not None and state.power is Power.ON:
                    bus.warn(f"{server.name} runs on as it was; its new hardware counts from its next start")
        if not changed:
            step.unchanged()


async def retire_server(server: PlannedServer, plan: LabPlan, paths: LabPaths, hypervisor: Hypervisor) -> None:
    """The box, its disks and its console's log."""
    await hypervisor.retire(server.name)
    box = hardware(server, plan, paths)
    for path in (*(disk.path for disk in box.disks), box.nvram, box.console_log):
        path.unlink(missing_ok=True)


async def _ensure_disk(disk: Disk, processes: Processes) -> bool:
    if disk.path.exists():
        return False
    scratch = disk.path.with_suffix(".new")
    await processes.run(["qemu-img", "create", "-q", "-f", "qcow2", scratch, str(disk.size_bytes)])
    scratch.rename(disk.path)
    return True


def _serial(lab: str, server: str) -> str:
    return "RL" + hashlib.sha256(f"{lab}/{server}".encode()).hexdigest()[:12].upper()
