"""One run of the user's installer in a lab: the stage beside it, what both say, and how it ended.

From the hypervisor's side. The installer is not changed, and its config only where a lab must differ; the report says where. Whose
lab it is, and what becomes of it afterwards, is `operations/rehearsal/rehearse.py`'s or `operations/openshift/lab.py`'s.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rackless.cluster.openshift import installer as calls
from rackless.cluster.openshift.faults import PATIENCE_SECONDS, InstallFault
from rackless.cluster.openshift.report import Report
from rackless.errors import HypervisorError, InputError
from rackless.events import Bus
from rackless.images.bootstrap_iso import IGNITION_AREA_BYTES, disk_beside
from rackless.images.catalogue import BootstrapIso
from rackless.operations.access import inside_command
from rackless.operations.rehearsal.findings import RunFindings
from rackless.operations.rehearsal.stage import StageSetting
from rackless.plan.model import CLUSTER_BRIDGE
from rackless.ports.drivers import Drivers
from rackless.ports.process import Child
from rackless.run.files import write, write_secret
from rackless.run.paths import LabPaths
from rackless.spec.cluster import InstallPayload

_HIDDEN = ("/run", "/var/lib", "/var/log", "/var/cache")
_STAGE = "rackless.operations.rehearsal.stage"
PROXY = "/run/rehearsal-libvirt.sock"
"""Inside the lab, where the installer and its proxy are: a socket's path has 107 characters at most, a folder's may have more."""
_READY_SECONDS = 60.0
_END_SECONDS = 20.0


def require_installer(path: Path) -> Path:
    """Raises InputError for what is no program, and for one that a lab would not see."""
    found = path.resolve()
    if not found.is_file() or not os.access(found, os.X_OK):
        raise InputError(
            f"{path} is no program",
            why="it is not a file that may be run",
            hint="name the installer of your release with --installer ./openshift-install",
        )
    if is_hidden(found):
        raise InputError(
            f"{path} cannot be seen from inside a lab",
            why=f"a lab has its own {', '.join(_HIDDEN)}",
            hint="copy the installer somewhere else, as to your home",
        )
    return found


def is_hidden(path: Path) -> bool:
    """Whether a file of this computer is not seen from inside a lab."""
    return any(path.resolve().is_relative_to(folder) for folder in _HIDDEN)


@dataclass(frozen=True, slots=True)
class RunPlaces:
    """Where a run keeps its files; secrets lie there."""

    folder: Path
    """Its own: logs, the stage's setting, what the installer takes for its home."""
    cluster: Path
    """The folder that the installer is given with --dir."""


@dataclass(slots=True)
class RehearsalRun:
    paths: LabPaths
    places: RunPlaces
    binary: Path
    findings: RunFindings
    bus: Bus
    drivers: Drivers
    payload: InstallPayload = InstallPayload.QUICK
    fault: InstallFault | None = None
    patience: float | None = None
    """Seconds after which an installer that waits in vain is interrupted; None is `PATIENCE_SECONDS`, long before its own
    timeouts."""
    keeps: bool = False
    """Whether its logs stay."""
    stays: bool = False
    """Whether the lab stays, and with it what stands in for the cluster."""
    stage_said: list[dict[str, Any]] = field(default_factory=list)
    told: asyncio.Event = field(default_factory=asyncio.Event)
    aliases: Sequence[str] = ()
    """Addresses of the site's name servers and routers, which the lab's gateway has meanwhile."""
    verbs: tuple[str, ...] = ()
    """What the installer was told to do."""
    silence: str = ""
    """Why the API did not answer when it was asked last."""
    by_disk: bool = False
    """Whether this installer's bootstrap machine boots a disk image."""
    followed: Callable[[str], object] = lambda _: None
    """Is told of each phase of the installer's."""

    @property
    def report(self) -> Report:
        return self.findings.report

    @property
    def full(self) -> bool:
        return self.payload is InstallPayload.FULL

    async def learn_release(self) -> str:
        """Ask the installer for its release. Raises InputError for one that a rehearsal is not possible with."""
        argv = inside_command(self.paths.name, [str(self.binary), "version"], self.paths.roots, self.drivers)
        done = await self.drivers.processes.run(argv, within=60)
        if self.payload is InstallPayload.REAL:
            return calls.read_release(done.stdout)
        release = calls.refuse_release(done.stdout)
        self.by_disk = calls.boots_disk(release)
        return release

    def prepare(
        self, text: str, *, kvm: bool, pull_secret: str = "", without: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """Make the run's folders and write the install-config as the installer is given it. `without` are the root device hints
        that are left out, by host."""
        self.make_folders()
        libvirt = f"qemu+unix:///system?socket={PROXY}" if self._needs_proxy(kvm=kvm) else ""
        config, changes = calls.prepare_config(text, libvirt, pull_secret, without or {})
        write_secret(self.places.cluster / "install-config.yaml", config)
        self.report.deviations += changes

    def make_folders(self) -> None:
        for folder in (self.places.folder, self.places.cluster, *map(self.places.folder.joinpath, ("tmp", "cache"))):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.chmod(0o700)

    async def install(
        self, command: Sequence[str], iso: BootstrapIso | None, release: str, environment: dict[str, str], *, kvm: bool
    ) -> int:
        """Run the installer with this command beside a stage, to its end; its exit code."""
        self.verbs = tuple(command[1:3])
        if not kvm and iso is not None:
            few = "two emulated processors" if self.full else "one emulated processor"
            self.report.deviations.append(f"no KVM here: the bootstrap machine has {few}")
        if self.by_disk:
            self.report.deviations.append(calls.BY_DISK)
        async with self._stage(iso, release, kvm=kvm) as url:
            with self.bus.step("installer") as step:
                self.findings.phase("installer")
                self.findings.progress = step.progress
                served = calls.image(url) if url else {}
                code = await self._follow(command, {**environment, **served}, note=step.progress)
                step.detail = f"exit code {code}: {calls.EXIT_CODES.get(code, 'unknown')}"
            self.findings.judge(code)
            if code == 0 and self.report.fault != InstallFault.NO_CONSOLE and self.payload is not InstallPayload.REAL:
                await self.ask_kubeconfig()
        return code

    # the stage beside the installer

    def _needs_proxy(self, *, kvm: bool) -> bool:
        """Also with KVM for a machine whose definition keeps no log of its console, by which it is followed."""
        return not kvm or self.by_disk

    @asynccontextmanager
    async def _stage(self, iso: BootstrapIso | None, release: str, *, kvm: bool) -> AsyncIterator[str]:
        folder, boots = self.places.folder, ""
        if iso is not None:
            boots = str(disk_beside(iso.path) if self.by_disk else iso.path)
        setting = StageSetting(
            boots, iso.ignition_offset if iso else 0, IGNITION_AREA_BYTES, str(folder), CLUSTER_BRIDGE,
            PROXY if self._needs_proxy(kvm=kvm) else "", self.fault.value if self.fault else "", release=release,
            remember=self.stays, aliases=tuple(self.aliases), native=kvm,
        )  # fmt: skip
        file = folder / "stage.json"
        write_secret(file, setting.dump())
        child = await self._inside([sys.executable, "-P", "-m", _STAGE, str(file)], folder / "stage.log")
        hearing = asyncio.create_task(self._hear(child))
        try:
            yield await self._await_stage(child, "iso" if iso else "phase")
        finally:
            await child.stop(_END_SECONDS)
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)

    async def _inside(self, command: Sequence[str], log: Path, env: dict[str, str] | None = None) -> Child:
        argv = inside_command(self.paths.name, list(command), self.paths.roots, self.drivers)
        return await self.drivers.processes.start(argv, log=log, env=env)

    async def _await_stage(self, child: Child, word: str) -> str:
        """Wait for its first word of this kind: the URL of its ISO, or, where it serves none, that it is ready."""
        try:
            async with asyncio.timeout(_READY_SECONDS):
                while True:
                    if (said := next((one[word] for one in self.stage_said if word in one), None)) is not None:
                        return str(said) if word == "iso" else ""
                    if child.code is not None:
                        raise self._stage_failed("ended")
                    await self._something(1.0)
        except TimeoutError as error:
            raise self._stage_failed("does not answer") from error

    def _stage_failed(self, how: str) -> HypervisorError:
        """With the last lines of the stage's log: the log itself goes with the twin, unless that is kept."""
        log = self.places.folder / "stage.log"
        why = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
        what = f"the stage of the rehearsal {how}"
        if self.keeps:
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
                    self.findings.note(said)
                    self.told.set()

    # the installer

    async def _follow(self, command: Sequence[str], environment: dict[str, str], *, note: Any) -> int:
        child = await self._inside(command, self.places.folder / "installer.log", environment)
        write(self.paths.installer_pid, self.drivers.processes.identity(child.pid))
        watching = asyncio.create_task(self._watch(child))
        try:
            async for text in child.lines():
                line = calls.read_line(text)
                if line.phase is not None:
                    self.findings.phase(line.phase)
                    self.followed(line.phase)
                self.findings.note_line(line)
                if line.phase == "api" and self.fault is InstallFault.INTERRUPTED:
                    self.findings.interrupted = True
                    self.drivers.processes.interrupt(child.pid)
                if calls.is_secret(line.message):
                    continue
                if line.level in ("error", "fatal"):
                    self.findings.last_error = line.message
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
            self.paths.installer_pid.unlink(missing_ok=True)

    async def _watch(self, child: Child) -> None:
        """An installer that waits in vain would do so for up to an hour: it is interrupted, and the report says why."""
        patience = PATIENCE_SECONDS if self.patience is None else self.patience
        while True:
            await asyncio.sleep(0.5)
            since = self.findings.waiting_since
            if since is not None and self.drivers.clock.now() - since > patience:
                self.findings.interrupted = True
                self.drivers.processes.interrupt(child.pid)
                return

    async def ask_kubeconfig(self) -> None:
        """What stands there, as lines of the report."""
        found = await self.look_by_kubeconfig()
        if found is None:
            self.findings.no_kubeconfig(self.silence)
            return
        self.findings.judge_kubeconfig(found)
        if self.full:
            self.findings.judge_cluster(found["hosts"], found["nodes"], found.get("claimed", ()))

    async def look_by_kubeconfig(self) -> dict[str, Any] | None:
        """What stands there, asked with the installer's kubeconfig; None where nobody answers."""
        kubeconfig = self.places.cluster / "auth/kubeconfig"
        command = [sys.executable, "-P", "-m", _STAGE, "--kubeconfig", str(kubeconfig)]
        done = await self.drivers.processes.run(
            inside_command(self.paths.name, command, self.paths.roots, self.drivers), check=False, within=60
        )
        try:
            found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        except (ValueError, IndexError):
            self.silence = done.stderr.strip()[-200:]
            return None
        return {**found, "good": done.code == 0}
