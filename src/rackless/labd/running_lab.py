"""The running parts of one lab and the stages that make them: `labd/stages.py` has the list.

Every stage is idempotent: it makes what is missing and leaves what is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import replace
from ipaddress import ip_address

from rackless.bmc.core.media import FetchFailed
from rackless.cluster.openshift.progress import describe_install
from rackless.cluster.reference.keys import Keys
from rackless.cluster.reference.recipe import Cluster
from rackless.controllers.metrics import page
from rackless.controllers.pivot.journal import elsewhere
from rackless.diagnosis.blackouts import Blackouts
from rackless.errors import InputError, LabError
from rackless.events import Bus
from rackless.lab.accounts import describe_rooted
from rackless.lab.api_forward import host_url
from rackless.lab.bmc_network import BmcWiring
from rackless.lab.disk_watch import DiskWatch
from rackless.lab.files import FileServer
from rackless.lab.log_watch import LogWatch
from rackless.lab.network_watch import NetworkWatch
from rackless.lab.ntp import TimeServer
from rackless.lab.pause import ServersPause
from rackless.lab.power_memory import PowerMemory
from rackless.lab.servers import disk_folder, ensure_servers, mounts, retire_server
from rackless.lab.user_images import UserImages
from rackless.labd.api import LabApi
from rackless.labd.bmcs import LabBmcs
from rackless.labd.boot_evidence import describe_boot
from rackless.labd.hosts import LabHosts
from rackless.labd.libvirtd import LabLibvirtd
from rackless.labd.machines import LabMachines
from rackless.labd.migration import migrate_records
from rackless.labd.power import LabPower
from rackless.labd.remedies import LabRemedies
from rackless.labd.repairs import LabRepairs
from rackless.labd.report import describe_metal, describe_quorum, describe_servers, describe_vip
from rackless.labd.showing import LabShowing
from rackless.labd.stand_in import StandIn
from rackless.plan.actions import Action, Observed
from rackless.plan.addressing import plan_lab
from rackless.plan.model import LabPlan
from rackless.plan.stages import GOALS, own_stages, stages_of, upto
from rackless.ports.console import Heard, Write
from rackless.ports.drivers import Drivers
from rackless.protocol.messages import (
    ANY_FORMAT,
    ApiPlaces,
    BmcSeen,
    LabSeen,
    LabStatus,
    OfferedFile,
    StageStatus,
)
from rackless.run.files import write
from rackless.run.journal import Journal
from rackless.run.ledger import Ledger, LedgerEntry
from rackless.run.paths import LabPaths
from rackless.run.runner import Runner
from rackless.run.stage import Stage
from rackless.run.supervise import KeptProcesses
from rackless.run.supplies import load_supplies
from rackless.run.watching import go_on
from rackless.spec.images import ImageFormat, is_path
from rackless.spec.lab import LabSpec
from rackless.trust.bmc_passwords import secret_of
from rackless.trust.identity import USERNAME, Identity

API_BACK_WITHIN = 20.0
"""Seconds for which a person's request waits for an API that is being restarted."""

ON_DEMAND = "server"
"""What servers that were made on demand are called in their ledger."""


class RunningLab:
    def __init__(
        self,
        paths: LabPaths,
        spec: LabSpec,
        bus: Bus,
        drivers: Drivers,
        stages: Callable[[RunningLab], Sequence[Stage]],
    ) -> None:
        self.paths = paths
        self.grown = Ledger(paths.grown)
        self.plan = _with_upstream(plan_lab(spec), paths).grown(self._grown())
        self._own_stages = own_stages(spec)
        self.bus = bus
        self.drivers = drivers
        self.clock = drivers.clock
        self.identity = Identity(paths)
        self.processes = KeptProcesses(drivers.processes, paths.run, bus)
        self.links = drivers.open_links()
        self.bmc_site = BmcWiring(self.plan, self.links, drivers.namespaces, drivers.firewall, bus)
        self.metal = drivers.open_metal(paths.console, kvm=self._kvm(), shown=mounts(self.plan, paths))
        self.networks, self.hypervisor = self.metal.networks, self.metal.hypervisor
        self.consoles = self.metal.consoles
        self.libvirtd = LabLibvirtd(paths, self.processes, self.metal, drivers.computer, self.clock, bus, self._kvm)
        self.power_memory = PowerMemory(
            paths.powered, paths.awake, self.hypervisor, self.clock, drivers.computer.boot_id
        )
        served = [network.name for network in (self.plan.cluster, self.plan.provisioning_dhcp) if network is not None]
        self.network_watch = NetworkWatch(self.networks, served, self.clock, bus)
        self._watching: list[asyncio.Task[None]] = []
        self.time = TimeServer(str(self.plan.gateway.ip), sockets=drivers.namespaces.socket)
        self.api = LabApi(paths, str(self.plan.gateway.ip), bus, drivers)
        self.resources = self.api.open(API_BACK_WITHIN)
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
            drivers,
            bus,
            evidence=lambda name: describe_boot(name, self.plan, paths, self.bmcs, self.hosts),
            lost=Blackouts(self.bmcs.observe, self.clock, self._room).lost,
        )
        self.hosts.files.ask_bmcs(self.bmcs.fetches, self.plan.metal_bmcs)
        self.power = LabPower(self.hypervisor, self.bmcs, self.hosts)
        self.showing = LabShowing(paths, drivers.processes)
        self.release = FileServer(paths.release, str(self.plan.gateway.ip))
        self.release.ask_bmcs(self.bmcs.fetches, self.plan.metal_bmcs)
        self.stand_in = StandIn(paths, drivers, bus)
        self.cluster = Cluster(
            self.plan, Keys(paths.cluster_keys), self.resources, self.clock, bus, drivers.open_nodes()
        )
        self.machines = LabMachines(self.plan, self.api, self.resources, self.cluster, self, drivers, bus)
        self.disk_watch = DiskWatch(self._room, self.hypervisor.go_on_writing, self.clock, bus)
        self.log_watch = LogWatch(paths.logs, self.clock)
        base = Observed(spec, daemon=True, grown=self._grown())
        self.journal = Journal(paths.journal, paths.goal)
        self.runner = Runner(spec, stages(self), self.journal, bus, base)
        self._busy = asyncio.Lock()
        repairs = LabRepairs(
            self.status,
            self._room,
            self.hosts,
            self.machines,
            self.hypervisor,
            self.processes,
            self.api,
            self.network_watch,
        )
        self.remedies = LabRemedies(repairs, spec.remediation, paths.remedies, self.clock, bus)

    async def reach(self, goal: str) -> None:
        """Carry out the stages of one goal; those of the goals before it have been carried out."""
        async with self._busy:
            await self._begin()
            await self.runner.run(stages_of([goal]))
            self._settle()

    async def restore(self) -> None:
        """After a restart of labd: start again what was running, without waiting for hosts and nodes."""
        async with self._busy:
            if self.journal.read().reached:
                await self._begin()
                await self.runner.restore()
                self._settle()
            if self.paths.release.exists():
                await self.release.start()
            await self.stand_in.start()

    async def _begin(self) -> None:
        """After a reboot of the computer: servers that were on before are to be switched on again."""
        memory = self.power_memory
        self.metal.accelerate(kvm=self._kvm())
        if memory.restarted() and not self.paths.resting.exists() and (names := memory.recall()):
            write(self.paths.resting, names)

    def _settle(self) -> None:
        """Once the servers are defined: record which of them are on, watch DHCP and DNS, and approve nodes' certificates."""
        if "servers" not in self.journal.read().reached:
            return
        if self.paths.resting.exists() and not self.paths.resting.read_text().split():
            self.paths.resting.unlink()
        self.power_memory.wake()
        if not self._watching:
            watches = {
                "remembering which servers are on": self.power_memory.watch,
                "looking after DHCP and DNS": self.network_watch.watch,
                "looking for what can be mended": self.remedies.watch,
            }
            self._watching = [
                asyncio.create_task(go_on(watch, what, self.bus, self.clock), name=what)
                for what, watch in watches.items()
            ]

    def _room(self) -> int:
        return self.drivers.computer.free_bytes(disk_folder(self.plan, self.paths))

    def metrics(self) -> str:
        """What the controllers here count, in Prometheus' text format."""
        return page(*(runtime for runtime in (self.hosts.runtime, self.machines.runtime) if runtime is not None))

    async def stop(self) -> None:
        """Stop the lab's processes; the servers (QEMU) keep running."""
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        self._watching.clear()
        await self.release.stop()
        await self.stand_in.stop()
        await self.runner.retire()
        await self.resources.close()
        await self.hosts.installed.close()
        await self.metal.close()
        await self.libvirtd.stop()

    async def serve_release(self) -> None:
        """Serve the install's node image and payload until the lab is destroyed: workers that are added later need them, too. After
        a quick rehearsal, run what stands in for the cluster; before the next one, stop it."""
        async with self._busy:
            if self.paths.release.exists():
                await self.release.start()
            if self.paths.stand_in.exists():
                await self.stand_in.start()
            else:
                await self.stand_in.stop()

    # lab

    def _rooted(self) -> list[str]:
        names = (server.name for server in self.plan.servers)
        return describe_rooted(names, self.paths.inner_run / "libvirt/qemu")

    async def switch_on(self, names: Collection[str]) -> None:
        for name in names:
            if self.plan.server(name) is not None:
                await self.hypervisor.power_on(name)

    async def ensure_api(self) -> None:
        with self.bus.step("Kubernetes API") as step:
            started = await self.api.start()
            if moved := await migrate_records(self.paths.records, self.resources, self.bus):
                step.detail = f"{moved} records of before taken over"
            elif not started:
                step.unchanged()

    # servers

    async def return_power(self) -> None:
        """Switch on the servers that were on before `down` or before a reboot of the computer; where there are BMCs, they do it,
        by their power policies and a few at a time."""
        await self._pause().end(self.bmcs.power_returned if self.bmcs.running else self.switch_on)

    def _pause(self) -> ServersPause:
        return ServersPause(self.paths.resting, self.hypervisor, self.clock, self.bus)

    async def pause(self, *, force: bool) -> list[str]:
        """For `down`: stop provisioning, write down which servers are on, and switch them off."""
        async with self._busy:
            await self.machines.stop()
            await self.hosts.stop_provisioning()
            return await self._pause().begin(force=force)

    async def remove(self, actions: Sequence[Action]) -> None:
        """Carry out the actions that delete servers or make them anew. Ironic deprovisions a host through its BMC, if the lab has
        come that far."""
        async with self._busy:
            await self._begin()
            reached = upto(self.journal.read().goal or GOALS[0])
            await self.runner.run(stages_of([goal for goal in upto("engine") if goal in reached]))
            self._settle()
            await self.runner.remove(actions)

    async def take_away(self, name: str) -> None:
        """Delete a server with its disks; its host is deprovisioned and deleted first."""
        server = self.plan.server(name)
        if server is None:
            return
        with self.bus.step("taken away", subject=f"server/{name}"):
            await self.hosts.retire(name)
            await self.cluster.forget(name)
            await retire_server(server, self.plan, self.paths, self.hypervisor)
            (self.paths.bmc / f"{name}.json").unlink(missing_ok=True)
            if name in self._grown():
                self.grown.strike(LedgerEntry(ON_DEMAND, name))

    # on demand

    def elastic(self) -> tuple[Sequence[str], Collection[str]]:
        """The servers that may be made on demand, and those of them that have been."""
        return [server.name for server in self.plan.elastic], self._grown()

    async def grow(self, name: str) -> None:
        """Make one more server on demand, with its BMC and its host; after an interruption the next call goes on with it."""
        async with self._busy:
            self.grown.own(ON_DEMAND, name)
            self._replan()
            with self.bus.step("made on demand", subject=f"server/{name}"):
                await ensure_servers(
                    self.plan, self.paths, self.hypervisor, self.processes, self.bus, self.libvirtd.accounts(), {name}
                )
                await self.bmcs.ensure()
                await self.cluster.admit(name)
                await self.write_hosts(name)

    async def shrink(self, name: str) -> None:
        """Delete one server that was made on demand and that no Machine has claimed."""
        async with self._busy:
            await self.take_away(name)
            self._replan()
            await self.bmcs.ensure()

    def _grown(self) -> frozenset[str]:
        return frozenset(entry.id for entry in self.grown.entries())

    def _replan(self) -> None:
        """Tell the lab's parts which servers were made or deleted on demand."""
        self.plan = self.plan.grown(self._grown())
        self.runner.base = replace(self.runner.base, grown=self._grown())
        self.cluster = replace(self.cluster, plan=self.plan)
        self.bmcs.replan(self.plan)
        self.hosts.replan(self.plan)
        self.machines.replan(self.plan, self.cluster)

    def console(self, name: str, lines: int) -> tuple[Heard, Write]:
        """Open a server's serial console, with its last lines."""
        self.require(name)
        return self.consoles.attach(name, lines)

    async def insert_media(self, name: str, image: str) -> BmcSeen:
        """Put an image into a BMC's virtual drive: from a URL, or a file that was offered, which the BMC fetches from the lab's
        file server."""
        if is_path(image):
            await self.hosts.files.start()
            image = self.hosts.offered(image)
        try:
            return await self.bmcs.insert(name, image)
        except FetchFailed as error:
            raise InputError(
                error.what,
                why=error.why,
                hint="the BMC fetches it by itself: name what its network reaches, or a file of yours",
            ) from error

    async def take_file(self, chunks: AsyncIterator[bytes], said: str) -> OfferedFile:
        """Offer a file on the lab's file server; its bytes come over the control socket."""
        try:
            form = None if said == ANY_FORMAT else ImageFormat(said)
        except ValueError as error:
            raise InputError(f"there is no format {said}", why=", ".join(one.value for one in ImageFormat)) from error
        path, found = await UserImages(self.paths).take(chunks, form)
        return OfferedFile(path, found.value)

    def require(self, name: str) -> None:
        if self.plan.server(name) is None:
            known = ", ".join(server.name for server in self.plan.servers)
            raise InputError(f"there is no server {name}", why=f"there is {known}", hint="name one of those")

    # hosts

    async def write_hosts(self, only: str | None = None) -> None:
        """Write the BareMetalHosts of all servers, with the image that each should get. Raises LabError."""
        if there := await elsewhere(self.resources):
            raise LabError(
                "this lab's hosts are not looked after here",
                why=f"they were moved to {there}",
                hint="`rackless pivot --from KUBECONFIG`, with one for that API, brings them back",
            )
        password = self.identity.password("bmc")
        image, systems = self.hosts.node_image(), self.hosts.own_systems()
        passwords = {name: self.identity.password(secret_of(name)) for name in self.plan.metal}
        await self.cluster.ensure_hosts(USERNAME, password, image, systems, only=only, passwords=passwords)

    # what is there now

    async def observe(self, *, costly: bool = False, begins: Collection[str] | None = None) -> LabSeen:
        """The observed state of the lab, for the planner; with `costly` also stages that ask nodes over the network. `begins` are
        the goals of an `up` that begins: labd starts to observe those stages already.
        """
        found = await (self.runner.observe(costly=costly) if begins is None else self.runner.begin(stages_of(begins)))
        return LabSeen(
            servers=dict(found.servers),
            networks=tuple(sorted(found.networks)),
            stages=tuple(sorted(found.stages)),
            differing=dict(found.differing),
            resting=tuple(sorted(found.resting)),
            grown=tuple(sorted(found.grown)),
        )

    async def status(self) -> LabStatus:
        told = self.journal.read()
        nodes, quorum, vip, hosts, power, machines = await asyncio.gather(
            self.cluster.observe_nodes(),
            self.cluster.observe_quorum(),
            self.cluster.observe_api(),
            self.hosts.known(),
            self.power.observe(),
            self.machines.phases(),
        )
        return LabStatus(
            lab=self.plan.name,
            domain=self.plan.domain,
            daemon="running",
            reached=told.goal,
            stages=tuple(
                StageStatus(stage.name, stage.name in told.reached)
                for stage in self.runner.stages
                if stage.name in self._own_stages or stage.name in told.reached
            ),
            cut_off=() if self.runner.busy else tuple(f"{a.verb} {a.subject}" for a in told.cut_off),
            servers=describe_servers(self.plan, power, hosts, nodes, self.bmcs.seen(), machines),
            api=ApiPlaces(self.api.url, host_url(self.paths.api_port)) if self.api.started else None,
            faults=self.bmcs.faults(),
            parts=(
                *(keeper.describe() for keeper in self.processes.kept),
                *self.api.describe(),
                *self.stand_in.describe(),
                *self.network_watch.describe(),
            ),
            warnings=(*self.disk_watch.warnings, *self._rooted()),
            etcd=describe_quorum(quorum),
            vip=describe_vip(vip),
            metal=describe_metal(self.plan, hosts, nodes, machines),
            install=describe_install(self.paths, self.drivers.processes),
        )

    def _kvm(self) -> bool:
        """Whether the probe found a working KVM; a lab without a probe is emulated (TCG)."""
        return self.paths.supplies.exists() and load_supplies(self.paths.supplies).kvm


def _with_upstream(plan: LabPlan, paths: LabPaths) -> LabPlan:
    """The plan with the hypervisor's name servers as DNS forwarders, where the lab has an uplink and lab.yaml names none."""
    if not paths.upstream.exists():
        return plan
    found = tuple(ip_address(line) for line in paths.upstream.read_text().split())
    return replace(plan, cluster=replace(plan.cluster, forwarders=found))
