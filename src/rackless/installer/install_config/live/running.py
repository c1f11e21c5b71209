"""All live checks at once. Each says what it did; none changes anything."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from rackless.installer.install_config.config import Config
from rackless.installer.install_config.live import bmcs, hypervisor, libvirt, names, neighbours, vrrp
from rackless.installer.install_config.live.probe import Probe, ProbeOutcome
from rackless.ports.process import Processes


@dataclass(frozen=True, slots=True)
class LiveFindings:
    probes: tuple[Probe, ...]
    bridges: frozenset[str] | None
    """What libvirt would show the installer; None where it could not be asked."""

    @property
    def failed(self) -> bool:
        return any(probe.outcome is ProbeOutcome.FAILED for probe in self.probes)


async def observe(config: Config, processes: Processes) -> LiveFindings:
    async with asyncio.TaskGroup() as tasks:
        parts = [
            tasks.create_task(names.observe(config)),
            tasks.create_task(neighbours.observe(config)),
            tasks.create_task(vrrp.observe(config)),
            tasks.create_task(bmcs.observe(config, processes)),
            tasks.create_task(hypervisor.observe(config)),
        ]
        found = tasks.create_task(libvirt.observe(config, processes))
    bridges = found.result()
    probes = [probe for part in parts for probe in part.result()]
    return LiveFindings((*probes, *bridges.probes), bridges.names)
