"""The running parts of one lab and the stages that make them. The composition root: here the drivers are opened.

Every stage may be run again: it makes what is missing and leaves what is there.
"""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from rackless.cluster.reference.keys import Keys
from rackless.cluster.reference.recipe import Cluster, observe_nodes
from rackless.daemon import prepare
from rackless.daemon.blackouts import Blackouts
from rackless.daemon.bmc_site import BmcSite
from rackless.daemon.disk_watch import DiskWatch
from rackless.daemon.doorstep import host_url
from rackless.daemon.evidence import BootChain, read_agent, read_console, read_kernel, read_lease
from rackless.daemon.identity import USERNAME, Identity
from rackless.daemon.keeper import Keeper, KeptProcesses
from rackless.daemon.lab_api import LabApi
from rackless.daemon.lab_bmcs import LabBmcs
from rackless.daemon.lab_hosts import LabHosts
from rackless.daemon.migration import migrate_records
from rackless.daemon.network_watch import NetworkWatch
from rackless.daemon.power_memory import PowerMemory
from rackless.daemon.report import describe_power, describe_quorum, describe_servers, describe_vip
from rackless.daemon.rest import Rest
from rackless.daemon.stages import STAGES
from rackless.drivers.clock import SystemClock
from rackless.drivers.libvirt import firmware_xml
from rackless.drivers.libvirt.connection import Connection
from rackless.drivers.libvirt.domain_xml import Platform
from rackless.drivers.libvirt.hypervisor import LibvirtHypervisor
from rackless.drivers.libvirt.networks import LibvirtNetworks
from rackless.drivers.libvirt.terminal import find_terminal
from rackless.drivers.netlink.links import NetlinkLinks
from rackless.drivers.terminals import TerminalConsoles
from rackless.errors import InputError, LabError, MachineError
from rackless.events import Bus
from rackless.lab import libvirtd
from rackless.lab.machine import free_bytes
from rackless.lab.networks import ensure_networks
from rackless.lab.ntp import TimeServer
from rackless.lab.servers import disk_folder, ensure_servers, retire_server
from rackless.plan.addressing import plan_lab
from rackless.plan.model import LabPlan
from rackless.ports.console import Heard, Write
from rackless.ports.hypervisor import Unreachable
from rackless.run.files import write
from rackless.run.paths import LabPaths
from rackless.run.waiting import until
from rackless.spec.lab import LabSpec

JUST_NOW = 5.0
"""Seconds: what a daemon that came up has gone through by itself is not gone through again for who waited for it."""
API_BACK_WITHIN = 20.0
"""Seconds for which a request of a person waits for an API that is being started again."""


class Engine:
    def __init__(self, paths: LabPaths, spec: LabSpec, bus: Bus) -> None:
        self.paths = paths
        self.plan = _with_upstream(plan_lab(spec), paths)
        self.bus = bus
        self.clock = SystemClock()
        self.identity = Identity(paths)
        self.processes = KeptProcesses(paths.run, bus)
        self.links = NetlinkLinks()
        self.bmc_site = BmcSite(self.plan, self.links, self.processes, bus)
        self.connection = Connection()
        self.networks = LibvirtNetworks(self.connection)
        self.hypervisor = LibvirtHypervisor(self.connection, _platform(kvm=self._kvm()))
        self.libvirtd: Keeper | None = None
        self.power_memory = PowerMemory(paths.powered, paths.awake, self.hypervisor, self.clock)
        served = [network.name for network in (self.plan.cluster, self.plan.provisioning_dhcp) if network is not None]
        self.network_watch = NetworkWatch(self.networks, served, self.clock, bus)
        self._watching: list[asyncio.Task[None]] = []
        self.time = TimeServer(str(self.plan.gateway.ip))
        self.api = LabApi(paths, str(self.plan.gateway.ip), bus, self.clock)
        self.resources = self.api.open(API_BACK_WITHIN)
        self.consoles = TerminalConsoles(paths.console, partial(find_terminal, self.connection))
        self.bmcs = LabBmcs(
            self.plan, paths, self.identity, self.bmc_site, self.hypervisor, self.consoles, self.clock, bus
        )
        self.hosts = LabHosts(
            self.plan,
            paths,
            self.identity,
            self.api,
            self.resources,
            self.processes,
            self.clock,
            bus,
            evidence=self._evidence,
            lost=Blackouts(self.bmcs.observe, self.clock, self._room).lost,
        )
        self.cluster = Cluster(self.plan, Keys(paths.cluster_keys), self.resources, self.clock, bus)
        self.disk_watch = DiskWatch(self._room, self.hypervisor.go_on_writing, self.clock, bus)
        self._busy = asyncio.Lock()
        self._restored: dict[str, float] = {}
        self._stages: dict[str, Callable[[], Awaitable[None]]] = {
            "lab": self._lab,
            "bmc": self._bmcs,
            "engine": self.hosts.ensure_engine,
            "hosts": self._hosts,
            "cluster": self.cluster.await_nodes,
        }

    async def run_stage(self, name: str) -> None:
        """Run one stage; those before it have been run."""
        async with self._busy:
            if self.clock.now() - self._restored.get(name, -math.inf) > JUST_NOW:
                await self._stages[name]()
            if STAGES.index(name) > self._reached():
                write(self.paths.goal, name)

    async def restore(self) -> None:
        """After a restart: start again what was running; whatever was to be waited for is not."""
        async with self._busy:
            for name in STAGES[: self._reached() + 1]:
                match name:
                    case "engine":
                        await self.hosts.ensure_engine(checked=False)
                    case "hosts":
                        self.hosts.ensure_controller()
                    case "cluster":
                        pass
                    case _:
                        await self._stages[name]()
                        self._restored[name] = self.clock.now()

    def _room(self) -> int:
        return free_bytes(disk_folder(self.plan, self.paths))

    async def stop(self) -> None:
        """End what we keep running; the servers run on."""
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        self._watching.clear()
        await self.hosts.stop_engine()
        await self.resources.close()
        await self.api.stop()
        await self.hosts.files.stop()
        self.time.stop()
        await self.bmcs.stop()
        self.bmc_site.close()
        await self.connection.close()
        if self.libvirtd is not None:
            await self.libvirtd.stop()

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
        await self._wake_servers()

    async def _wake_servers(self) -> None:
        """Switch on what was on before `down`, or before the machine went down; and remember it from then on.

        Where there are BMCs they do it, by their policies and in turn.
        """
        memory = self.power_memory
        if memory.restarted() and not self.paths.resting.exists() and (names := memory.recall()):
            write(self.paths.resting, names)
        if self._reached() < STAGES.index("bmc"):
            await self._rest().end(self._switch_on)
        memory.wake()
        if not self._watching:
            self._watching = [
                asyncio.create_task(memory.watch(), name="power memory"),
                asyncio.create_task(self.network_watch.watch(), name="networks"),
            ]

    async def _switch_on(self, names: Collection[str]) -> None:
        for name in names:
            if self.plan.server(name) is not None:
                await self.hypervisor.power_on(name)

    async def _ensure_api(self) -> None:
        with self.bus.step("Kubernetes API") as step:
            self.identity.authority()  # the API's CA is the lab's
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

    # servers

    async def _bmcs(self) -> None:
        await self.bmcs.ensure()
        await self._rest().end(self.bmcs.power_returned)

    def _rest(self) -> Rest:
        return Rest(self.paths.resting, self.hypervisor, self.clock, self.bus)

    async def rest(self, *, force: bool) -> list[str]:
        """Stop everything, the servers too, and remember which of them were on."""
        async with self._busy:
            await self.hosts.stop_engine()
            return await self._rest().begin(force=force)

    async def retire(self, names: list[str]) -> None:
        """Take servers away for good: their hosts in good order first, when the lab provisions them."""
        for name in names:
            server = self.plan.server(name)
            if server is None:
                continue
            with self.bus.step(f"{name}: taken away"):
                async with self._busy:
                    await self.hosts.retire(name)
                    await self.cluster.forget(name)
                    await retire_server(server, self.plan, self.paths, self.hypervisor)
                    (self.paths.bmc / f"{name}.json").unlink(missing_ok=True)

    async def power(self, name: str, action: str) -> dict[str, Any]:
        """The power button of one server. A provisioned host is kept as said here: its record says so from now on."""
        self._require(name)
        if action in ("on", "off", "shutdown"):
            await self.hosts.keep_power(name, online=action == "on")
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

    def console(self, name: str, lines: int) -> tuple[Heard, Write]:
        """Sit down at a server's console, with its last lines in view."""
        self._require(name)
        return self.consoles.attach(name, lines)

    def _require(self, name: str) -> None:
        if self.plan.server(name) is None:
            known = ", ".join(server.name for server in self.plan.servers)
            raise InputError(f"there is no server {name}", why=f"there is {known}", hint="name one of those")

    # hosts

    async def _hosts(self) -> None:
        await self.cluster.ensure_hosts(
            USERNAME, self.identity.password("bmc"), self.hosts.node_image(), self.hosts.own_systems()
        )
        self.hosts.ensure_controller()
        await self.cluster.await_hosts()

    def _evidence(self, name: str) -> str:
        server = self.plan.server(name)
        if server is None:
            return ""
        bmc = self.bmcs.observe().get(name)
        addresses = [str(nic.address) for nic in server.nics if nic.address is not None]
        return BootChain(
            power=(bmc.power if bmc else None) or "unknown",
            media=bmc.media if bmc else None,
            leased=read_lease(Path(f"/var/lib/libvirt/dnsmasq/{self.plan.cluster.bridge}.status"), server.mac),
            fetched=self.hosts.files.fetched(*addresses),
            console=read_console(self.paths.console(name)),
            boot=self.hosts.answered(server),
            kernel=read_kernel(self.paths.console(name)),
            agent=read_agent(self.paths.logs / "ironic.log", addresses),
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
        nodes, quorum, vip, hosts, power = await asyncio.gather(
            observe_nodes(self.cluster.wanted),
            self.cluster.observe_quorum(),
            self.cluster.observe_api(),
            self.hosts.known(),
            self._power(),
        )
        return {
            "lab": self.plan.name,
            "domain": self.plan.domain,
            "daemon": "running",
            "reached": STAGES[self._reached()] if self._reached() >= 0 else None,
            "servers": describe_servers(self.plan, power, hosts, nodes),
            "api": {"inside": self.api.url, "host": host_url(self.paths.api_port)} if self.api.started else None,
            "faults": self.bmcs.faults(),
            "parts": [
                *(keeper.describe() for keeper in self.processes.kept),
                *self.api.describe(),
                *self.network_watch.describe(),
            ],
            "warnings": list(self.disk_watch.warnings),
            "etcd": describe_quorum(quorum),
            "vip": describe_vip(vip),
        }

    async def _power(self) -> dict[str, str | None]:
        """As the BMCs see it, who know of starts that wait for their turn; before there are any, as the hypervisor does."""
        if bmcs := self.bmcs.observe():
            return {name: describe_power(bmc) for name, bmc in bmcs.items()}
        try:
            return {state.name: state.power.value for state in await self.hypervisor.servers()}
        except Unreachable:
            return {}

    def _kvm(self) -> bool:
        """What the probe found; a lab made without it is emulated."""
        return self.paths.supplies.exists() and prepare.load_supplies(self.paths.supplies).kvm

    def _reached(self) -> int:
        with suppress(FileNotFoundError, ValueError):
            return STAGES.index(self.paths.goal.read_text())
        return -1


def _with_upstream(plan: LabPlan, paths: LabPaths) -> LabPlan:
    """With an uplink, and no name servers given, the host's are asked for what the lab does not know."""
    if not paths.upstream.exists():
        return plan
    found = tuple(ip_address(line) for line in paths.upstream.read_text().split())
    return replace(plan, cluster=replace(plan.cluster, forwarders=found))


def _platform(*, kvm: bool) -> Platform:
    emulator = shutil.which("qemu-system-x86_64")
    firmware, secure = (firmware_xml.find(places) for places in (firmware_xml.OVMF, firmware_xml.OVMF_SECURE))
    if emulator is None or firmware is None:
        raise MachineError(
            "QEMU or its UEFI firmware is not installed",
            why=f"qemu-system-x86_64: {emulator or 'not found'}; OVMF: {firmware or 'not found'}",
            hint="run `rackless prepare`, which installs what is missing",
        )
    return Platform(kvm, Path(emulator), *firmware, *(secure or ()))
