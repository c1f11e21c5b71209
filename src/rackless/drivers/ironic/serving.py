"""Ironic behind `ports.ironic`: started for a lab, and opened as its provisioner."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.drivers.ironic.service import IronicService
from rackless.ports.ironic import IronicSite
from rackless.ports.process import Processes


@dataclass(frozen=True, slots=True)
class RunningIronic:
    config: IronicConfig
    service: IronicService

    @property
    def forgetful(self) -> bool:
        return self.service.forgetful

    def open(self, *, network_boot: bool) -> IronicProvisioner:
        config = self.config
        return IronicProvisioner(
            config.url, config.username, config.password, config.ca,
            network_boot=network_boot, database=config.database,
        )  # fmt: skip

    async def stop(self) -> None:
        await self.service.stop()


async def start_ironic(site: IronicSite, environment: Path, processes: Processes, *, log: Path) -> RunningIronic:
    config = IronicConfig(**{field.name: getattr(site, field.name) for field in fields(site)})
    service = IronicService(config, environment, processes, log=log)
    await service.start()
    return RunningIronic(config, service)
