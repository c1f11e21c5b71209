"""A rehearsal on fakes: the twin, the installer and the stage beside it as programs of the world, and what is left of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from rackless.cluster.openshift import installer as calls
from rackless.cluster.openshift.faults import InstallFault
from rackless.cluster.openshift.report import LineVerdict, Report
from rackless.drivers.fake.processes import FakeProcess, WasKilled
from rackless.drivers.fake.script import Rule
from rackless.errors import HypervisorError, InputError, Interrupted, LabError
from rackless.images.catalogue import BootstrapIso
from rackless.installer.twin.site import Wishes
from rackless.operations import lab as labs
from rackless.operations.rehearsal import rehearse as rehearsing
from rackless.operations.rehearsal import run as rehearsal_run
from rackless.operations.rehearsal.rehearse import Wanted, rehearse, write_report
from rackless.plan.model import CLUSTER_BRIDGE
from rackless.run.ledger import Ledger
from rackless.spec.networks import BmcAccess
from tests.installer.twin.configs import config, masters
from tests.installer.twin.configs import host as site_host
from tests.simulation.conftest import person
from tests.simulation.person import Person

__all__ = ["person"]

SITE = config(masters("redfish-virtualmedia://192.168.112.1{n}/redfish/v1/Systems/1"))
BY_MEDIA = config(
    masters("redfish-virtualmedia://192.168.112.1{n}/redfish/v1/Systems/1"), provisioningNetwork="Disabled"
)
STAGE = "rackless.operations.rehearsal.stage"
INSTALLER = "openshift-install"
BOOTSTRAP = "site-abcde-bootstrap"
RELEASE = "http://10.20.30.1:6180/release.json"
Say = Callable[..., None]


def bootstrap(**said: Any) -> dict[str, Any]:
    return {"bootstrap": said}


GOES_WELL: tuple[dict[str, Any], ...] = (
    {"phase": "bootstrap machine runs", "machine": BOOTSTRAP},
    bootstrap(phase="booted", ignition_bytes=4711),
    bootstrap(phase="network", address="10.20.30.99/24", interface="eth0", mac="52:54:00:00:00:01", name="bootstrap"),
    bootstrap(names=[
        {"name": "api.site.example.net", "good": True, "saw": "10.20.30.5", "wanted": "10.20.30.5"},
        {"name": "10.20.30.99", "good": True, "saw": "bootstrap", "wanted": "a name"},
    ]),
    bootstrap(vip="10.20.30.5", free=True),
    {"machine_config": {"url": "https://api-int.site.example.net:22623/config/master", "good": True, "saw": "answers 200"}},
    bootstrap(bmc="master-0", good=True, saw="account accepted"),
    {"phase": "bootstrap machine gone"},
)  # fmt: skip
"""What the stage tells of a site where all is well."""
ITS_LINES = (
    "Consuming Install Config from target directory", "Creating infrastructure resources...",
    "Waiting up to 20m0s for the Kubernetes API at https://api.site.example.net:6443...", "API v1.35.0 up",
    "Waiting up to 1h0m0s for bootstrapping to complete...", "Destroying the bootstrap resources...",
    "Waiting up to 40m0s for the cluster to initialize...", "Install complete!",
    'Login to the console with user: \\"kubeadmin\\", and password: \\"very-secret-indeed\\"',
)  # fmt: skip


class Site:
    """The programs of a rehearsal, as this world has them, and what it takes to run one."""

    def __init__(self, person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
        self.person = person
        self.source, self.installer = person.folder / "install-config.yaml", person.folder / INSTALLER
        self.source.write_text(SITE)
        self.installer.write_text("")
        self.installer.chmod(0o755)
        self.told: tuple[dict[str, Any], ...] = GOES_WELL
        self.code = 0
        self.release = "4.22.3"
        self.lines: tuple[str, ...] = ITS_LINES
        self.stays = False
        """Whether the installer waits, after its lines, until it is interrupted."""
        self.at_line: Callable[[str], None] = lambda _: None
        self.installs = asyncio.Event()
        self.interrupts = 0
        self.left = {"domains": "", "pools": "", "volumes": ""}
        self.asked: list[str] = []
        self.config = ""
        self.cluster: dict[str, Any] = {
            "server": "https://api.site.example.net:6443", "available": "True", "nodes": {}, "hosts": {},
        }  # fmt: skip
        """What its API answers in the end."""
        self.setting: dict[str, Any] = {}
        programs: dict[str, Callable[[FakeProcess], Awaitable[int]]] = {
            INSTALLER: self._install, STAGE: self._stage, "virsh": self._virsh, "ip": self._ip,
        }  # fmt: skip
        person.world.processes.programs |= programs

        async def iso(*_: object) -> BootstrapIso:
            return BootstrapIso(person.folder / "live.iso", "0" * 64, 4096, "key")

        async def release(*_: object) -> str:
            return RELEASE

        monkeypatch.setattr(rehearsing, "prepare_rehearsal", iso)
        monkeypatch.setattr(rehearsing, "offer_release", release)
        monkeypatch.setattr(rehearsal_run, "_HIDDEN", ("/run",))  # where the test's own folder is, is not what is tried

    async def rehearse(self, **more: Any) -> Report:
        person = self.person
        wanted = Wanted(self.source, self.installer, **more)
        work = rehearse(wanted, person.roots, person.bus, person.world.drivers())
        return await person.run("rehearse", work)

    def leaves_nothing(self) -> bool:
        roots = self.person.roots
        alive = [one.name for one in self.person.world.processes.all.values() if one.alive]
        return [*alive, *roots.state.glob("*"), *roots.run.glob("*")] == []

    # the programs

    async def _install(self, process: FakeProcess) -> int:
        if process.argv[-1] == "version":
            process.say(f"{INSTALLER} {self.release}")
            return 0
        self.installs.set()
        interrupted = asyncio.Event()
        process.handlers[2] = interrupted.set
        folder = Path(process.argv[process.argv.index("--dir") + 1])
        self.config = (folder / "install-config.yaml").read_text()
        for line in self.lines:
            process.say(f'level=info msg="{line}"')
            self.at_line(line)
            await asyncio.sleep(2.0)
            if interrupted.is_set() or (self.stays and "bootstrapping" in line):
                await interrupted.wait()
                self.interrupts += 1
                process.say('level=error msg="received interrupt signal"')
                return 8
        return self.code

    async def _stage(self, process: FakeProcess) -> int:
        if "--kubeconfig" in process.argv:
            process.say(json.dumps(self.cluster))
            return 0
        self.setting = json.loads(Path(process.argv[-1]).read_text())
        process.say("a warning of some library")
        process.say(json.dumps({"iso": "http://127.0.0.1:1/rehearsal.iso"}))
        for one in self.told:
            await asyncio.sleep(1.0)
            process.say(json.dumps(one))
        await asyncio.Event().wait()
        return 0

    async def _virsh(self, process: FakeProcess) -> int:
        words = process.argv[process.argv.index("--quiet") + 1 :]
        self.asked.append(" ".join(words))
        listed = {"list": "domains", "pool-list": "pools", "vol-list": "volumes"}.get(words[0])
        if listed is not None:
            process.say(self.left[listed])
        return 0

    async def _ip(self, process: FakeProcess) -> int:
        self.asked.append(" ".join(process.argv[process.argv.index("ip") :]))
        return 0


@pytest.fixture
def site(person: Person, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(person, monkeypatch)


def test_a_good_site_is_proven_line_by_line_written_down_and_nothing_is_left(site: Site) -> None:
    async def story() -> None:
        report = await site.rehearse()
        assert report.good and report.exit_code == 0, report
        assert "very-secret" not in json.dumps(report.as_json())
        assert {one.verdict for one in report.findings} == {LineVerdict.PROVEN}
        assert list(report.phases)[:3] == ["lab", "live ISO", "installer"] and "complete" in report.phases
        assert report.installer.endswith("4.22.3") and any("emulated processor" in one for one in report.deviations)
        assert f"socket={rehearsal_run.PROXY}" in site.config  # there is no KVM in this world

        places = write_report(report, site.person.folder / "out")
        assert json.loads(places["json"].read_text())["good"] is True
        assert ElementTree.parse(places["junit"]).getroot().get("failures") == "0"
        assert site.leaves_nothing()

    site.person.live(story)


@pytest.mark.parametrize("kvm", [False, True])
def test_an_installer_before_the_live_iso_gets_a_disk_and_a_log_of_its_machines_console(
    site: Site, monkeypatch: pytest.MonkeyPatch, *, kvm: bool
) -> None:
    monkeypatch.setattr(rehearsing, "remembered_kvm", lambda *_: (kvm, ""))
    site.release = "4.19.7"

    async def story() -> None:
        report = await site.rehearse()
        assert report.good and calls.BY_DISK in report.deviations
        assert site.setting["iso"].endswith("/bootstrap.qcow2")
        assert (site.setting["proxy"], site.setting["native"]) == (rehearsal_run.PROXY, kvm)
        assert f"socket={rehearsal_run.PROXY}" in site.config  # also with KVM: its definition keeps no log

    site.person.live(story)


def test_a_site_with_bridges_of_its_own_names_has_a_twin_that_has_them(site: Site) -> None:
    hosts = masters("redfish-virtualmedia://192.168.112.1{n}/redfish/v1/Systems/1")
    site.source.write_text(config(hosts, externalBridge="br-ext", provisioningBridge="prov0"))

    async def story() -> None:
        report = await site.rehearse()
        assert report.good and "externalBridge: br-ext" in site.config

    site.person.live(story)


def test_what_is_wrong_at_a_site_is_told_with_what_to_do_about_it(site: Site) -> None:
    """And a site that waits in vain is not waited for as long as the installer would."""
    refused = "it refuses the account user0 (401)"
    site.stays = True
    site.told = (
        bootstrap(names=[{"name": "api.site.example.net", "good": False, "saw": "10.20.30.6", "wanted": "10.20.30.5"}]),
        bootstrap(vip="10.20.30.5", free=False),
        bootstrap(bmc="master-0", good=False, saw=refused),
        bootstrap(waits="control planes that cannot be provisioned: master-0", in_vain=True),
    )

    async def story() -> None:
        report = await site.rehearse()
        bad = {one.subject: one for one in report.findings if one.verdict is LineVerdict.FAILED}
        assert set(bad) == {"DNS forward", "API VIP", "BMC access", "exit code"} and not report.good
        assert "api.site.example.net must resolve to 10.20.30.5" in bad["DNS forward"].remedy
        assert "answered for by somebody" in bad["API VIP"].saw and refused in bad["BMC access"].saw
        assert "master-0" in bad["exit code"].remedy
        assert (report.exit_code, site.interrupts) == (8, 1) and site.leaves_nothing()
        assert "hand-over" in report.as_json()["notReached"]

    site.person.live(story)


def test_a_twin_that_is_kept_is_cleaned_of_what_the_installer_left_and_rehearsed_again(site: Site) -> None:
    async def story() -> None:
        assert (await site.rehearse(keep=True)).good
        twin = site.person.roots.state / "site"
        assert (twin / "rehearsal/cluster").is_dir() and not list(site.person.roots.state.glob("*.twin"))
        site.left = {
            "domains": f"master-0\n{BOOTSTRAP}",
            "pools": f"default\n{BOOTSTRAP}",
            "volumes": " live-iso   /x/live-iso",
        }
        site.asked.clear()

        report = await site.rehearse(fault=InstallFault.INTERRUPTED, keep=True)
        assert report.good and report.exit_code == 8 and site.interrupts == 1
        asked = " | ".join(site.asked)
        assert f"destroy {BOOTSTRAP} | undefine {BOOTSTRAP}" in asked and "undefine master-0" not in asked
        assert f"vol-delete live-iso --pool {BOOTSTRAP}" in asked and "pool-undefine default" not in asked
        assert f"ip address delete 10.20.30.5/32 dev {CLUSTER_BRIDGE}" in asked

        ledger = Ledger(site.person.roots.state / "site.ledger")
        (ours,) = [entry for entry in ledger.entries() if entry.detail == {"made": "rehearsal"}]
        ledger.strike(ours)  # from here on it is a person's own lab: it stays
        assert (await site.rehearse()).good
        assert twin.is_dir() and not (twin / "rehearsal").exists()
        site.source.write_text(SITE.replace("10.20.30.4", "10.20.30.7"))
        with pytest.raises(LabError, match="not the twin of this site"):
            await site.rehearse()

    site.person.live(story)


INSIDE = (
    "processes.launch *", "processes.start libvirtd", "networks.ensure_network cluster", "hypervisor.ensure master-1",
)  # fmt: skip
"""Moments of an `up` to the BMCs; then each line of the installer's, and the words of the stage."""


@pytest.mark.parametrize(
    ("moment", "full"),
    [
        *((moment, False) for moment in (*INSIDE, "live ISO", *ITS_LINES[:-1])),
        *((moment, True) for moment in ("release", *ITS_LINES[3:6])),
    ],
)
def test_one_that_is_killed_at_any_moment_is_run_again_or_taken_away_and_nothing_is_left(
    site: Site, monkeypatch: pytest.MonkeyPatch, *, moment: str, full: bool
) -> None:
    site.source.write_text(BY_MEDIA)
    world, names = site.person.world, [f"master-{number}" for number in range(3)]
    site.cluster |= {"hosts": dict.fromkeys(names, "provisioned"), "nodes": dict.fromkeys(names, True)}
    if full:
        site.told = (
            *[one for one in GOES_WELL if "machine_config" not in one],
            {"installs": {"machine-config": "master"}},
        )
    struck: list[str] = []

    def strike() -> None:
        if moment not in struck:
            struck.append(moment)
            for command in world.processes.named("rehearse"):
                world.processes.kill(command)

    site.at_line = lambda line: strike() if line == moment else None
    for name, what in (("live ISO", "prepare_rehearsal"), ("release", "offer_release")):
        if name == moment:
            real = getattr(rehearsing, what)

            async def killed(*given: object, real: Any = real) -> object:
                strike()
                await asyncio.sleep(0)  # the dead come no further
                return await real(*given)

            monkeypatch.setattr(rehearsing, what, killed)

    async def story() -> None:
        for after in ("destroy", "run again"):
            struck.clear()
            if moment in INSIDE:
                world.script.rules.append(Rule(moment, then=strike))
            with pytest.raises(WasKilled):
                await site.rehearse(full=full)
            assert struck == [moment]
            await asyncio.sleep(60)
            site.left = {"domains": BOOTSTRAP, "pools": BOOTSTRAP, "volumes": "live-iso  /x"}
            if after == "destroy":
                destroyed = labs.destroy("site", site.person.roots, site.person.bus, world.drivers())
                assert await site.person.run("destroy", destroyed)
            else:
                report = await site.rehearse(full=full)
                assert report.good, report
            assert site.leaves_nothing(), after

    site.person.live(story)


def test_a_ledger_with_nothing_in_it_is_nobodys_lab(site: Site) -> None:
    """The twin's removal was cut off at its very end: the next rehearsal has a twin of its own, which it takes away."""
    site.person.roots.state.mkdir()
    (site.person.roots.state / "site.ledger").touch()

    async def story() -> None:
        assert (await site.rehearse()).good
        assert site.leaves_nothing()

    site.person.live(story)


def test_somebody_who_stops_a_rehearsal_gets_the_installer_stopped_and_the_twin_removed(site: Site) -> None:
    site.stays, site.told = True, ()

    async def story() -> None:
        going = asyncio.create_task(site.rehearse())
        processes = site.person.world.processes
        await site.installs.wait()
        (running,) = processes.named(INSTALLER)
        (command,) = processes.named("rehearse")
        processes.interrupt(command.pid)
        with pytest.raises(Interrupted):
            await going
        assert running.code == 8 and site.interrupts == 1 and site.leaves_nothing()

    site.person.live(story)


@pytest.mark.parametrize("silent", [True, False])
def test_a_stage_that_ends_or_says_nothing_is_told_with_its_last_words_and_the_twin_is_removed(
    site: Site, *, silent: bool
) -> None:
    async def stage(process: FakeProcess) -> int:
        process.say("Traceback: the port is taken")
        await asyncio.sleep(1000.0 if silent else 3.0)
        return 1

    site.person.world.processes.programs[STAGE] = stage

    async def story() -> None:
        with pytest.raises(HypervisorError, match="does not answer" if silent else "ended") as raised:
            await site.rehearse()
        assert raised.value.why == "Traceback: the port is taken" and "--keep" in raised.value.hint
        assert site.leaves_nothing()
        if not silent:
            with pytest.raises(HypervisorError) as raised:
                await site.rehearse(keep=True)
            assert "the port is taken" in Path(raised.value.log).read_text()

    site.person.live(story)


@pytest.mark.parametrize(("change", "match"), [
    (lambda site: site.installer.chmod(0o644), "is no program"),
    (lambda site: site.installer.unlink(), "is no program"),
    (lambda site: site.source.unlink(), "cannot be read"),
    (lambda site: site.source.write_bytes(b"\xff\xfe"), "cannot be read"),
    (lambda site: site.source.write_text(SITE.replace("pullSecret: '", "pullSecret: 'x")), "would refuse"),
])  # fmt: skip
def test_what_cannot_be_rehearsed_is_refused_before_anything_is_made(
    site: Site, change: Callable[[Site], None], match: str
) -> None:
    change(site)

    async def story() -> None:
        with pytest.raises(InputError, match=match):
            await site.rehearse()
        assert site.leaves_nothing()

    site.person.live(story)


def test_an_installer_that_a_lab_would_hide_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal_run, "_HIDDEN", (str(site.person.folder),))

    async def story() -> None:
        with pytest.raises(InputError, match="cannot be seen from inside a lab"):
            await site.rehearse()

    site.person.live(story)


def test_a_full_rehearsal_tells_who_was_installed_and_which_nodes_have_joined(site: Site) -> None:
    site.source.write_text(BY_MEDIA)
    names = [f"master-{number}" for number in range(3)]
    good = [one for one in GOES_WELL if "machine_config" not in one]
    site.told = (
        *good[:-1],
        {"installs": {"phase": "manifests applied"}},
        {"installs": {"subject": "host/master-0", "begun": "inspecting"}},
        {"installs": {"machine-config": "master", "to": "10.20.30.20"}},
        {"installs": {"phase": "hands over"}},
        good[-1],
    )

    async def story() -> None:
        site.cluster |= {"hosts": dict.fromkeys(names, "provisioned"), "nodes": dict.fromkeys(names, True)}
        report = await site.rehearse(full=True)
        assert report.good, report
        assert site.setting["release"] == RELEASE
        told = {one.subject: one.saw for one in report.findings}
        assert told["hosts installed"] == "by Ironic: master-0 provisioned, master-1 provisioned, master-2 provisioned"
        assert told["machine-config server"] == "gave 10.20.30.20 the config of a master"
        assert told["nodes"] == "master-0 ready, master-1 ready, master-2 ready"
        assert {"release", "manifests applied", "API moves to the control plane"} <= set(report.phases)
        assert any("install_coreos" in one for one in report.deviations)
        assert not any("simulated" in one for one in report.not_proven)

        site.cluster |= {"nodes": {"master-0": True, "master-1": False}}
        site.cluster["hosts"]["master-2"] = "provisioning: no answer"
        report = await site.rehearse(full=True)
        bad = {one.subject for one in report.findings if one.verdict is LineVerdict.FAILED}
        assert bad == {"hosts installed", "nodes"} and not report.good and site.leaves_nothing()

    site.person.live(story)


@pytest.mark.parametrize(
    ("text", "bmc_access", "said"),
    [
        (SITE, "routed", "its BMC fetches discs on the provisioning network"),
    ],
)  # fmt: skip
def test_what_a_full_rehearsal_cannot_install_is_refused_before_anything_is_made(
    site: Site, text: str, bmc_access: str, said: str
) -> None:
    site.source.write_text(text)

    async def story() -> None:
        with pytest.raises(InputError, match="a full rehearsal cannot install master-0") as refused:
            await site.rehearse(full=True, twin=Wishes(bmc_access=BmcAccess(bmc_access)))
        assert said in refused.value.why and "--quick" in refused.value.hint
        assert site.leaves_nothing()

    site.person.live(story)


def test_a_full_rehearsal_over_a_provisioning_network_tells_of_it_and_of_the_workers_that_machines_stand_for(
    site: Site,
) -> None:
    hosts = [*masters("redfish://192.168.112.1{n}/redfish/v1/Systems/1")]
    hosts += [site_host(n, f"redfish://192.168.112.2{n}/redfish/v1/Systems/1", "worker") for n in range(2)]
    site.source.write_text(config(hosts))
    site.told = tuple(one for one in GOES_WELL if "machine_config" not in one)
    names = [str(one["name"]) for one in hosts]
    site.cluster |= {
        "hosts": dict.fromkeys(names, "provisioned"),
        "nodes": dict.fromkeys(names, True),
        "claimed": names[:4],
    }
    site.cluster["hosts"]["worker-1"] = "available"  # nobody wants it
    del site.cluster["nodes"]["worker-1"]

    async def story() -> None:
        report = await site.rehearse(full=True)
        assert {"provisioning network", "machine-config server"} == set(
            report.as_json()["notReached"]
        ) and not report.good
        site.told = (
            *site.told[:-1],
            {"installs": {"phase": "provisioning network", "dhcp": True, "on": "provision0", "address": "172.22.0.2"}},
            {"installs": {"machine-config": "master", "to": "10.20.30.20"}},
            site.told[-1],
        )
        report = await site.rehearse(full=True)
        told = {one.subject: one.saw for one in report.findings}
        assert report.good and report.kind == "full", report
        assert told["provisioning network"] == "DHCP, iPXE and Ironic at 172.22.0.2"
        site.cluster["hosts"]["worker-0"] = "inspecting: no answer"
        report = await site.rehearse(full=True)
        bad = {one.subject for one in report.findings if one.verdict is LineVerdict.FAILED}
        assert bad == {"hosts installed"} and site.leaves_nothing()

    site.person.live(story)


def test_a_host_that_ironic_cannot_install_is_told_with_its_error_and_one_that_it_could_later_is_not(
    site: Site,
) -> None:
    """The installer itself says after an hour that it took too long."""
    site.source.write_text(BY_MEDIA)
    site.code, site.lines = 5, ITS_LINES[:5]
    failed = {"warning": "host-failed", "kind": "registration error"}
    site.told = (
        *[
            {"installs": {"subject": f"host/master-{number}", "why": f"error {number}", **failed}}
            for number in range(2)
        ],
        {"installs": {"subject": "host/master-1", "ended": "registering", "outcome": "done"}},
    )

    async def story() -> None:
        report = await site.rehearse(full=True)
        told = {one.subject: one for one in report.findings if one.verdict is LineVerdict.FAILED}
        assert set(told) == {"exit code", "hosts installed"} and report.exit_code == 5
        assert told["hosts installed"].saw == "master-0: error 0" and "BMC" in told["hosts installed"].remedy

    site.person.live(story)


def test_root_device_hints_that_no_disk_of_the_twin_fits_are_left_out_of_a_full_rehearsal_and_told(site: Site) -> None:
    """With them Ironic would find no disk to write to."""
    hints: list[dict[str, object]] = [
        {"deviceName": "/dev/sda", "serialNumber": "S3XNNX0K10", "minSizeGigabytes": 8},
        {"deviceName": "/dev/vda", "wwn": "0x5000"},
        {"deviceName": "/dev/sdb", "minSizeGigabytes": 400, "rotational": False},
    ]  # fmt: skip
    hosts = masters("redfish-virtualmedia://192.168.112.1{n}/redfish/v1/Systems/1")
    site.source.write_text(
        config(
            [{**one, "rootDeviceHints": hint} for one, hint in zip(hosts, hints, strict=True)],
            provisioningNetwork="Disabled",
        )
    )

    async def story() -> None:
        report = await site.rehearse()
        written = yaml.safe_load(site.config)["platform"]["baremetal"]["hosts"]
        assert [one["rootDeviceHints"] for one in written] == hints  # nothing is written to disks
        report = await site.rehearse(full=True)
        written = yaml.safe_load(site.config)["platform"]["baremetal"]["hosts"]
        assert [one.get("rootDeviceHints") for one in written] == [hints[0], {"deviceName": "/dev/vda"}, None]
        told = [one for one in report.deviations if "were left out" in one]
        assert [one.partition(" were")[0] for one in told] == [
            "master-1: rootDeviceHints wwn", "master-2: rootDeviceHints deviceName, minSizeGigabytes, rotational",
        ]  # fmt: skip

    site.person.live(story)


def test_name_servers_of_the_site_that_are_nobody_in_the_twin_are_its_gateway_meanwhile(site: Site) -> None:
    fixed: dict[str, Any] = {"bootstrapExternalStaticIP": "10.20.30.90", "bootstrapExternalStaticGateway": "10.20.30.254",
                             "bootstrapExternalStaticDNS": "10.0.0.53"}  # fmt: skip
    hosts = masters("redfish-virtualmedia://192.168.112.1{n}/redfish/v1/Systems/1")
    site.source.write_text(config(hosts, **fixed))

    async def story() -> None:
        report = await site.rehearse()
        assert site.setting["aliases"] == ["10.0.0.53"] and any(
            one.startswith("10.0.0.53: ") for one in report.deviations
        )

    site.person.live(story)


def test_a_full_rehearsal_that_is_to_fail_ends_where_the_installer_begins_to_wait_in_vain(site: Site) -> None:
    site.source.write_text(BY_MEDIA)

    async def story() -> None:
        report = await site.rehearse(full=True, fault=InstallFault.NO_CONSOLE)
        assert report.good and (report.exit_code, report.expected) == (0, 0)
        site.stays = True
        site.told = (*GOES_WELL[:-1], {"waits": "its bootstrap machine, which is off", "in_vain": True})
        report = await site.rehearse(full=True, fault=InstallFault.BOOTSTRAP_OFF)
        assert report.good and (report.exit_code, report.expected) == (8, 8)
        site.told, site.lines = (
            GOES_WELL[:-1],
            (
                *ITS_LINES[:4],
                "Still waiting for the cluster to initialize: Cluster operator ingress is degraded",
                "for bootstrapping",  # where it stays
            ),
        )
        report = await site.rehearse(full=True, fault=InstallFault.OPERATOR_DEGRADED)
        assert report.good and report.exit_code == 8 and site.interrupts == 2
        assert any("operator ingress is degraded" in one.saw for one in report.findings if one.subject == "exit code")
        assert site.leaves_nothing()

        site.stays, site.code = (
            False,
            6,
        )  # whoever is left waiting ends as the installer does when its patience runs out
        report = await site.rehearse(full=True, fault=InstallFault.OPERATOR_DEGRADED, patience=9999)
        assert report.good and (report.exit_code, report.expected, site.interrupts) == (6, 6, 2)
        site.code = 7
        report = await site.rehearse(full=True, fault=InstallFault.OPERATOR_DEGRADED, patience=9999)
        assert not report.good and report.expected == 6

    site.person.live(story)
