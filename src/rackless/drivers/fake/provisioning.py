"""A provisioning engine of a fake lab: the fake provisioner, behind a process, with servers that it switches and writes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.drivers.fake.provisioner import FakeProvisioner
from rackless.drivers.fake.script import Script
from rackless.errors import CommandFailed, LabError
from rackless.ports.hypervisor import NoSuchServer, Power, Unreachable
from rackless.ports.ironic import ForeignAccess, Guest, IronicSite
from rackless.ports.process import Child, Processes
from rackless.ports.provisioner import (
    NO_SETTINGS,
    Again,
    ConfigDrive,
    Done,
    EventReceiver,
    HostAccess,
    Image,
    Result,
)

DATABASE = "ironic.sqlite"
STARTS_WITHIN = 3.0
"""Seconds that the engine takes until it answers."""


@dataclass
class LabProvisioner(FakeProvisioner):
    """Does to the lab's servers what the real engine does through their BMCs; and answers only while its process runs."""

    hypervisor: FakeHypervisor = field(default_factory=FakeHypervisor)
    script: Script = field(default_factory=Script)
    running: bool = False
    lying: set[str] = field(default_factory=set)
    """Servers whose BMC says that it switched them, and did not."""
    guests: set[str] = field(default_factory=set)
    """Prefixes of the labs that it works for, where it is somebody else's engine."""
    unreachable: set[str] = field(default_factory=set)
    """URLs at which somebody else's engine does not answer."""
    disks: dict[str, Image] = field(default_factory=dict)
    """The image on each server's disk; it stays when the engine loses its database."""

    async def register(self, host: HostAccess, *, restart: bool = False) -> Result:
        return await self._away("register", host) or await super().register(host, restart=restart)

    async def inspect(self, host: HostAccess, *, restart: bool = False) -> Result:
        return await self._booted(
            host, await self._away("inspect", host) or await super().inspect(host, restart=restart)
        )

    async def prepare(
        self, host: HostAccess, settings: Mapping[str, str] = NO_SETTINGS, *, restart: bool = False
    ) -> Result:
        return await self._booted(
            host, await self._away("prepare", host) or await super().prepare(host, settings, restart=restart)
        )

    async def provision(self, host: HostAccess, image: Image, config: ConfigDrive, *, restart: bool = False) -> Result:
        found = await self._away("provision", host) or await super().provision(host, image, config, restart=restart)
        await self._booted(host, found)
        if isinstance(found, Done) and self.disks.get(host.name) != image:
            self.disks[host.name] = image
            self.script.change("provisioner", "provision", host.name)
            await self._switch(host.name, on=True)
        return found

    async def adopt(self, host: HostAccess, image: Image, *, restart: bool = False) -> Result:
        return await self._away("adopt", host) or await super().adopt(host, image, restart=restart)

    async def deprovision(self, host: HostAccess, *, restart: bool = False) -> Result:
        found = await self._away("deprovision", host) or await super().deprovision(host, restart=restart)
        await self._booted(host, found)
        if isinstance(found, Done) and self.disks.pop(host.name, None) is not None:
            self.script.change("provisioner", "deprovision", host.name)
            await self._switch(host.name, on=False)
        return found

    async def power(self, host: HostAccess, on: bool, *, hard: bool = False, restart: bool = False) -> Result:
        if (engine := self.hosts.get(host.name)) is not None:
            engine.powered_on = await self._is_on(host.name)
        found = await self._away("power", host) or await super().power(host, on, hard=hard, restart=restart)
        if isinstance(found, Done):
            await self._switch(host.name, on=on)
        return found

    async def delete(self, host: HostAccess) -> Result:
        return await self._away("delete", host) or await super().delete(host)

    async def firmware(self, host: HostAccess) -> Result:
        return await self._away("firmware", host) or await super().firmware(host)

    async def media(self, host: HostAccess, url: str | None, *, restart: bool = False) -> Result:
        return await self._away("media", host) or await super().media(host, url, restart=restart)

    async def subscribe(self, host: HostAccess, receiver: EventReceiver) -> Result:
        return await self._away("subscribe", host) or await super().subscribe(host, receiver)

    async def unsubscribe(self, host: HostAccess, id: str) -> Result:
        return await self._away("unsubscribe", host) or await super().unsubscribe(host, id)

    async def close(self) -> None: ...

    async def _away(self, method: str, host: HostAccess) -> Again | None:
        await self.script.meet("provisioner", method, host.name)
        return None if self.running else Again(1.0, "the engine does not answer", busy=True)

    async def _booted(self, host: HostAccess, found: Result) -> Result:
        """Work that the agent does needs a server that runs it."""
        if isinstance(found, Again) and found.agent:
            await self._switch(host.name, on=True)
        return found

    async def _is_on(self, name: str) -> bool:
        try:
            state = await self.hypervisor.observe(name)
        except Unreachable:
            return False
        return state is not None and state.power is Power.ON

    async def _switch(self, name: str, *, on: bool) -> None:
        if name in self.lying:
            return
        try:
            await (self.hypervisor.power_on(name) if on else self.hypervisor.power_off(name))
        except (NoSuchServer, Unreachable):
            return


@dataclass(frozen=True, slots=True)
class FakeProvisioningService:
    site: IronicSite
    child: Child
    provisioner: LabProvisioner

    @property
    def forgetful(self) -> bool:
        return not (self.site.state / DATABASE).exists()

    def open(self, *, network_boot: bool) -> LabProvisioner:
        return self.provisioner

    async def stop(self) -> None:
        await self.child.stop(within=15.0)


@dataclass(frozen=True, slots=True)
class FakeForeign:
    """Somebody else's engine, which always runs."""

    access: ForeignAccess
    provisioner: LabProvisioner

    async def check(self) -> None:
        await self.provisioner.script.meet("provisioner", "check", self.access.url)
        if self.access.url in self.provisioner.unreachable:
            raise LabError(f"the engine at {self.access.url} does not answer")

    def open(self, guest: Guest) -> LabProvisioner:
        self.provisioner.running = True
        self.provisioner.guests.add(guest.prefix)
        return self.provisioner

    async def forget_all(self, guest: Guest) -> list[str]:
        if guest.prefix not in self.provisioner.guests:
            return []
        names = sorted(self.provisioner.hosts)
        for name in names:
            self.provisioner.script.change("provisioner", "delete", name)
        self.provisioner.forget()
        return [f"{guest.prefix}{name}" for name in names]


async def start_provisioning(
    site: IronicSite, environment: Path, processes: Processes, provisioner: LabProvisioner, *, log: Path
) -> FakeProvisioningService:
    site.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (site.state / DATABASE).exists():
        provisioner.forget()
        (site.state / DATABASE).touch()
    child = await processes.start([environment / "bin/ironic"], log=log)
    while not provisioner.running:
        if child.code is not None:
            raise CommandFailed([str(environment / "bin/ironic")], child.code, "it ended")
        await asyncio.sleep(0.1)
    return FakeProvisioningService(site, child, provisioner)
