"""The running parts of one lab and the stages that make them. The composition root: here the drivers are opened.

Every stage may be run again: it makes what is missing and leaves what is there.
"""

from __future__ import annotations

import asyncio
import math
import shutil
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from rackless.bmc.accounts import Account
from rackless.bmc.faults import Fault, Operation, Trouble
from rackless.bmc.fleet import Bmc, BmcState, Fleet
from rackless.bmc.ipmi.sites import Ipmi
from rackless.bmc.starts import Starts, default_limit
from rackless.cluster.reference.recipe import Cluster, Keys, observe_nodes
from rackless.daemon import prepare
from rackless.daemon.bmc_site import BmcSite
from rackless.daemon.doorstep import host_url
from rackless.daemon.evidence import BootChain, read_console, read_lease
from rackless.daemon.keeper import Keeper, KeptProcesses
from rackless.daemon.lab_api import LabApi
from rackless.daemon.migration import migrate_records
from rackless.daemon.rest import Rest
from rackless.daemon.stages import STAGES
from rackless.drivers.clock import SystemClock
from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.drivers.ironic.service import IronicService
from rackless.drivers.kubernetes.client import ApiUnreachable
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.drivers.libvirt.connection import Connection
from rackless.drivers.libvirt.domain_xml import OVMF, OVMF_SECURE, Platform
from rackless.drivers.libvirt.hypervisor import LibvirtHypervisor
from rackless.drivers.libvirt.networks import LibvirtNetworks
from rackless.drivers.libvirt.terminal import find_terminal
from rackless.drivers.netlink.links import NetlinkLinks
from rackless.drivers.terminals import TerminalConsoles
from rackless.errors import InputError, LabError, MachineError, RacklessError
from rackless.events import Bus, count
from rackless.lab import libvirtd
from rackless.lab.certificates import Authority
from rackless.lab.files import FileServer
from rackless.lab.machine import free_bytes
from rackless.lab.networks import ensure_networks
from rackless.lab.ntp import TimeServer
from rackless.lab.secrets import ensure_password
from rackless.lab.servers import disk_folder, ensure_servers, retire_server
from rackless.plan.addressing import plan_lab
from rackless.plan.model import LabPlan
from rackless.ports.hypervisor import Unreachable
from rackless.ports.provisioner import Image
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import KIND, State, read
from rackless.provisioning.controller import HostController
from rackless.provisioning.waiting import until_state
from rackless.run.files import write
from rackless.run.paths import LabPaths
from rackless.run.waiting import until
from rackless.spec.lab import LabSpec

USERNAME = "admin"
DEPROVISION_WITHIN = 1800.0
LOOK_AT_DISK = 10.0
LOW_DISK = 2 << 30
API_BACK_WITHIN = 20.0
"""Seconds for which a request of a person waits for an API that is being started again."""


class Engine:
    def __init__(self, paths: LabPaths, spec: LabSpec, bus: Bus) -> None:
        self.paths = paths
        self.plan = _with_upstream(plan_lab(spec), paths)
        self.bus = bus
        self.clock = SystemClock()
        self.processes = KeptProcesses(paths.run, bus)
        self.links = NetlinkLinks()
        self.bmc_site = BmcSite(self.plan, self.links, self.processes, bus)
        self.connection = Connection()
        self.networks = LibvirtNetworks(self.connection)
        self.hypervisor = LibvirtHypervisor(self.connection, _platform(kvm=self._kvm()))
        self.libvirtd: Keeper | None = None
        self.time = TimeServer(str(self.plan.gateway.ip))
        self.fleet: Fleet | None = None
        self.files = FileServer(paths.files, str(self.plan.gateway.ip))
        self.ironic: IronicService | None = None
        self.provisioner: IronicProvisioner | None = None
        self.api = LabApi(paths, str(self.plan.gateway.ip), bus, self.clock)
        self.resources = self.api.open(API_BACK_WITHIN)
        self.controlled: KubernetesResources | None = None
        self.controller: asyncio.Task[None] | None = None
        self.cluster = Cluster(self.plan, Keys(paths.secrets / "cluster"), self.resources, self.clock, bus)
        self.warnings: list[str] = []
        self._busy = asyncio.Lock()
        self._stages: dict[str, Callable[[], Awaitable[None]]] = {
            "lab": self._lab,
            "bmc": self._bmcs,
            "engine": self._engine,
            "hosts": self._hosts,
            "cluster": self.cluster.await_nodes,
        }

    async def run_stage(self, name: str) -> None:
        """Run one stage; those before it have been run."""
        async with self._busy:
            await self._stages[name]()
            if STAGES.index(name) > self._reached():
                write(self.paths.goal, name)

    async def restore(self) -> None:
        """After a restart: start again what was running; whatever was to be waited for is not."""
        async with self._busy:
            for name in STAGES[: self._reached() + 1]:
                match name:
                    case "hosts":
                        self._start_controller()
                    case "cluster":
                        pass
                    case _:
                        await self._stages[name]()

    async def watch_disk(self) -> None:
        """Say it while there is still time when the disk fills up: QEMU pauses a server that cannot write."""
        while True:
            free = free_bytes(disk_folder(self.plan, self.paths))
            self.warnings = [f"only {free >> 20} MiB are free for the disks"] if free < LOW_DISK else []
            for warning in self.warnings:
                self.bus.warn(f"{warning}; servers pause when there is none left")
            await self.clock.sleep(LOOK_AT_DISK if not self.warnings else 10 * LOOK_AT_DISK)

    async def stop(self) -> None:
        """End what we keep running; the servers run on."""
        await self._stop_provisioning()
        await self.resources.close()
        await self.api.stop()
        await self.files.stop()
        self.time.stop()
        if self.fleet is not None:
            await self.fleet.stop()
            self.fleet = None
        self.bmc_site.close()
        await self.connection.close()
        if self.libvirtd is not None:
            await self.libvirtd.stop()

    async def _stop_provisioning(self) -> None:
        if self.controller is not None:
            self.controller.cancel()
            await asyncio.gather(self.controller, return_exceptions=True)
            self.controller = None
        if self.controlled is not None:
            await self.controlled.close()
            self.controlled = None
        if self.provisioner is not None:
            await self.provisioner.close()
            self.provisioner = None
        if self.ironic is not None:
            await self.ironic.stop()
            self.ironic = None

    # lab

    async def _lab(self) -> None:
        await self.links.ensure_loopback()
        await self._ensure_libvirtd()
        self.hypervisor.platform = _platform(kvm=self._kvm())
        await ensure_networks(self.plan, self.links, self.networks, self.paths.run, self.bus)
        await self.bmc_site.ensure()
        await self.time.start()
        async with asyncio.TaskGroup() as together:
            together.create_task(self._ensure_api())
            together.create_task(ensure_servers(self.plan, self.paths, self.hypervisor, self.processes, self.bus))

    async def _ensure_api(self) -> None:
        with self.bus.step("Kubernetes API") as step:
            self._authority()  # the API's CA is the lab's
            started = await self.api.start()
            if moved := await migrate_records(self.paths.records, self.resources, self.bus):
                step.detail = f"{moved} records of before taken over"
            elif not started:
                step.unchanged()

    async def _ensure_libvirtd(self) -> None:
        with self.bus.step("libvirtd") as step:
            if self.libvirtd is not None:
                step.unchanged()
                return
            libvirtd.write_configuration(Path("/etc/libvirt"))
            kept = self.libvirtd = await self.processes.start(["libvirtd"], log=self.paths.logs / "libvirtd.log")

            async def answers() -> tuple[bool, str]:
                kept.check()
                try:
                    await self.connection.call(lambda conn: conn.getLibVersion())
                except LabError as error:
                    return False, error.why
                return True, "answers"

            await until(answers, what="libvirtd to answer", within=60, every=0.05, clock=self.clock)

    # BMCs

    async def _bmcs(self) -> None:
        with self.bus.step(count(len(self.plan.servers), "BMC")) as step:
            if self.fleet is not None:
                step.unchanged()
                return
            authority = self._authority()
            addresses = [str(server.bmc_address) for server in self.plan.servers]
            leaf = authority.ensure_leaf("bmc", addresses)
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(leaf.certificate, leaf.key)
            fleet = Fleet(
                [Bmc(server.name, str(server.bmc_address)) for server in self.plan.servers],
                self.hypervisor,
                [Account(USERNAME, self._password("bmc"))],
                state=self.paths.bmc,
                media=self.paths.media,
                bus=self.bus,
                tls=tls,
                media_ca=ssl.create_default_context(cafile=authority.certificate),
                ipmi=Ipmi(consoles=TerminalConsoles(self.paths.console, partial(find_terminal, self.connection))),
                starts=Starts(default_limit(), self.clock, self.hypervisor.processor_seconds),
                audit=self.paths.logs / "bmc-audit.jsonl",
                sockets=self.bmc_site.make_socket,
            )
            await fleet.start()
            self.fleet = fleet
        await Rest(self.paths.resting, self.hypervisor, self.clock, self.bus).end(self.plan)

    async def rest(self, *, force: bool) -> list[str]:
        """Stop everything, the servers too, and remember which of them were on."""
        async with self._busy:
            await self._stop_provisioning()
            return await Rest(self.paths.resting, self.hypervisor, self.clock, self.bus).begin(force=force)

    async def retire(self, names: list[str]) -> None:
        """Take servers away for good: their hosts in good order first, when the lab provisions them."""
        for name in names:
            server = self.plan.server(name)
            if server is None:
                continue
            with self.bus.step(f"{name}: taken away"):
                async with self._busy:
                    if await self.resources.get(KIND, name) is not None:
                        await self._retire_host(name)
                    await retire_server(server, self.plan, self.paths, self.hypervisor)
                    (self.paths.bmc / f"{name}.json").unlink(missing_ok=True)

    async def _retire_host(self, name: str) -> None:
        if self.ironic is None:
            await self._engine()
        self._start_controller()
        await self.resources.delete(KIND, name)

        async def gone() -> tuple[bool, str]:
            record = await self.resources.get(KIND, name)
            return record is None, read(record).status.state.value if record is not None else "gone"

        await until(gone, what=f"the host {name} to be deleted", within=DEPROVISION_WITHIN, every=1, clock=self.clock)

    async def power(self, name: str, action: str) -> dict[str, Any]:
        """The power button of one server. A provisioned host is kept as said here: its record says so from now on."""
        if self.plan.server(name) is None:
            known = ", ".join(server.name for server in self.plan.servers)
            raise InputError(f"there is no server {name}", why=f"there is {known}", hint="name one of those")
        if action in ("on", "off", "shutdown"):
            record = await self.resources.get(KIND, name)
            if record is not None and read(record).status.state is State.PROVISIONED:
                record["spec"]["online"] = action == "on"
                await self.resources.apply(record)
        match action:
            case "on":
                await self.hypervisor.power_on(name)
            case "off":
                await self.hypervisor.power_off(name)
            case "shutdown":
                await self.hypervisor.shut_down(name)
            case "cycle":
                await self.hypervisor.power_off(name)
                await self.hypervisor.power_on(name)
        state = await self.hypervisor.observe(name)
        return {"server": name, "power": state.power.value if state is not None else None}

    def faults(self) -> list[dict[str, Any]]:
        """What goes wrong at the BMCs because somebody asked for it."""
        found = self.fleet.faults.list() if self.fleet else []
        return [{**fault.to_json(), "text": fault.describe()} for fault in found]

    def add_fault(self, wish: dict[str, Any]) -> dict[str, Any]:
        servers = [server.name for server in self.plan.servers]
        if self.fleet is None:
            raise LabError("the lab has no BMCs yet", hint="`rackless up --until bmc` makes them")
        if wish["server"] is not None and wish["server"] not in servers:
            raise InputError(f"there is no server {wish['server']}", hint=f"there is: {', '.join(servers)}")
        operation = Operation(wish["operation"]) if wish["operation"] else None
        fault = self.fleet.faults.add(Fault(**{**wish, "trouble": Trouble(wish["trouble"]), "operation": operation}))
        self.bus.info(f"fault {fault.id}: {fault.describe()}")
        return {**fault.to_json(), "text": fault.describe()}

    def clear_faults(self, ids: list[int]) -> int:
        return self.fleet.faults.clear(ids) if self.fleet else 0

    # the provisioning engine

    async def _engine(self) -> None:
        with self.bus.step("Ironic") as step:
            if self.ironic is not None:
                step.unchanged()
                return
            supplies = prepare.load_supplies(self.paths.supplies)
            await self.files.start()
            config = self._ironic_config(supplies)
            service = IronicService(config, supplies.ironic, self.processes, log=self.paths.logs / "ironic.log")
            await service.start()
            self.ironic = service
            self.provisioner = IronicProvisioner(config.url, config.username, config.password, config.ca)
        self._start_controller()  # hosts may be written down by anybody from now on

    def _ironic_config(self, supplies: prepare.Supplies) -> IronicConfig:
        authority = self._authority()
        address = self.plan.gateway.ip
        leaf = authority.ensure_leaf("ironic", [str(address)])
        return IronicConfig(
            state=self.paths.ironic,
            address=address,
            certificate=leaf.certificate,
            key=leaf.key,
            ca=authority.certificate,
            username=USERNAME,
            password=self._password("ironic"),
            http_url=self.files.url,
            http_root=self.paths.files,
            kernel=supplies.kernel,
            ramdisk=supplies.initramfs,
            esp=supplies.esp,
        )

    # hosts

    async def _hosts(self) -> None:
        supplies = prepare.load_supplies(self.paths.supplies)
        image = self._publish(supplies)
        await self.cluster.ensure_hosts(USERNAME, self._password("bmc"), image)
        self._start_controller()
        await self.cluster.await_hosts()

    async def deprovision(self, name: str) -> None:
        """Take the system off a host; it is cleaned and stays available."""
        async with self._busy:
            record = await self.resources.get(KIND, name)
            if record is None:
                raise LabError(f"there is no host {name}", hint="`rackless host list` shows the hosts there are")
            record["spec"].pop("image", None)
            record["spec"].pop("userData", None)
            await self.resources.apply(record)
            self._start_controller()
            await until_state(self.resources, [name], State.AVAILABLE, within=DEPROVISION_WITHIN)

    async def hosts(self) -> list[dict[str, Any]]:
        """The hosts as they stand in the records; BareMetalHosts, word for word."""
        return await self.resources.list(KIND) if self.api.started else []

    def _publish(self, supplies: prepare.Supplies) -> Image:
        """Offer the node image on the lab's file server."""
        name = f"node-{supplies.node_sha256[:16]}.qcow2"
        link = self.paths.files / name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(supplies.node)
        return Image(f"{self.files.url}/{name}", supplies.node_sha256)

    def _start_controller(self) -> None:
        if self.provisioner is None:
            raise LabError("hosts cannot be provisioned before the engine runs")
        if self.controller is None or self.controller.done():
            ca = self._authority().certificate
            self.controlled = self.controlled or self.api.open(patience=math.inf)
            controller = HostController(
                self.controlled, self.provisioner, self.clock, self.bus, bmc_ca=ca, evidence=self._evidence
            )
            self.controller = asyncio.create_task(self._look_after_hosts(controller), name="hosts")

    async def _look_after_hosts(self, controller: HostController) -> None:
        try:
            await controller.run()
        except* RacklessError as group:
            self.bus.warn(f"hosts are no longer looked after: {'; '.join(map(str, group.exceptions))}")

    def _evidence(self, name: str) -> str:
        server = self.plan.server(name)
        if server is None:
            return ""
        bmc = next((bmc for bmc in self.fleet.observe() if bmc.server == name), None) if self.fleet else None
        return BootChain(
            power=(bmc.power if bmc else None) or "unknown",
            media=bmc.media if bmc else None,
            leased=read_lease(Path(f"/var/lib/libvirt/dnsmasq/{self.plan.cluster.bridge}.status"), server.mac),
            fetched=self.files.fetched(str(server.address)),
            console=read_console(self.paths.console(name)),
        ).describe()

    # what is there now

    async def observe(self) -> dict[str, Any]:
        """What the planner needs to know of the lab as it is."""
        try:
            servers = {state.name: state.power.value for state in await self.hypervisor.servers()}
            networks = await self.networks.active()
        except Unreachable:  # not made yet, or restarting
            servers, networks = {}, set()
        links = await self.links.names()
        bmc = self.bmc_site.there or "bmc" in links
        return {
            "servers": servers,
            "networks": sorted(networks | links | ({"bmc"} if bmc else set())),
            "stages": list(STAGES[: self._reached() + 1]),
        }

    async def status(self) -> dict[str, Any]:
        bmcs = {bmc.server: bmc for bmc in self.fleet.observe()} if self.fleet else {}
        hosts = {record["metadata"]["name"]: read(record).status for record in await self._known_hosts()}
        nodes, quorum = await asyncio.gather(observe_nodes(self.cluster.wanted), self.cluster.observe_quorum())
        return {
            "lab": self.plan.name,
            "domain": self.plan.domain,
            "daemon": "running",
            "reached": STAGES[self._reached()] if self._reached() >= 0 else None,
            "servers": [
                {
                    "name": server.name,
                    "role": server.role.value,
                    "address": str(server.address),
                    "bmc": f"https://{server.bmc_address}",
                    "power": _power(bmcs.get(server.name)),
                    "host": hosts[server.name].state.value if server.name in hosts else None,
                    "error": hosts[server.name].error_message if server.name in hosts else "",
                    "node": "up" if nodes.get(server.name) else None,
                }
                for server in self.plan.servers
            ],
            "api": {"inside": self.api.url, "host": host_url(self.paths)} if self.api.started else None,
            "faults": self.faults(),
            "parts": [keeper.describe() for keeper in self.processes.kept],
            "warnings": list(self.warnings),
            "etcd": None
            if quorum is None
            else {
                "healthy": quorum.healthy,
                "members": len(quorum.members),
                "leader": quorum.leader,
                "complete": quorum.complete,
                "detail": quorum.describe(),
            },
        }

    async def _known_hosts(self) -> list[Record]:
        """None while the API is away: the rest can still be told."""
        try:
            return await self.hosts()
        except ApiUnreachable as error:
            self.bus.warn(str(error))
            return []

    def _kvm(self) -> bool:
        """What the probe found; a lab made without it is emulated."""
        return self.paths.supplies.exists() and prepare.load_supplies(self.paths.supplies).kvm

    def _reached(self) -> int:
        with suppress(FileNotFoundError, ValueError):
            return STAGES.index(self.paths.goal.read_text())
        return -1

    def _authority(self) -> Authority:
        return Authority.ensure(self.paths.pki, f"rackless lab {self.plan.name}")

    def _password(self, what: str) -> str:
        return ensure_password(self.paths.secrets / f"{what}.password")


def _with_upstream(plan: LabPlan, paths: LabPaths) -> LabPlan:
    """With an uplink, and no name servers given, the host's are asked for what the lab does not know."""
    if not paths.upstream.exists():
        return plan
    found = tuple(IPv4Address(line) for line in paths.upstream.read_text().split())
    return replace(plan, cluster=replace(plan.cluster, forwarders=found))


def _power(bmc: BmcState | None) -> str | None:
    if bmc is None or bmc.power is None:
        return None
    return "starting" if bmc.starting else bmc.power.value


def _platform(*, kvm: bool) -> Platform:
    emulator = shutil.which("qemu-system-x86_64")
    firmware, secure = (
        next(((Path(code), Path(vars)) for code, vars in places if Path(code).exists() and Path(vars).exists()), None)
        for places in (OVMF, OVMF_SECURE)
    )
    if emulator is None or firmware is None:
        raise MachineError(
            "QEMU or its UEFI firmware is not installed",
            why=f"qemu-system-x86_64: {emulator or 'not found'}; OVMF: {firmware or 'not found'}",
            hint="run `rackless prepare`, which installs what is missing",
        )
    return Platform(kvm, Path(emulator), *firmware, *(secure or ()))
