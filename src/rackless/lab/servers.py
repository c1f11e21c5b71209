"""Makes the servers of a lab: libvirt domains with their disks, defined and switched off."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path

from rackless.events import Bus
from rackless.lab.accounts import ServerAccounts
from rackless.plan.addressing import LabPlan, PlannedServer
from rackless.ports.hypervisor import Disk, Hypervisor, Nic, Power, Server
from rackless.ports.process import Processes
from rackless.run.paths import LabPaths
from rackless.spec.disks import DiskCache

SHOWN = Path("/var/lib/libvirt/servers")
"""The path inside the lab where QEMU finds the servers' disks."""
PASSAGE = 0o711


def hardware(server: PlannedServer, plan: LabPlan, paths: LabPaths, accounts: ServerAccounts | None = None) -> Server:
    return Server(
        name=server.name,
        uuid=server.uuid,
        memory_mib=server.memory_mib,
        vcpus=server.vcpus,
        firmware=server.firmware,
        disks=tuple(
            Disk(
                file,
                size,
                (server.disk_serial if index == 0 else "") or _serial(plan.name, file.stem),
                server.disk_cache is DiskCache.SAFE,
                server.disk_bus.value,
            )
            for index, (file, size) in enumerate(zip(disk_files(server, plan, paths), server.disks, strict=True))
        ),
        nics=tuple(Nic(nic.mac, nic.bridge, nic.mtu) for nic in server.nics),
        nvram=disk_folder(plan, paths) / f"{server.name}.nvram",
        console_log=paths.console(server.name),
        secure_boot=server.secure_boot,
        tpm=server.tpm,
        user=accounts.of_server(paths.state, server.name) if accounts is not None else None,
    )


def disk_folder(plan: LabPlan, paths: LabPaths) -> Path:
    return plan.storage / plan.name if plan.storage is not None else paths.disks


def disk_files(server: PlannedServer, plan: LabPlan, paths: LabPaths) -> list[Path]:
    return [disk_folder(plan, paths) / f"{name}.qcow2" for name in _disk_names(server)]


def _disk_names(server: PlannedServer) -> list[str]:
    return [server.name, *(f"{server.name}-disk{index}" for index in range(1, len(server.disks)))]


def mounts(plan: LabPlan, paths: LabPaths) -> dict[Path, Path]:
    """Folders with servers' disks, and where the lab mounts them for QEMU, whose users may not reach them otherwise. These users
    can pass through the folders and not list them; each file belongs to its server's user alone.
    """
    return {disk_folder(plan, paths): SHOWN / "disks", paths.media: SHOWN / "media"}


async def differs(
    server: PlannedServer, plan: LabPlan, paths: LabPaths, hypervisor: Hypervisor, accounts: ServerAccounts
) -> bool:
    """Whether the domain or one of its disks is missing, or is not as planned."""
    box = hardware(server, plan, paths, accounts)
    return any(not disk.path.exists() for disk in box.disks) or await hypervisor.differs(box)


async def ensure_servers(
    plan: LabPlan,
    paths: LabPaths,
    hypervisor: Hypervisor,
    processes: Processes,
    bus: Bus,
    accounts: ServerAccounts,
    only: Collection[str] | None = None,
) -> None:
    """Define all servers, or those with these names, and make their disks."""
    wanted = [server for server in plan.servers if only is None or server.name in only]
    with bus.step("servers", servers=len(wanted)) as step:
        for folder in mounts(plan, paths):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(PASSAGE)
        # libvirtd opens the logs for QEMU; an agent prints its one-time tokens there
        paths.console("").parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        changed = False
        for planned in wanted:
            server = hardware(planned, plan, paths, accounts)
            for disk in server.disks:
                changed |= await _ensure_disk(disk, processes)
            if await hypervisor.ensure(server):
                changed = True
                state = await hypervisor.observe(server.name)
                if state is not None and state.power is Power.ON:
                    bus.tell("server-keeps-hardware", subject=f"server/{server.name}", server=server.name)
        if not changed:
            step.unchanged()


async def retire_server(server: PlannedServer, plan: LabPlan, paths: LabPaths, hypervisor: Hypervisor) -> None:
    """Delete a server: its domain, its disks and its console log."""
    await hypervisor.retire(server.name)
    box = hardware(server, plan, paths)
    for path in (*(disk.path for disk in box.disks), box.nvram, box.console_log):
        path.unlink(missing_ok=True)


async def _ensure_disk(disk: Disk, processes: Processes) -> bool:
    if disk.path.exists():
        disk.path.chmod(0o600)  # those of labs made earlier were readable by all who got there
        return False
    scratch = disk.path.with_suffix(".new")
    await processes.run(["qemu-img", "create", "-q", "-f", "qcow2", scratch, str(disk.size_bytes)])
    scratch.chmod(0o600)
    scratch.rename(disk.path)
    return True


def _serial(lab: str, server: str) -> str:
    return "RL" + hashlib.sha256(f"{lab}/{server}".encode()).hexdigest()[:12].upper()
