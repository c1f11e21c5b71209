"""What an installer, or a run of it that was killed, has left in a lab: its machine, storage pools and volumes, the API VIP."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.operations.access import inside_command
from rackless.plan.model import CLUSTER_BRIDGE
from rackless.ports.drivers import Drivers
from rackless.protocol.client import ControlClient
from rackless.protocol.messages import POWER, PressPower
from rackless.run.paths import LabPaths

MACHINE = "-bootstrap"
"""How the names of the installer's machines and pools end."""


@dataclass(frozen=True, slots=True)
class Leavings:
    paths: LabPaths
    servers: Collection[str]
    """The lab's own, which stay."""
    api_vip: IPv4Address | IPv6Address
    drivers: Drivers

    async def find_machine(self) -> str:
        """The installer's machine, where it runs; empty where none does."""
        found = [name for name in await self._virsh("list", "--name") if self._is_theirs(name)]
        return found[0] if found else ""

    async def remove(self, *folders: Path) -> None:
        """Remove the machine, the pools and what is in them, also those that `destroy cluster` forgets, the VIP, and the folders
        of the run."""
        for name in filter(self._is_not_ours, await self._virsh("list", "--all", "--name")):
            await self._virsh("destroy", name)
            await self._virsh("undefine", name, "--nvram")
        for pool in await self._virsh("pool-list", "--all", "--name"):
            if pool.endswith(MACHINE):
                await self._virsh("pool-start", pool)  # an inactive one does not tell its volumes
                for volume in await self._volumes(pool):
                    await self._virsh("vol-delete", volume, "--pool", pool)
                await self._virsh("pool-destroy", pool)
                await self._virsh("pool-delete", pool)
                await self._virsh("pool-undefine", pool)
        argv = ["ip", "address", "delete", f"{self.api_vip}/32", "dev", CLUSTER_BRIDGE]
        inside = inside_command(self.paths.name, argv, self.paths.roots, self.drivers)
        await self.drivers.processes.run(inside, check=False)
        for folder in folders:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def switch_off(self, bus: Bus) -> None:
        """Servers that a run was installing: a control plane of the last run would answer for the VIP in the next."""
        for name in sorted(self.servers):
            await ControlClient(self.paths.socket).work(POWER, PressPower(name, "off"), bus)

    def _is_not_ours(self, name: str) -> bool:
        return name not in self.servers

    def _is_theirs(self, name: str) -> bool:
        return name.endswith(MACHINE) and self._is_not_ours(name)

    async def _volumes(self, pool: str) -> list[str]:
        """A line has a volume's name and its path."""
        return [line.split()[0] for line in (await self._said("vol-list", pool)).splitlines() if line.strip()]

    async def _virsh(self, *words: str) -> list[str]:
        return (await self._said(*words)).split()

    async def _said(self, *words: str) -> str:
        argv = inside_command(self.paths.name, ["virsh", "--quiet", *words], self.paths.roots, self.drivers)
        with suppress(RacklessError):
            done = await self.drivers.processes.run(argv, check=False, within=60)
            return done.stdout if done.code == 0 else ""
        return ""
