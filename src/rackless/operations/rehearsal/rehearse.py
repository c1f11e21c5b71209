"""`rackless rehearse`: runs the user's own installer in the twin of a site, and reports what that has proven.

From the hypervisor's side: makes the twin up to its BMCs, runs the installer in it (`run`), and removes the twin.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rackless.cluster.openshift import installer as calls
from rackless.cluster.openshift.faults import EXPECTED, EXPECTED_IN_FULL, InstallFault
from rackless.cluster.openshift.report import Report
from rackless.drivers import open_drivers
from rackless.errors import InputError, LabError
from rackless.events import Bus
from rackless.installer.install_config.checking import check
from rackless.installer.install_config.findings import Severity
from rackless.installer.install_config.release import NEWEST
from rackless.installer.install_config.site import Site
from rackless.installer.twin import rendering
from rackless.installer.twin.reading import read_twin
from rackless.installer.twin.site import Twin, Wishes
from rackless.lab.acceleration import remembered_kvm
from rackless.operations import lab as labs
from rackless.operations.lab_registry import recorded_spec, require_root
from rackless.operations.prepare import prepare_rehearsal
from rackless.operations.rehearsal.findings import RunFindings
from rackless.operations.rehearsal.leavings import Leavings
from rackless.operations.rehearsal.limits import announce_full, refuse_full, unfit_hints
from rackless.operations.rehearsal.release import offer_release
from rackless.operations.rehearsal.run import RehearsalRun, RunPlaces, require_installer
from rackless.plan.addressing import plan_lab
from rackless.ports.drivers import Drivers
from rackless.run.files import write, write_secret
from rackless.run.ledger import Ledger, LedgerEntry
from rackless.run.paths import LabPaths, Roots
from rackless.spec import load
from rackless.spec.cluster import InstallPayload
from rackless.spec.lab import LabSpec
from rackless.spec.networks import BmcAccess


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
    binary = require_installer(wanted.installer)
    text = read_source(wanted.source)
    twin = read_twin(wanted.source, wanted.twin)
    report = Report(twin.domain, str(wanted.installer), fault=wanted.fault.value if wanted.fault else "")
    expected = EXPECTED_IN_FULL if wanted.full else EXPECTED
    report.expected = expected.get(wanted.fault, 8) if wanted.fault else 0
    report.deviations += twin.deviations
    if wanted.full:
        refuse_full(text, routed=twin.bmc_access is BmcAccess.ROUTED)
        announce_full(report, text)
    check_config(text, report, (twin.bridge, twin.provisioning.bridge))
    run = _TwinRun(wanted, twin, binary, report, roots, bus, drivers)
    with bus.step(f"rehearsal of {twin.domain}"):
        await run.all(text)
    return report


def read_source(source: Path) -> str:
    """Raises InputError."""
    try:
        return source.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{source} cannot be read", why=str(error)) from error


def check_config(text: str, report: Report, bridges: Iterable[str]) -> None:
    """`bridges` are those that the installer will find in the lab. Raises InputError where it would refuse the config."""
    found = check(text, NEWEST, Site(bridges=frozenset(bridges)))
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


_OURS = {"made": "rehearsal"}
"""In the ledger of a twin that a rehearsal has made, and takes away."""


@dataclass(slots=True)
class _TwinRun:
    """A twin, the installer's run in it, and what becomes of both."""

    wanted: Wanted
    twin: Twin
    binary: Path
    report: Report
    roots: Roots
    bus: Bus
    drivers: Drivers

    @property
    def paths(self) -> LabPaths:
        return LabPaths(self.roots, self.twin.name)

    @property
    def folder(self) -> Path:
        return self.paths.state / "rehearsal"

    async def all(self, text: str) -> None:
        findings = RunFindings(self.report, self.drivers.clock, self.twin.bootstrap_mac, self._control_planes)
        ledger = Ledger(self.paths.ledger)
        entries = ledger.entries()  # without any it is what a removal has left that was cut off at its end
        there = bool(entries) and not any(entry.detail == _OURS for entry in entries)
        spec = self._spec(there)
        try:
            findings.phase("lab")
            try:
                with self.bus.step("twin"):
                    install = self.wanted.install
                    await labs.up(spec, self.roots, self.bus, goal="bmc", install=install, drivers=self.drivers)
            finally:
                shutil.rmtree(self._passwords, ignore_errors=True)
                if there:
                    ledger.strike(LedgerEntry("folder", str(self._passwords)))
            await self._install(text, spec, findings)
        finally:
            findings.close()
            if not there and not self.wanted.keep:
                with self.bus.step("twin removed"):
                    await labs.destroy(self.twin.name, self.roots, self.bus, self.drivers)
            elif not self.wanted.keep and self.paths.state.exists():
                await self._clean()

    async def _install(self, text: str, spec: LabSpec, findings: RunFindings) -> None:
        wanted = self.wanted
        findings.phase("live ISO")
        iso = await prepare_rehearsal(self.roots, self.bus, self.drivers)
        kvm = (remembered_kvm(self.roots.cache, self.drivers.computer) or (False, ""))[0]
        await self._clean()
        run = RehearsalRun(
            self.paths, RunPlaces(self.folder, self.folder / "cluster"), self.binary, findings, self.bus, self.drivers,
            InstallPayload.FULL if wanted.full else InstallPayload.QUICK, wanted.fault, wanted.patience, wanted.keep,
        )  # fmt: skip
        self.report.installer = f"{wanted.installer} {await run.learn_release()}"
        run.aliases = [str(one) for one in self.twin.aliases]
        release, without = "", dict[str, list[str]]()
        if wanted.full:
            findings.phase("release")
            plan = plan_lab(spec)
            release, without = await offer_release(plan, self.paths, self.bus, self.drivers), unfit_hints(text, plan)
        run.prepare(text, kvm=kvm, without=without)
        command = calls.command(self.binary, run.places.cluster)
        await run.install(command, iso, release, calls.environment(self.folder, kvm=kvm), kvm=kvm)

    @property
    def _passwords(self) -> Path:
        return self.roots.state / f"{self.twin.name}.twin"

    def _spec(self, there: bool) -> LabSpec:
        """The twin's lab description. Its BMC passwords are in a private folder until `up` has copied them into the lab."""
        folder = self._passwords
        text = rendering.render(self.twin, self.wanted.source.name, PurePosixPath(folder), installed=self.wanted.full)
        spec = load.parse(text, "the twin")
        if there and (known := recorded_spec(self.paths)) is not None and _shape(known) != _shape(spec):
            raise LabError(
                f"there is a lab {self.twin.name}, and it is not the twin of this site",
                hint=f"`rackless destroy --name {self.twin.name}`, or give this twin another name with --name",
            )
        # before anything is made: whoever takes the lab away after we were killed takes the passwords along, and the next rehearsal
        # knows whose lab it is
        Ledger(self.paths.ledger).own("folder", folder, **({} if there else _OURS))
        for file, password in rendering.password_files(self.twin).items():
            write_secret(folder / file, password)
        return spec

    @property
    def _control_planes(self) -> frozenset[str]:
        groups = self.twin.groups
        return frozenset(server.name for group in groups if group.role == "control-plane" for server in group.servers)

    async def _clean(self) -> None:
        """Remove what the last run has left in the twin."""
        if self.folder.exists():
            names = {server.name for server in self.twin.servers}
            left = Leavings(self.paths, names, self.twin.api_vip, self.drivers)
            if self.paths.release.exists():
                await left.switch_off(self.bus)
            await left.remove(self.folder)


def _shape(spec: LabSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json")


def write_report(report: Report, folder: Path) -> dict[str, Path]:
    """As JSON and JUnit, for programs."""
    places = {"json": folder / "rehearsal.json", "junit": folder / "rehearsal.junit.xml"}
    write(places["json"], json.dumps(report.as_json(), indent=2, ensure_ascii=False) + "\n")
    write(places["junit"], report.as_junit())
    return places
