"""The running parts of one lab and the stages that make them. The composition root: here the drivers are opened.

Every stage may be run again: it makes what is missing and leaves what is there.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rackless.daemon.keeper import Keeper
from rackless.drivers.clock import SystemClock
from rackless.drivers.libvirt.connection import Connection
from rackless.drivers.libvirt.domain_xml import OVMF, Platform
from rackless.drivers.libvirt.hypervisor import LibvirtHypervisor
from rackless.drivers.libvirt.networks import LibvirtNetworks
from rackless.drivers.netlink.links import NetlinkLinks
from rackless.drivers.process import LocalProcesses
from rackless.errors import LabError, MachineError
from rackless.events import Bus
from rackless.lab import libvirtd
from rackless.lab.networks import ensure_networks
from rackless.lab.servers import ensure_servers
from rackless.plan.addressing import plan_lab
from rackless.run.files import write
from rackless.run.paths import LabPaths
from rackless.run.waiting import until
from rackless.spec.lab import LabSpec

STAGES = ("lab",)


class Engine:
    def __init__(self, paths: LabPaths, spec: LabSpec, bus: Bus) -> None:
        self.paths = paths
        self.spec = spec
        self.plan = plan_lab(spec)
        self.bus = bus
        self.clock = SystemClock()
        self.processes = LocalProcesses()
        self.links = NetlinkLinks()
        self.connection = Connection()
        self.networks = LibvirtNetworks(self.connection)
        self.hypervisor = LibvirtHypervisor(self.connection, _platform(kvm=False))
        self.libvirtd = Keeper(
            "libvirtd",
            ["libvirtd"],
            pidfile=paths.run / "libvirtd.pid",
            log=paths.logs / "libvirtd.log",
            bus=bus,
        )
        self._busy = asyncio.Lock()
        self._stages: dict[str, Callable[[], Awaitable[None]]] = {"lab": self._lab}

    async def run_stage(self, name: str) -> None:
        """Run one stage, after those before it have been run."""
        async with self._busy:
            await self._stages[name]()
            if STAGES.index(name) >= self._goal():
                write(self.paths.goal, name)

    async def restore(self) -> None:
        """After a restart: bring back what had been reached."""
        async with self._busy:
            for name in STAGES[: self._goal() + 1]:
                await self._stages[name]()

    async def stop(self) -> None:
        """End what we keep running; the servers run on."""
        await self.connection.close()
        await self.libvirtd.stop()

    async def status(self) -> dict[str, Any]:
        return {"lab": self.plan.name}

    def _goal(self) -> int:
        try:
            return STAGES.index(self.paths.goal.read_text())
        except (FileNotFoundError, ValueError):
            return -1

    async def _lab(self) -> None:
        await self.links.ensure_loopback()
        await self._ensure_libvirtd()
        await ensure_networks(self.plan, self.links, self.networks, self.bus)
        await ensure_servers(self.plan, self.paths, self.hypervisor, self.processes, self.bus)

    async def _ensure_libvirtd(self) -> None:
        with self.bus.step("libvirtd") as step:
            if self.libvirtd.running and Path("/run/libvirt/libvirt-sock").exists():
                step.unchanged()
                return
            libvirtd.write_configuration(Path("/etc/libvirt"))
            await self.libvirtd.start()

            async def answers() -> tuple[bool, str]:
                self.libvirtd.check()
                try:
                    await self.connection.call(lambda conn: conn.getLibVersion())
                except LabError as error:
                    return False, error.why
                return True, "answers"

            await until(answers, what="libvirtd to answer", within=60, every=0.05, clock=self.clock)


def _platform(*, kvm: bool) -> Platform:
    emulator = shutil.which("qemu-system-x86_64")
    firmware = next(((Path(code), Path(vars)) for code, vars in OVMF if Path(code).exists()), None)
    if emulator is None or firmware is None:
        raise MachineError(
            "QEMU or its UEFI firmware is not installed",
            why=f"qemu-system-x86_64: {emulator or 'not found'}; OVMF: {firmware or 'not found'}",
            hint="run `rackless prepare`, which installs what is missing",
        )
    return Platform(kvm, Path(emulator), *firmware)
