"""`rackless rehearse`: runs the user's own installer in the twin of a site, and reports what that has proven.

From the hypervisor's side: makes the twin up to its BMCs, starts the stage (`rehearsal_stage`) and the installer inside it, follows
both, and writes the report. The installer is not changed, and its config only where a lab must differ; the report says where.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from rackless.cluster.openshift import installer as calls
from rackless.cluster.openshift import translation
from rackless.cluster.openshift.faults import EXPECTED, PATIENCE_SECONDS, InstallFault
from rackless.cluster.openshift.report import FULL_SUBJECTS, NOT_PROVEN_IN_FULL, Report
from rackless.drivers import open_drivers
from rackless.errors import HypervisorError, InputError, LabError, RacklessError
from rackless.events import Bus
from rackless.images.bootstrap_iso import IGNITION_AREA_BYTES
from rackless.images.catalogue import BootstrapIso
from rackless.installer.install_config.checking import check, read_config
from rackless.installer.install_config.findings import Severity
from rackless.installer.install_config.release import NEWEST
from rackless.installer.twin import rendering
from rackless.installer.twin.reading import read_twin
from rackless.installer.twin.site import Twin, Wishes
from rackless.lab.acceleration import remembered_kvm
from rackless.operations import lab as labs
from rackless.operations.access import inside_command
from rackless.operations.lab_registry import recorded_spec, require_root
from rackless.operations.prepare import prepare_rehearsal
from rackless.operations.rehearsal_release import offer_release
from rackless.operations.rehearsal_stage import StageSetting
from rackless.plan.addressing import plan_lab
from rackless.plan.model import CLUSTER_BRIDGE
from rackless.ports.drivers import Drivers
from rackless.ports.process import Child
from rackless.run.files import write, write_secret
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
from rackless.spec import load
from rackless.spec.lab import LabSpec

_HIDDEN = ("/run", "/var/lib", "/var/log", "/var/cache")
_STAGE = "rackless.operations.rehearsal_stage"
PROXY = "/run/rehearsal-libvirt.sock"
"""Inside the lab, where the installer and its proxy are: a socket's path has 107 characters at most, a folder's may have more."""
_READY_SECONDS = 60.0
_INSTALLING = {
    "manifests applied": "manifests applied",
    "ironic": "Ironic on the bootstrap",
    "keys offered": "control plane's keys offered",
    "hands over": "API moves to the control plane",
}
"""What the bootstrap of a full rehearsal tells, as phases of the report."""
_END_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Wanted:
    source: Path
    installer: Path
    twin: Wishes = Wishes()  # noqa: RUF009  (frozen)
    fault: InstallFault | None = None
    patience: float | None = None
    """Seconds after which an installer that waits in vain is interrupted; None is `PATIENCE_SECONDS`, long before its own
    timeouts."""
    keep: bool = False
    """Keep the twin, and in it what the installer left."""
    install: bool = True
    full: bool = False
    """Install the twin's servers through Ironic, from the installer's manifests."""


async def rehearse(wanted: Wanted, roots: Roots, bus: Bus, drivers: Drivers | None = None) -> Report:
    drivers = drivers or open_drivers()
    require_root("make a lab", drivers.computer)
    binary = _require_installer(wanted.installer)
    text = read_source(wanted.source)
    twin = read_twin(wanted.source, wanted.twin)
    report = Report(twin.domain, str(wanted.installer), fault=wanted.fault.value if wanted.fault else "")
    report.expected = EXPECTED.get(wanted.fault, 8) if wanted.fault else 0
    report.deviations += twin.deviations
    if wanted.full:
        refuse_full(text, wanted)
        report.not_proven, report.subjects = NOT_PROVEN_IN_FULL, FULL_SUBJECTS
        report.deviations += FULL_DEVIATIONS
    check_config(text, report)
    run = _Run(wanted, twin, binary, report, roots, bus, drivers)
    with bus.step(f"rehearsal of {twin.domain}"):
        await run.all(text)
    return report


FULL_DEVIATIONS = (
    "servers get the reference system, written by Ironic, where the manifests say install_coreos",
    "certificates of BMCs are not verified: the twin's are of the lab's CA",
)


def refuse_full(text: str, wanted: Wanted) -> None:
    """Before anything is made: what the bootstrap of a full rehearsal cannot install yet. Raises InputError."""
    if wanted.fault is not None:
        raise InputError(
            "failures on demand are played in quick rehearsals", why="a full one installs servers", hint="add --quick"
        )
    config = read_config(text)
    if config is None or config.metal is None:
        return  # said better by the rules
    if not config.metal.disabled:
        raise InputError(
            f"a full rehearsal needs provisioningNetwork: Disabled, and here it is {config.metal.provisioning}",
            why="the rehearsal's bootstrap installs hosts by virtual media so far",
            hint="rehearse it with --quick",
        )
    if config.arbiter is not None:
        raise InputError("a full rehearsal has no arbiters yet", hint="rehearse it with --quick")
    for host in config.hosts:
        translation.refuse_host(host.name, host.bmc_address, host.boot_mode)


def _require_installer(path: Path) -> Path:
    found = path.resolve()
    if not found.is_file() or not os.access(found, os.X_OK):
        raise InputError(
            f"{path} is no program",
            why="it is not a file that may be run",
            hint="name the installer of your release with --installer ./openshift-install",
        )
    if any(found.is_relative_to(folder) for folder in _HIDDEN):
        raise InputError(
            f"{path} cannot be seen from inside a lab",
            why=f"a lab has its own {', '.join(_HIDDEN)}",
            hint="copy the installer somewhere else, as to your home",
        )
    return found


def read_source(source: Path) -> str:
    """Raises InputError."""
    try:
        return source.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{source} cannot be read", why=str(error)) from error


def check_config(text: str, report: Report) -> None:
    """Raises InputError where the installer would refuse it."""
    found = check(text, NEWEST)
    errors = [one for one in found.findings if one.severity is Severity.ERROR]
    if errors:
        why = "\n".join(f"line {one.line}: {one.path}: {one.message}" for one in errors[:10])
        raise InputError(
            "the installer would refuse this install-config", why=why, hint="mend it: `rackless check install-config`"
        )
    fatal = [one for one in found.findings if one.severity is Severity.FATAL_LATER]
    words = f"accepted by the rules of {NEWEST}" + (
        f"; {len(fatal)} findings that kill an installation" if fatal else ""
    )
    remedy = "; ".join(f"{one.path}: {one.fix}" for one in fatal[:5])
    report.add("install-config", not fatal, words, remedy)


@dataclass(slots=True)
class _Run:
    wanted: Wanted
    twin: Twin
    binary: Path
    report: Report
    roots: Roots
    bus: Bus
    drivers: Drivers
    began: float = field(init=False)
    stage_said: list[dict[str, Any]] = field(default_factory=list)
    told: asyncio.Event = field(default_factory=asyncio.Event)
    in_vain: str = ""
    waiting_since: float | None = None
    last_error: str = ""
    progress: Callable[[str], object] = lambda _: None
    """Shown beside the installer's own lines."""

    def __post_init__(self) -> None:
        self.began = self.drivers.clock.now()

    @property
    def paths(self) -> LabPaths:
        return LabPaths(self.roots, self.twin.name)

    @property
    def folder(self) -> Path:
        return self.paths.state / "rehearsal"

    async def all(self, text: str) -> None:
        made = self.paths.state / "made-by-rehearsal"
        there = Ledger(self.paths.ledger).exists and not made.exists()
        spec = self._spec(there)
        try:
            self._phase("lab")
            try:
                with self.bus.step("twin"):
                    install = self.wanted.install
                    await labs.up(spec, self.roots, self.bus, goal="bmc", install=install, drivers=self.drivers)
            finally:
                shutil.rmtree(self._passwords, ignore_errors=True)
                if not there and self.paths.state.exists():
                    made.touch()  # so that one that is killed is removed by the next
            self._phase("live ISO")
            iso = await prepare_rehearsal(self.roots, self.bus, self.drivers)
            kvm = (remembered_kvm(self.roots.cache, self.drivers.computer) or (False, ""))[0]
            await self._clean()
            await self._refuse_release()
            release = ""
            if self.wanted.full:
                self._phase("release")
                release = await offer_release(plan_lab(spec), self.paths, self.bus, self.drivers)
            await self._run_installer(text, iso, release, kvm=kvm)
        finally:
            self.report.seconds = self.drivers.clock.now() - self.began
            self.report.close()
            if not there and not self.wanted.keep:
                with self.bus.step("twin removed"):
                    await labs.destroy(self.twin.name, self.roots, self.bus, self.drivers)
            elif not self.wanted.keep and self.paths.state.exists():
                await self._clean()

    @property
    def _passwords(self) -> Path:
        return self.roots.state / f"{self.twin.name}.twin"

    def _spec(self, there: bool) -> LabSpec:
        """The twin's lab description. Its BMC passwords are in a private folder until `up` has copied them into the lab."""
        folder = self._passwords
        text = rendering.render(self.twin, self.wanted.source.name, PurePosixPath(folder))
        spec = load.parse(text, "the twin")
        if there and (known := recorded_spec(self.paths)) is not None and _shape(known) != _shape(spec):
            raise LabError(
                f"there is a lab {self.twin.name}, and it is not the twin of this site",
                hint=f"`rackless destroy --name {self.twin.name}`, or give this twin another name with --name",
            )
        for file, password in rendering.password_files(self.twin).items():
            write_secret(folder / file, password)
        return spec

    # the run

    async def _refuse_release(self) -> None:
        argv = inside_command(self.twin.name, [str(self.binary), "version"], self.roots, self.drivers)
        done = await self.drivers.processes.run(argv, within=60)
        self.report.installer = f"{self.wanted.installer} {calls.refuse_release(done.stdout)}"

    async def _run_installer(self, text: str, iso: BootstrapIso, release: str, *, kvm: bool) -> None:
        folder = self.folder
        for name in ("cluster", "tmp", "cache"):
            (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        proxy = "" if kvm else PROXY
        config, changes = calls.prepare_config(text, f"qemu+unix:///system?socket={proxy}" if proxy else "")
        write_secret(folder / "cluster/install-config.yaml", config)
        self.report.deviations += changes
        if not kvm:
            few = "two emulated processors" if self.wanted.full else "one emulated processor"
            self.report.deviations.append(f"no KVM here: the bootstrap machine has {few}")
        async with self._stage(iso, proxy, release) as url:
            with self.bus.step("installer") as step:
                self._phase("installer")
                self.progress = step.progress
                code = await self._follow(url, kvm=kvm, note=step.progress)
                step.detail = f"exit code {code}: {calls.EXIT_CODES.get(code, 'unknown')}"
            await self._judge(code)

    @asynccontextmanager
    async def _stage(self, iso: BootstrapIso, proxy: str, release: str) -> AsyncIterator[str]:
        setting = StageSetting(
            str(iso.path), iso.ignition_offset, IGNITION_AREA_BYTES, str(self.folder), CLUSTER_BRIDGE, proxy,
            self.wanted.fault.value if self.wanted.fault else "", release=release,
        )  # fmt: skip
        file = self.folder / "stage.json"
        write_secret(file, setting.dump())
        command = [sys.executable, "-P", "-m", _STAGE, str(file)]
        child = await self._inside(command, self.folder / "stage.log")
        hearing = asyncio.create_task(self._hear(child))
        try:
            yield await self._await_iso(child)
        finally:
            await child.stop(_END_SECONDS)
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)

    async def _inside(self, command: list[str], log: Path, env: dict[str, str] | None = None) -> Child:
        argv = inside_command(self.twin.name, command, self.roots, self.drivers)
        return await self.drivers.processes.start(argv, log=log, env=env)

    async def _await_iso(self, child: Child) -> str:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                while True:
                    if url := next((said["iso"] for said in self.stage_said if "iso" in said), None):
                        return str(url)
                    if child.code is not None:
                        raise self._stage_failed("ended")
                    await self._something(1.0)
        except TimeoutError as error:
            raise self._stage_failed("does not answer") from error

    def _stage_failed(self, how: str) -> HypervisorError:
        """With the last lines of the stage's log: the log itself goes with the twin, unless that is kept."""
        log = self.folder / "stage.log"
        why = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
        what = f"the stage of the rehearsal {how}"
        if self.wanted.keep:
            return HypervisorError(what, why=why, log=log)
        return HypervisorError(what, why=why, hint="run it again with --keep: then its log stays")

    async def _something(self, within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self.told.wait()
        self.told.clear()

    async def _hear(self, child: Child) -> None:
        async for line in child.lines():
            with suppress(ValueError):
                said = json.loads(line)
                if isinstance(said, dict):
                    self.stage_said.append(said)
                    self._note(said)
                    self.told.set()

    async def _follow(self, url: str, *, kvm: bool, note: Any) -> int:
        command = calls.command(self.binary, self.folder / "cluster")
        child = await self._inside(command, self.folder / "installer.log", calls.environment(url, self.folder, kvm=kvm))
        watching = asyncio.create_task(self._watch(child))
        try:
            async for text in child.lines():
                line = calls.read_line(text)
                if line.phase is not None:
                    self._phase(line.phase)
                if line.phase == "api" and self.wanted.fault is InstallFault.INTERRUPTED:
                    self.drivers.processes.interrupt(child.pid)
                if calls.is_secret(line.message):
                    continue
                if line.level in ("error", "fatal"):
                    self.last_error = line.message
                if line.level in ("info", "warning", "error", "fatal"):
                    note(line.message[:160])
            return await child.wait()
        finally:
            watching.cancel()
            if child.code is None:  # somebody stopped us
                self.drivers.processes.interrupt(child.pid)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_END_SECONDS):
                        await child.wait()
                await child.stop()

    async def _watch(self, child: Child) -> None:
        """An installer that waits in vain would do so for up to an hour: it is interrupted, and the report says why."""
        patience = PATIENCE_SECONDS if self.wanted.patience is None else self.wanted.patience
        while True:
            await asyncio.sleep(0.5)
            if self.waiting_since is not None and self.drivers.clock.now() - self.waiting_since > patience:
                self.drivers.processes.interrupt(child.pid)
                return

    # what was seen

    def _phase(self, name: str) -> None:
        self.report.phases.setdefault(name, self.drivers.clock.now() - self.began)

    def _note(self, said: dict[str, Any]) -> None:
        report = self.report
        inner = said.get("bootstrap") or {}
        if said.get("phase") == "bootstrap machine runs":
            report.add("installer", True, f"took the config and made {said['machine']}")
            report.add("libvirt and bridges", True, "its checks passed; pool, volumes and machine were made")
        if inner.get("phase") == "booted":
            self._phase("bootstrap booted")
            report.add(
                "firmware and live ISO",
                True,
                f"booted, with {inner['ignition_bytes']} bytes of the installer's Ignition config",
            )
        if inner.get("phase") == "network":
            mac = self.twin.bootstrap_mac
            good = not mac or inner["mac"] == mac
            report.add(
                "MAC and lease",
                good,
                f"{inner['mac']} got {inner['address']} as {inner['name']}",
                f"the MAC should be {mac}",
            )
        for name in inner.get("names") or ():
            subject = "DNS back" if name["wanted"] == "a name" else "DNS forward"
            remedy = f"{name['name']} must resolve to {name['wanted']}, as the bootstrap sees it"
            report.add(subject, name["good"], f"{name['name']}: {name['saw']}", remedy)
        if "free" in inner:
            words = "was nobody's" if inner["free"] else "is answered for by somebody"
            report.add("API VIP", inner["free"], f"{inner['vip']} {words}", "free the address, or choose another VIP")
        if "bmc" in inner:
            report.add(
                "BMC access",
                inner["good"],
                f"{inner['bmc']}: {inner['saw']}",
                "see the BMC's address and account in the install-config",
            )
        if "machine_config" in said:
            found = said["machine_config"]
            report.add(
                "machine-config server",
                found["good"],
                f"{found['url']} {found['saw']}",
                "api-int must lead to the API VIP",
            )
        installs = said.get("installs") or {}
        if (phase := _INSTALLING.get(str(installs.get("phase")))) is not None:
            self._phase(phase)
        if "machine-config" in installs:
            gave = f"gave {installs.get('to')} the config of a {installs['machine-config']}"
            report.add("machine-config server", True, gave)
        if "subject" in installs and (work := installs.get("begun")):
            self.progress(f"{installs['subject']}: {work}")
        if said.get("phase") == "bootstrap machine gone":
            self._phase("hand-over")
        for one in (said, inner):
            if one.get("in_vain"):
                self.in_vain = str(one["waits"])
                self.waiting_since = self.drivers.clock.now()
            if "failed" in one:
                self.last_error = str(one["failed"])
                self.in_vain = self.in_vain or str(one["failed"])
                self.waiting_since = self.waiting_since or self.drivers.clock.now()

    async def _judge(self, code: int) -> None:
        report = self.report
        report.exit_code = code
        phases = report.phases
        if "api up" in phases:
            report.add("certificates", True, "the installer believed the API's certificate, and the API its client's")
        if "bootstrap destroyed" in phases and "hand-over" in phases:
            done = "complete" in phases
            report.add(
                "hand-over",
                done,
                "the bootstrap was destroyed, and the API answered elsewhere at the VIP",
                self.last_error,
            )
        words = f"{code}: {calls.EXIT_CODES.get(code, 'unknown')}"
        why = self.in_vain or self.last_error
        report.add("exit code", code == report.expected, words + (f"; {why}" if why else ""), why)
        if code == 0 and report.fault != InstallFault.NO_CONSOLE:
            await self._ask_kubeconfig()

    async def _ask_kubeconfig(self) -> None:
        kubeconfig = self.folder / "cluster/auth/kubeconfig"
        command = [sys.executable, "-P", "-m", _STAGE, "--kubeconfig", str(kubeconfig)]
        done = await self.drivers.processes.run(
            inside_command(self.twin.name, command, self.roots, self.drivers), check=False, within=60
        )
        try:
            found = json.loads(done.stdout.strip().splitlines()[-1])
        except (ValueError, IndexError):
            said = done.stderr.strip()[-200:]
            self.report.add("kubeconfig", False, said, "the installer's kubeconfig should open the API")
            return
        said = f"{found['server']} says: ClusterVersion Available={found['available']}"
        self.report.add("kubeconfig", done.code == 0, said, "the installer's kubeconfig should open the API")
        if self.wanted.full:
            self._judge_cluster(found["hosts"], found["nodes"])

    def _judge_cluster(self, hosts: dict[str, str], nodes: dict[str, bool]) -> None:
        masters = {name: state for name, state in hosts.items() if name in self._control_planes}
        installed = bool(masters) and all(state == "provisioned" for state in masters.values())
        said = ", ".join(f"{name} {state}" for name, state in sorted(hosts.items()))
        self.report.add("hosts installed", installed, f"by Ironic: {said}", "see the hosts' errors")
        ready = bool(nodes) and all(nodes.get(name) for name in masters)
        said = ", ".join(f"{name} {'ready' if good else 'not ready'}" for name, good in sorted(nodes.items()))
        self.report.add("nodes", ready, said or "none has joined", "see the servers' consoles")

    @property
    def _control_planes(self) -> set[str]:
        return {server.name for group in self.twin.groups if group.role == "control-plane" for server in group.servers}

    # afterwards

    async def _clean(self) -> None:
        """Delete what an installer, or a killed rehearsal, has left in the lab: its VM, storage pool and volumes, and the API VIP
        on the bridge."""
        if not self.folder.exists():
            return
        own = {server.name for server in self.twin.servers}
        for name in [one for one in await self._virsh("list", "--all", "--name") if one not in own]:
            await self._virsh("destroy", name)
            await self._virsh("undefine", name, "--nvram")
        for pool in await self._virsh("pool-list", "--all", "--name"):
            if pool.endswith("-bootstrap"):
                for volume in await self._virsh("vol-list", pool, "--name"):
                    await self._virsh("vol-delete", volume, "--pool", pool)
                await self._virsh("pool-destroy", pool)
                await self._virsh("pool-delete", pool)
                await self._virsh("pool-undefine", pool)
        argv = ["ip", "address", "delete", f"{self.twin.api_vip}/32", "dev", CLUSTER_BRIDGE]
        await self.drivers.processes.run(inside_command(self.twin.name, argv, self.roots, self.drivers), check=False)
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    async def _virsh(self, *words: str) -> list[str]:
        argv = inside_command(self.twin.name, ["virsh", "--quiet", *words], self.roots, self.drivers)
        with suppress(RacklessError):
            done = await self.drivers.processes.run(argv, check=False, within=60)
            return done.stdout.split() if done.code == 0 else []
        return []


def _shape(spec: LabSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json")


def write_report(report: Report, folder: Path) -> dict[str, Path]:
    """As JSON and JUnit, for programs."""
    places = {"json": folder / "rehearsal.json", "junit": folder / "rehearsal.junit.xml"}
    write(places["json"], json.dumps(report.as_json(), indent=2, ensure_ascii=False) + "\n")
    write(places["junit"], report.as_junit())
    return places
