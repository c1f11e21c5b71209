"""The hosts of a lab as labd looks after them: Ironic, the files it serves, and the controller of the BareMetalHosts."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from rackless.daemon import prepare
from rackless.daemon.identity import USERNAME, Identity
from rackless.daemon.keeper import KeptProcesses
from rackless.daemon.lab_api import LabApi
from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.drivers.ironic.service import IronicService
from rackless.drivers.kubernetes.client import ApiUnreachable
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.errors import LabError, RacklessError
from rackless.events import Bus
from rackless.images.trust import write_trusting
from rackless.lab.files import FileServer
from rackless.lab.network_boot import Answered, NetworkBoot
from rackless.plan.model import LabPlan, PlannedServer
from rackless.ports.clock import Clock
from rackless.ports.provisioner import Image
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import KIND, State, read
from rackless.provisioning.controller import HostController
from rackless.provisioning.waiting import until_state
from rackless.run.paths import LabPaths
from rackless.run.waiting import until

DEPROVISION_WITHIN = 1800.0


class LabHosts:
    def __init__(
        self,
        plan: LabPlan,
        paths: LabPaths,
        identity: Identity,
        api: LabApi,
        resources: KubernetesResources,
        processes: KeptProcesses,
        clock: Clock,
        bus: Bus,
        *,
        evidence: Callable[[str], str],
    ) -> None:
        self._plan = plan
        self._paths = paths
        self._identity = identity
        self._api = api
        self._resources = resources
        self._processes = processes
        self._clock = clock
        self._bus = bus
        self._evidence = evidence
        boot = plan.network_boot
        # where agents come over the provisioning network, all they need is there, as with Metal3
        self._address = boot.gateway.ip if boot is not None else plan.gateway.ip
        self.files = FileServer(paths.files, *dict.fromkeys((str(self._address), str(plan.gateway.ip))))
        self.network_boot = (
            NetworkBoot(boot, self.files.url, paths.run, paths.logs / "network-boot.log", processes)
            if boot is not None
            else None
        )
        self._ironic: IronicService | None = None
        self._provisioner: IronicProvisioner | None = None
        self._controlled: KubernetesResources | None = None
        self._controller: asyncio.Task[None] | None = None

    async def ensure_engine(self) -> None:
        """Ironic runs, and hosts may be written down by anybody from then on."""
        with self._bus.step("Ironic") as step:
            if self._ironic is not None:
                step.unchanged()
                return
            supplies = prepare.load_supplies(self._paths.supplies)
            await self.files.start()
            if self.network_boot is not None:
                await self.network_boot.start()
            config = await self._ironic_config(supplies)
            service = IronicService(config, supplies.ironic, self._processes, log=self._paths.logs / "ironic.log")
            await service.start()
            self._ironic = service
            self._provisioner = IronicProvisioner(
                config.url, config.username, config.password, config.ca, network_boot=self.network_boot is not None
            )
        self.ensure_controller()

    def ensure_controller(self) -> None:
        if self._provisioner is None:
            raise LabError("hosts cannot be provisioned before the engine runs")
        if self._controller is None or self._controller.done():
            ca = self._identity.authority().certificate
            self._controlled = self._controlled or self._api.open(patience=math.inf)
            controller = HostController(
                self._controlled, self._provisioner, self._clock, self._bus, bmc_ca=ca, evidence=self._evidence
            )
            self._controller = asyncio.create_task(self._look_after(controller), name="hosts")

    async def stop_engine(self) -> None:
        if self._controller is not None:
            self._controller.cancel()
            await asyncio.gather(self._controller, return_exceptions=True)
            self._controller = None
        if self._controlled is not None:
            await self._controlled.close()
            self._controlled = None
        if self._provisioner is not None:
            await self._provisioner.close()
            self._provisioner = None
        if self._ironic is not None:
            await self._ironic.stop()
            self._ironic = None
        if self.network_boot is not None:
            await self.network_boot.stop()

    def node_image(self) -> Image:
        """The node image, offered on the lab's file server."""
        supplies = prepare.load_supplies(self._paths.supplies)
        name = f"node-{supplies.node_sha256[:16]}.qcow2"
        link = self._paths.files / name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(supplies.node)
        return Image(f"{self.files.url}/{name}", supplies.node_sha256)

    def answered(self, server: PlannedServer) -> Answered | None:
        """What a server got on the network it boots from; None for one that does not."""
        nic = server.boot_nic
        if self.network_boot is None or not server.bmc_scheme.boots_over_network:
            return None
        return self.network_boot.answered(nic.mac, str(nic.address))

    async def records(self) -> list[dict[str, Any]]:
        """The hosts as they stand in the records; BareMetalHosts, word for word."""
        return await self._resources.list(KIND) if self._api.started else []

    async def known(self) -> list[Record]:
        """None while the API is away: the rest can still be told."""
        try:
            return await self.records()
        except ApiUnreachable as error:
            self._bus.warn(str(error))
            return []

    async def deprovision(self, name: str) -> None:
        """Take the system off a host; it is cleaned and stays available."""
        record = await self._require(name)
        record["spec"].pop("image", None)
        record["spec"].pop("userData", None)
        await self._resources.apply(record)
        self.ensure_controller()
        await until_state(self._resources, [name], State.AVAILABLE, within=DEPROVISION_WITHIN)

    async def retire(self, name: str) -> None:
        """Delete a host in good order: what is on it is taken off first."""
        if await self._resources.get(KIND, name) is None:
            return
        if self._ironic is None:
            await self.ensure_engine()
        self.ensure_controller()
        await self._resources.delete(KIND, name)

        async def gone() -> tuple[bool, str]:
            record = await self._resources.get(KIND, name)
            return record is None, read(record).status.state.value if record is not None else "gone"

        await until(gone, what=f"the host {name} to be deleted", within=DEPROVISION_WITHIN, every=1, clock=self._clock)

    async def keep_power(self, name: str, *, online: bool) -> None:
        """What a person did at the power button of a provisioned host is what the host should be from now on."""
        record = await self._resources.get(KIND, name)
        if record is not None and read(record).status.state is State.PROVISIONED:
            record["spec"]["online"] = online
            await self._resources.apply(record)

    async def _require(self, name: str) -> Record:
        record = await self._resources.get(KIND, name)
        if record is None:
            raise LabError(f"there is no host {name}", hint="`rackless host list` shows the hosts there are")
        return record

    async def _look_after(self, controller: HostController) -> None:
        try:
            await controller.run()
        except* RacklessError as group:
            self._bus.warn(f"hosts are no longer looked after: {'; '.join(map(str, group.exceptions))}")

    async def _ironic_config(self, supplies: prepare.Supplies) -> IronicConfig:
        authority = self._identity.authority()
        leaf = authority.ensure_leaf("ironic", [str(self._address)])
        ramdisk = supplies.initramfs
        if self.network_boot is not None:
            ramdisk = self._paths.ironic / "deploy.initramfs"
            ramdisk.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            await asyncio.to_thread(write_trusting, supplies.initramfs, authority.certificate, ramdisk)
        return IronicConfig(
            state=self._paths.ironic,
            address=self._address,
            certificate=leaf.certificate,
            key=leaf.key,
            ca=authority.certificate,
            username=USERNAME,
            password=self._identity.password("ironic"),
            http_url=self.files.url,
            http_root=self._paths.files,
            kernel=supplies.kernel,
            ramdisk=ramdisk,
            esp=supplies.esp,
        )
