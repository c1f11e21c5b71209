"""The hosts of a lab: labd runs Ironic, the file server with the images, and the controller of the BareMetalHosts."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rackless.codec import encode
from rackless.controllers.discovery import HostDiscovery
from rackless.controllers.host import host_controller
from rackless.controllers.runtime.runtime import Runtime
from rackless.errors import InputError, LabError, RacklessError
from rackless.events import Bus
from rackless.images.trust import write_trusting
from rackless.lab.files import FileServer
from rackless.lab.network_boot import Answered, NetworkBoot, find_loaders
from rackless.lab.user_images import UserImages
from rackless.labd.api import LabApi
from rackless.labd.installed import InstalledCluster
from rackless.plan.model import LabPlan, PlannedServer
from rackless.ports.api import ApiConnection, ApiUnreachable
from rackless.ports.drivers import Drivers
from rackless.ports.ironic import Guest, IronicSite, OpenProvisioner, ProvisioningService
from rackless.ports.provisioner import Image
from rackless.ports.resources import Conflict, Record
from rackless.protocol.messages import HostDone, HostWish, WishedImage
from rackless.provisioning import external_ironic
from rackless.provisioning.baremetalhost import KIND, Operational, State, System, read
from rackless.provisioning.wishes import Granted, HostWishes
from rackless.run.paths import LabPaths
from rackless.run.supervise import KeptProcesses
from rackless.run.supplies import Supplies, load_supplies
from rackless.run.waiting import until
from rackless.run.watching import go_on
from rackless.spec.discover import Discover
from rackless.spec.images import ImageSpec
from rackless.spec.lab import Role
from rackless.spec.provisioner import ProvisionerSpec, Ramdisk
from rackless.trust.authority import Use
from rackless.trust.identity import USERNAME, Identity

DEPROVISION_WITHIN = 1800.0
PATIENCE = 4
"""How often deprovisioning a host may fail before its server is deleted nevertheless."""


class LabHosts:
    def __init__(
        self,
        plan: LabPlan,
        paths: LabPaths,
        identity: Identity,
        api: LabApi,
        resources: ApiConnection,
        processes: KeptProcesses,
        drivers: Drivers,
        bus: Bus,
        *,
        evidence: Callable[[str], str],
        lost: Callable[[str], str],
    ) -> None:
        self._plan = plan
        self._paths = paths
        self._identity = identity
        self._api = api
        self._resources = resources
        self._processes = processes
        self._drivers = drivers
        self._clock = drivers.clock
        self._bus = bus
        self._evidence = evidence
        self._lost = lost
        boot = plan.network_boot if plan.provisioner is None else None
        # where agents come over the provisioning network, all they need is there, as with Metal3
        self._address = boot.gateway.ip if boot is not None else plan.gateway.ip
        self.installed = InstalledCluster(plan, paths, drivers)
        self.files = FileServer(paths.files, *dict.fromkeys((str(self._address), str(plan.gateway.ip))))
        self.network_boot = (
            NetworkBoot(
                boot,
                self.files.url,
                paths.run,
                paths.logs / "network-boot.log",
                processes,
                lambda: find_loaders(drivers.computer),
            )
            if boot is not None
            else None
        )
        self._ironic: ProvisioningService | None = None
        self._provisioner: OpenProvisioner | None = None
        self._controlled: ApiConnection | None = None
        self._controller: asyncio.Task[None] | None = None
        self._discovering: asyncio.Task[None] | None = None
        self.runtime: Runtime | None = None
        """While somebody looks after them."""

    def replan(self, plan: LabPlan) -> None:
        """Servers were made or taken away on demand."""
        self._plan = plan

    def lacking(self) -> str:
        """Why Ironic or the host controller must be started (again); empty when both run."""
        if self._provisioner is None:
            return "not running yet"
        if self._ironic is not None and self._ironic.forgetful:
            return "its database is gone"
        return "nobody looks after the hosts" if self._controller is None or self._controller.done() else ""

    async def ensure_provisioning(self, *, checked: bool = True) -> None:
        """Start Ironic and the host controller; from then on BareMetalHosts that anybody writes are acted on.

        Unless `checked`, somebody else's Ironic may be away for now: it is waited for when it is needed.
        """
        with self._bus.step("Ironic") as step:
            if self._ironic is not None and self._ironic.forgetful:
                await self.stop_provisioning()
                step.detail = "its database was gone; hosts are registered again"
            if self._provisioner is not None:
                step.unchanged()
                self.ensure_controller()
                return
            supplies = load_supplies(self._paths.supplies)
            await self.files.start()
            if self._plan.provisioner is not None:
                self._provisioner = await self._open_external(self._plan.provisioner, supplies, checked)
                step.detail = self._plan.provisioner.url
            else:
                self._provisioner = await self._start_own(supplies)
        self.ensure_controller()

    async def _start_own(self, supplies: Supplies) -> OpenProvisioner:
        if supplies.ironic is None:
            raise LabError("Ironic's environment is not here", hint="`rackless up` makes it")
        if self.network_boot is not None:
            await self.network_boot.start()
        self._ironic = await self._drivers.start_provisioning(
            await self._ironic_site(supplies), supplies.ironic, self._processes, log=self._paths.logs / "ironic.log"
        )
        return self._ironic.open(network_boot=self.network_boot is not None)

    async def _open_external(self, spec: ProvisionerSpec, supplies: Supplies, checked: bool) -> OpenProvisioner:
        """Connect to an Ironic that is not the lab's, and serve the deploy kernel and ramdisk for it."""
        found = self._drivers.reach_provisioning(external_ironic.load(spec, self._paths))
        if checked:
            await found.check()
        offered = {"deploy_kernel": supplies.kernel, "deploy_ramdisk": supplies.initramfs, "bootloader": supplies.esp}
        ramdisk = {
            name: f"{self.files.url}/{self._offer(path, f'{name}-{path.parent.name}')}"
            for name, path in offered.items()
        }
        return found.open(Guest(f"{self._plan.name}~", ramdisk if spec.ramdisk is Ramdisk.LAB else {}))

    async def forget_nodes(self) -> list[str]:
        """Delete this lab's nodes from an Ironic that is not the lab's."""
        spec = self._plan.provisioner
        if spec is None:
            return []
        await self.stop_provisioning()
        found = self._drivers.reach_provisioning(external_ironic.load(spec, self._paths))
        await found.check()
        return await found.forget_all(Guest(f"{self._plan.name}~"))

    def ensure_controller(self) -> None:
        if self._provisioner is None:
            raise LabError("nobody looks after the hosts yet", hint="`rackless up` starts the engine that does")
        if self._controller is None or self._controller.done():
            ca = self._identity.authority().certificate
            self._controlled = self._controlled or self._api.open(patience=math.inf)
            if self._discovering is not None:
                self._discovering.cancel()
            runtime = Runtime(self._clock, self._bus)
            host_controller(
                runtime, self._controlled, self._provisioner, bmc_ca=ca, evidence=self._evidence, lost=self._lost
            )
            self._controller = asyncio.create_task(runtime.run(), name="hosts")
            self.runtime = runtime
            if self._plan.discover is not Discover.OFF and self.network_boot is not None:
                discovery = HostDiscovery(self._controlled, self._provisioner, self._clock, self._bus)
                watch = go_on(discovery.run, "looking for servers that nobody has described", self._bus, self._clock)
                self._discovering = asyncio.create_task(watch, name="discovery")

    async def stop_provisioning(self) -> None:
        running = [task for task in (self._controller, self._discovering) if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._controller = self._discovering = self.runtime = None
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
        supplies = load_supplies(self._paths.supplies)
        name = self._offer(supplies.node, f"node-{supplies.node_sha256[:16]}.qcow2")
        return Image(f"{self.files.url}/{name}", supplies.node_sha256)

    def _offer(self, path: Path, name: str) -> str:
        """Have the file server serve a file of the cache by this name."""
        link = self._paths.files / name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(path)
        return name

    def answered(self, server: PlannedServer) -> Answered | None:
        """What DHCP, TFTP and HTTP gave a server that boots over the network; None for a server that does not."""
        nic = server.boot_nic
        if self.network_boot is None or not server.bmc_scheme.boots_over_network:
            return None
        return self.network_boot.answered(nic.mac, str(nic.address))

    async def records(self) -> list[Record]:
        """The BareMetalHosts as the API has them."""
        if self.installed.present:
            return await self.installed.resources().list(KIND)
        return await self._resources.list(KIND) if self._api.started else []

    async def known(self) -> list[Record]:
        """The BareMetalHosts, or an empty list while the API does not answer: `status` still shows the rest."""
        try:
            return await self.records()
        except ApiUnreachable as error:
            self._bus.tell("api-away", why=str(error))
            return []

    def own_systems(self) -> dict[str, System]:
        """Images of users' own (`image:` in lab.yaml) that servers get instead of the node image, by server."""
        images = UserImages(self._paths)
        return {
            server.name: System(images.resolve(server.image, self.files.url), images.user_data(server.image))
            for server in self._plan.servers
            if server.image is not None and server.role is not Role.SPARE
        }

    def offered(self, path: str) -> str:
        """The URL on the lab's file server of a file that was offered. Raises LabError when it was not offered."""
        return UserImages(self._paths).resolve(ImageSpec(url=path), self.files.url).url

    async def wish(self, asked: HostWish) -> HostDone:
        """Carry out a verb on one host (provision, deprovision, retry …), and wait for it when asked to."""
        if self.installed.present:
            done = await self._ask(HostWishes(self.installed.resources()), asked)
        else:
            self.ensure_controller()
            done = await self._ask(HostWishes(self._resources), asked)
        return HostDone(done.host, done.changed, done.state)

    async def _ask(self, wishes: HostWishes, asked: HostWish) -> Granted:
        name, wait, image = asked.host, asked.wait, self._image(asked.image)
        match asked.verb:
            case "inspect":
                return await wishes.inspect(name, wait=wait)
            case "clean":
                return await wishes.clean(name, wait=wait)
            case "take":
                return await wishes.take(name, wait=wait)
            case "retry":
                return await wishes.retry(name, wait=wait)
            case "deprovision":
                return await wishes.deprovision(name, wait=wait)
            case "adopt":
                return await wishes.adopt(name, image, wait=wait)
            case "provision" if image is not None:
                system = System(image, asked.user_data)
                return await wishes.provision(name, system, replace=asked.replace, wait=wait)
        raise InputError(f"a host cannot be asked to {asked.verb} without an image", hint="name one with --image")

    def _image(self, given: WishedImage | None) -> Image | None:
        if given is None:
            return None
        if "://" in given.checksum and not given.checksum.startswith(("http://", "https://")):
            raise InputError(f"{given.checksum} is no URL of checksums", hint="give it with http:// or https://")
        return UserImages(self._paths).resolve(ImageSpec.model_validate(encode(given)), self.files.url)

    async def retire(self, name: str) -> None:
        """Delete a host. It is deprovisioned first; when its BMC cannot be reached, it is deleted all the same."""
        if await self._resources.get(KIND, name) is None:
            return
        try:
            await self.ensure_provisioning()
            self.ensure_controller()
            await self._resources.delete(KIND, name)
            await self._await_gone(name)
        except RacklessError as error:
            self._bus.tell("host-let-go", subject=f"host/{name}", host=name, why=str(error))
            await self._let_go(name)

    async def _await_gone(self, name: str) -> None:
        async def gone() -> tuple[bool, str]:
            record = await self._resources.get(KIND, name)
            if record is None:
                return True, "gone"
            status = read(record).status
            if status.operational is Operational.ERROR and status.error_count > PATIENCE:
                raise LabError(f"it could not be taken down in good order ({status.state})", why=status.error_message)
            return False, status.state.value

        await until(gone, what=f"the host {name} to be deleted", within=DEPROVISION_WITHIN, every=1, clock=self._clock)

    async def _let_go(self, name: str) -> None:
        """Remove a host's finalizer, so that the API deletes it; the host controller may write to it at the same time."""
        while (record := await self._resources.get(KIND, name)) is not None:
            record["metadata"]["finalizers"] = []
            with suppress(Conflict):
                await self._resources.apply(record)
                await self._resources.delete(KIND, name)

    async def keep_power(self, name: str, *, online: bool) -> None:
        """Write the power state that a person chose into a provisioned host's `spec.online`, or its controller would undo it.
        When the API of a cluster that installed itself does not answer, nothing is written: the server may be its control plane,
        being switched on."""
        try:
            await self._keep_power(name, online=online)
        except ApiUnreachable as error:
            if not self.installed.present:
                raise
            self._bus.tell("api-away", why=str(error))

    async def _keep_power(self, name: str, *, online: bool) -> None:
        resources = self.installed.resources() if self.installed.present else self._resources
        while (record := await resources.get(KIND, name)) is not None:
            if read(record).status.state is not State.PROVISIONED:
                return
            record["spec"]["online"] = online
            with suppress(Conflict):  # the host controller wrote meanwhile: read again
                await resources.apply(record)
                return

    async def _ironic_site(self, supplies: Supplies) -> IronicSite:
        authority = self._identity.authority()
        leaf = authority.ensure_leaf("ironic", [str(self._address)], uses=(Use.SERVER,))
        ramdisk = supplies.initramfs
        if self.network_boot is not None:
            ramdisk = self._paths.ironic / "deploy.initramfs"
            ramdisk.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            await asyncio.to_thread(write_trusting, supplies.initramfs, authority.certificate, ramdisk)
        return IronicSite(
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
            discover=self._plan.discover if self.network_boot is not None else Discover.OFF,
        )
