"""`rackless up` of a lab with `cluster.method: openshift`: runs the user's installer in it, once the lab has its BMCs.

The cluster stands there afterwards: on the servers after a full or a real install, at the API VIP alone after a quick rehearsal,
where labd runs what stands in for it. How far the installer came is in a file, which `status` and the next `up` read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from ipaddress import IPv4Address
from pathlib import Path

from rackless.cluster.openshift import installer as calls
from rackless.cluster.openshift.progress import describe_install, note_install
from rackless.cluster.openshift.report import NOT_PROVEN_BY_REAL, REAL_SUBJECTS, Report
from rackless.diagnosis.installer_run import LOG
from rackless.drivers import open_drivers
from rackless.errors import CommandFailed, RacklessError
from rackless.events import Bus
from rackless.images.bootstrap_iso import IGNITION_AREA_BYTES
from rackless.installer.install_config.checking import read_config
from rackless.installer.twin.site import gateway_aliases
from rackless.lab.acceleration import remembered_kvm
from rackless.operations.install.cluster import ready_plan
from rackless.operations.lab_registry import locked, require_lab, require_root
from rackless.operations.openshift.config import lab_config
from rackless.operations.openshift.real import RealHelp, doubts, read_pull_secret
from rackless.operations.openshift.real import environment as real_environment
from rackless.operations.own_events import OwnEvents, own_events
from rackless.operations.prepare import prepare_rehearsal
from rackless.operations.rehearsal.findings import RunFindings
from rackless.operations.rehearsal.leavings import Leavings
from rackless.operations.rehearsal.limits import announce_full, refuse_full, unfit_hints
from rackless.operations.rehearsal.rehearse import check_config, write_report
from rackless.operations.rehearsal.release import list_url, offer_release
from rackless.operations.rehearsal.run import RehearsalRun, RunPlaces, require_installer
from rackless.operations.rehearsal.stage import StageSetting
from rackless.plan.model import CLUSTER_BRIDGE, LabPlan
from rackless.ports.drivers import Drivers
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.protocol.exchange import Nothing
from rackless.protocol.messages import InstallStatus
from rackless.run.files import write_secret
from rackless.run.paths import LabPaths, Roots
from rackless.run.waiting import until
from rackless.spec.address import Ip
from rackless.spec.cluster import InstallPayload, OpenshiftSpec
from rackless.spec.lab import LabSpec
from rackless.spec.servers import Role
from rackless.spec.uplink import Uplink

_DESTROYED = "Destroying the bootstrap resources"
_STAND_IN_SECONDS = 60.0
_AGAIN = "`rackless why` says more; `rackless up` runs it again"


class Way(Enum):
    """How an `up` goes on with an install."""

    ANEW = "from the beginning"
    CREATE_AGAIN = "with the bootstrap machine that is there"
    WAIT_AGAIN = "with the cluster, which has its API"


async def install_openshift(spec: LabSpec, roots: Roots, bus: Bus, *, drivers: Drivers | None = None) -> Report | None:
    """Run the installer to its end, or go on where an earlier run stopped; None when it had come to its end before."""
    drivers = drivers or open_drivers()
    require_root("run an installer in a lab", drivers.computer)
    wanted = spec.cluster.openshift
    assert wanted.installer is not None, "the spec's rules demand it"
    binary = require_installer(wanted.installer)
    paths = require_lab(spec.name, roots)
    with locked(paths, drivers.processes):
        # in the lab's log, where its timeline is read
        async with own_events(bus, paths, drivers) as own, own.telling(paths, drivers.clock):
            install = LabInstall(spec, await ready_plan(paths), paths, binary, own, bus, drivers)
            return await install.all()


@dataclass(slots=True)
class LabInstall:
    spec: LabSpec
    plan: LabPlan
    paths: LabPaths
    binary: Path
    own: OwnEvents
    shown: Bus
    drivers: Drivers
    status: InstallStatus = field(init=False)

    def __post_init__(self) -> None:
        self.status = InstallStatus(self.wanted.payload.value, "running", "prepare")

    @property
    def wanted(self) -> OpenshiftSpec:
        return self.spec.cluster.openshift

    @property
    def bus(self) -> Bus:
        return self.own.bus

    @property
    def leavings(self) -> Leavings:
        names = {server.name for server in self.plan.servers}
        return Leavings(self.paths, names, self.plan.api_vip, self.drivers)

    async def all(self) -> Report | None:
        before = describe_install(self.paths, self.drivers.processes)
        with self.bus.step("OpenShift") as step:
            if before is not None and before.state == "complete":
                await self._serve()
                step.unchanged("complete")
                return None
            try:
                way = await self._way(before)
                step.detail = way.value
                return await self._run(way)
            except RacklessError as error:
                self._note(state="failed", detail=self.status.detail or str(error))
                raise
            except asyncio.CancelledError:
                self._note(state="cut off")
                raise

    def _note(self, **changes: object) -> None:
        self.status = replace(self.status, **changes)  # type: ignore[arg-type]
        note_install(self.paths, self.status)

    async def _way(self, before: InstallStatus | None) -> Way:
        """A quick rehearsal is as soon begun anew; of the others what is there is worth minutes or hours."""
        if before is None or self.wanted.payload is InstallPayload.QUICK or before.payload != self.wanted.payload:
            return Way.ANEW
        if not (self.paths.install / "metadata.json").exists():
            return Way.ANEW
        if await self.leavings.find_machine():
            return Way.CREATE_AGAIN
        log = self.paths.install / LOG
        destroyed = log.exists() and _DESTROYED in await asyncio.to_thread(log.read_text, errors="replace")
        return Way.WAIT_AGAIN if destroyed else Way.ANEW

    async def _run(self, way: Way) -> Report:
        payload = self.wanted.payload
        report = Report(self.plan.domain, str(self.wanted.installer), expected=0)
        # an install-config of a person's own may leave the MAC to the installer
        mac = self.plan.bootstrap_mac if self.wanted.install_config is None else ""
        findings = RunFindings(report, self.drivers.clock, mac, self._control_planes)
        places = RunPlaces(self.paths.rehearsal, self.paths.install)
        run = RehearsalRun(
            self.paths, places, self.binary, findings, self.bus, self.drivers, payload, keeps=True, stays=True,
            followed=lambda phase: self._note(phase=phase),
        )  # fmt: skip
        if payload is InstallPayload.FULL:
            announce_full(report, lab_config(self.wanted, self.plan, self.paths))
        elif payload is InstallPayload.REAL:
            report.not_proven, report.subjects = NOT_PROVEN_BY_REAL, REAL_SUBJECTS
        try:
            code = await self._install(run, way)
        finally:
            findings.close()
        write_report(report, places.folder)
        if code != 0:
            self._note(state="failed", code=code, detail=findings.why)
            verbs = [str(self.binary), *run.verbs]
            raise CommandFailed(verbs, code, findings.why, hint=_AGAIN)
        if payload is InstallPayload.QUICK:
            await self._stand_in(run)
        self._note(state="complete", phase="complete", code=0, detail="")
        return report

    async def _install(self, run: RehearsalRun, way: Way) -> int:
        kvm = (remembered_kvm(self.paths.roots.cache, self.drivers.computer) or (False, ""))[0]
        text = lab_config(self.wanted, self.plan, self.paths)
        if run.full:
            refuse_full(text, routed=self.plan.bmc_site.router is not None)
        check_config(text, run.report, self._bridges)
        self._note(state="running", phase="prepare", detail="", code=None)
        run.report.installer = f"{self.wanted.installer} {(release := await run.learn_release())}"
        real = run.payload is InstallPayload.REAL
        secret = read_pull_secret(self.wanted, text, release) if real else ""
        if way is Way.ANEW:
            await self._clean()
            run.prepare(text, kvm=kvm, pull_secret=secret, without=unfit_hints(text, self.plan) if run.full else None)
        run.aliases = [str(one) for one in self._aliases(text)]
        run.make_folders()
        command = (calls.wait_command if way is Way.WAIT_AGAIN else calls.command)(self.binary, run.places.cluster)
        return await (self._pull(run, command, kvm=kvm) if real else self._rehearse(run, command, way, kvm=kvm))

    async def _rehearse(self, run: RehearsalRun, command: list[str], way: Way, *, kvm: bool) -> int:
        run.findings.phase("live ISO")
        iso, release = await prepare_rehearsal(self.paths.roots, self.bus, self.drivers), ""
        if run.full and (way is Way.ANEW or not self.paths.release.exists()):
            run.findings.phase("release")
            release = await offer_release(self.plan, self.paths, self.bus, self.drivers)
        elif run.full:
            release = list_url(self.plan)
        return await run.install(command, iso, release, calls.environment(run.places.folder, kvm=kvm), kvm=kvm)

    async def _pull(self, run: RehearsalRun, command: list[str], *, kvm: bool) -> int:
        """A real install, helped on its way as the lab's remediation allows."""
        environment = real_environment(self.wanted, run.places.folder, kvm=kvm)
        for doubt in doubts(self.spec, self.plan, kvm=kvm):
            self.bus.tell("install-doubt", why=doubt)
            run.report.deviations.append(doubt)
        help_ = RealHelp(self.spec, self.plan, self.paths, run.report, self.bus, self.drivers)
        while True:
            async with help_.helping():
                code = await run.install(command, None, "", environment, kvm=kvm)
            if not help_.wait_again(code, run.findings.why):
                return code
            bootstrapping = bool(await self.leavings.find_machine())
            command = (calls.command if bootstrapping else calls.wait_command)(self.binary, run.places.cluster)
            run.findings.forget()

    async def _stand_in(self, run: RehearsalRun) -> None:
        """From here on labd answers as the cluster, until the lab is destroyed."""
        with self.bus.step("cluster stands in"):
            setting = StageSetting("", 0, IGNITION_AREA_BYTES, str(run.places.folder), CLUSTER_BRIDGE)
            write_secret(self.paths.stand_in, setting.dump())
            await self._serve()

            async def answers() -> tuple[bool, str]:
                found = await run.look_by_kubeconfig()
                return found is not None, "answers" if found is not None else "does not answer yet"

            clock = self.drivers.clock
            await until(answers, what="the cluster to answer", within=_STAND_IN_SECONDS, every=0.5, clock=clock)

    async def _serve(self) -> None:
        await ControlClient(self.paths.socket).work(say.SERVE_RELEASE, Nothing(), self.shown, told=self.own.take())

    async def _clean(self) -> None:
        """Remove what the last run has left: its machine, its cluster, its files."""
        with self.bus.step("what was left"):
            self.paths.stand_in.unlink(missing_ok=True)
            await self._serve()
            if self.wanted.payload is not InstallPayload.QUICK:
                await self.leavings.switch_off(self.shown)
            await self.leavings.remove(self.paths.install, self.paths.rehearsal)

    def _aliases(self, text: str) -> Iterator[Ip]:
        """Not where a lab reaches the site's own, nor where its name server asks them."""
        plan, config = self.plan, read_config(text)
        alone = self.spec.networks.uplink.mode is Uplink.NONE and self.wanted.payload is not InstallPayload.REAL
        if config is None or not alone or not isinstance(plan.gateway.ip, IPv4Address):
            return
        taken = {plan.api_vip, plan.ingress_vip, plan.bootstrap_address}
        taken |= {address for server in plan.servers for address in (server.address, server.bmc_address)}
        yield from gateway_aliases(config, plan.gateway.ip, taken)

    @property
    def _bridges(self) -> Iterator[str]:
        yield self.plan.baremetal.name
        if self.plan.provisioning is not None:
            yield self.plan.provisioning.name
        if self.plan.provisioning_dhcp is not None:
            yield self.plan.provisioning_dhcp.bridge

    @property
    def _control_planes(self) -> frozenset[str]:
        return frozenset(server.name for server in self.plan.servers if server.role is Role.CONTROL_PLANE)
