"""`up` of a lab with `method: openshift`, on fakes: the user's installer is run in it, the cluster stands there, and who asks of it
is told; cut off or failed at any point it is run again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackless.cluster.openshift.report import Report
from rackless.drivers.fake.processes import FakeProcess
from rackless.errors import CommandFailed, InputError, Interrupted
from rackless.images.catalogue import BootstrapIso
from rackless.operations import lab as labs
from rackless.operations.access import cluster_kubeconfig
from rackless.operations.openshift import lab as openshift_lab
from rackless.operations.openshift.lab import install_openshift
from rackless.operations.why import why_lab
from rackless.spec.load import parse
from rackless.spec.remediation import Remediation
from tests.operations.test_rehearse import BOOTSTRAP, GOES_WELL, INSTALLER, ITS_LINES, RELEASE, STAGE, Site
from tests.simulation.conftest import person
from tests.simulation.person import Person

__all__ = ["person"]

LAB = """\
name: lab
servers: {ctrl: {role: control-plane, count: 3}}
cluster:
  method: openshift
  openshift: {installer: %s, payload: %s%s}
"""
KUBECONFIG = {
    "clusters": [{"name": "lab", "cluster": {"server": "https://api.lab.rackless.test:6443", "certificate-authority-data": ""}}],
    "contexts": [{"name": "admin", "context": {"cluster": "lab", "user": "admin"}}],
    "current-context": "admin",
    "users": [{"name": "admin", "user": {}}],
}  # fmt: skip


class Lab(Site):
    """A lab whose cluster comes by the installer of `Site`."""

    def __init__(self, person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(person, monkeypatch)
        self.describe("quick")
        mac = person.described.bootstrap_mac
        self.told = tuple(json.loads(json.dumps(one).replace("52:54:00:00:00:01", mac)) for one in GOES_WELL)
        self.commands: list[str] = []
        self.cut_after = ""
        """A line after which the installer says nothing more, until it is killed."""
        self.released = 0
        self.slow = 0.0
        """Seconds that the installer takes for its last line."""
        self.codes: list[int] = []
        """How it ends, run by run; without any as `code` says."""
        self.error = ""
        person.world.processes.programs[INSTALLER] = self._run_installer

        async def iso(*_: object) -> BootstrapIso:
            return BootstrapIso(person.folder / "live.iso", "0" * 64, 4096, "key")

        async def release(*_: object) -> str:
            self.released += 1
            self.person.paths.release.mkdir(exist_ok=True)
            return RELEASE

        monkeypatch.setattr(openshift_lab, "prepare_rehearsal", iso)
        monkeypatch.setattr(openshift_lab, "offer_release", release)

    def describe(self, payload: str, more: str = "") -> None:
        self.person.spec = parse(LAB % (self.installer, payload, more), "lab.yaml", folder=self.person.folder)

    async def up(self) -> Report | None:
        person, drivers = self.person, self.person.world.drivers()

        async def whole() -> Report | None:
            await labs.up(person.spec, person.roots, person.bus, drivers=drivers)
            return await install_openshift(person.spec, person.roots, person.bus, drivers=drivers)

        return await person.run("up", whole())

    async def install(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.person.status())["install"]
        return found

    async def _run_installer(self, process: FakeProcess) -> int:
        if process.argv[-1] == "version":
            return await self._install(process)
        self.commands.append(" ".join(process.argv[process.argv.index("--dir") - 2 : process.argv.index("--dir")]))
        folder = Path(process.argv[process.argv.index("--dir") + 1])
        (folder / "auth").mkdir(exist_ok=True)
        (folder / "auth/kubeconfig").write_text(yaml.safe_dump(KUBECONFIG))
        (folder / "metadata.json").write_text("{}")
        if "create" in process.argv:
            (folder / "install-config.yaml").touch()
        log = folder / ".openshift_install.log"
        for line in ITS_LINES:
            with log.open("a") as file:
                file.write(f'time="2026-01-01T00:00:00Z" level=info msg="{line}"\n')
            if self.cut_after and self.cut_after in line:
                self.installs.set()
                process.say(f'level=info msg="{line}"')
                await asyncio.Event().wait()
        if self.codes:
            self.config = (folder / "install-config.yaml").read_text()
            await asyncio.sleep(self.slow)
            code = self.codes.pop(0)
            if code:
                process.say(f'level=error msg="{self.error}"')
            return code
        return await self._install(process)

    async def _stage(self, process: FakeProcess) -> int:
        if "--stand-in" in process.argv:
            await asyncio.Event().wait()
        return await super()._stage(process)

    def parts(self, status: dict[str, Any]) -> dict[str, bool]:
        return {part["name"]: part["running"] for part in status["parts"]}


@pytest.fixture
def lab(person: Person, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(person, monkeypatch)


def test_a_quick_one_stands_there_and_is_known_and_is_not_run_again(lab: Lab) -> None:
    async def story() -> None:
        report = await lab.up()
        assert report is not None and report.good, report
        assert "externalMACAddress" in lab.config and "rehearsal-libvirt.sock" in lab.config  # written of the lab
        assert lab.setting["remember"] is True
        status = await lab.person.status()
        assert status["install"] == {
            "payload": "quick",
            "state": "complete",
            "phase": "complete",
            "detail": "",
            "code": 0,
        }
        assert lab.parts(status)["stand-in"] is True
        assert json.loads((lab.person.paths.rehearsal / "rehearsal.json").read_text())["good"] is True
        config = json.loads(cluster_kubeconfig("lab", lab.person.roots))["clusters"][0]["cluster"]
        assert (
            config["server"].startswith("https://127.0.0.1:") and config["tls-server-name"] == "api.lab.rackless.test"
        )

        assert await lab.up() is None and lab.commands == ["create cluster"]
        await lab.person.down()
        assert await lab.up() is None and lab.commands == ["create cluster"]
        assert lab.parts(await lab.person.status())["stand-in"] is True
        assert await lab.person.destroy() and lab.leaves_nothing()

    lab.person.live(story)


def test_an_installer_that_fails_is_told_with_its_cause_and_run_again_from_the_beginning(lab: Lab) -> None:
    async def story() -> None:
        lab.code = 4
        with pytest.raises(CommandFailed, match=r"openshift-install exited with 4") as raised:
            await lab.up()
        assert "rackless why" in raised.value.hint
        told = await lab.install()
        assert (told["state"], told["code"]) == ("failed", 4)
        log = lab.person.paths.install / ".openshift_install.log"
        fatal = "failed to create bootstrap: storage pool 'lab-bootstrap' already exists"
        log.write_text(f'time="2026-01-01T00:00:00Z" level=error msg="{fatal}"\n')
        drivers = lab.person.world.drivers()
        answer = await lab.person.run("why", why_lab("lab", lab.person.roots, drivers, inside=False))
        assert any(one.rule.startswith("installer/") for one in answer.findings), answer.findings

        lab.code = 0
        lab.left = {"domains": f"ctrl-0\n{BOOTSTRAP}", "pools": BOOTSTRAP, "volumes": "live-iso  /x"}
        report = await lab.up()
        assert report is not None and report.good and lab.commands == ["create cluster"] * 2
        asked = " | ".join(lab.asked)
        assert (
            f"undefine {BOOTSTRAP}" in asked
            and f"pool-undefine {BOOTSTRAP}" in asked
            and "undefine ctrl-0" not in asked
        )
        assert (await lab.install())["state"] == "complete"

    lab.person.live(story)


@pytest.mark.parametrize(
    ("cut_after", "machine", "then"),
    [
        ("Consuming", "", "create cluster"),  # nothing was made: anew
        ("bootstrapping", BOOTSTRAP, "create cluster"),  # its machine runs: the installer goes on with it
        ("initialize", "", "wait-for install-complete"),  # its machine is gone: it waits for the rest
    ],
)
def test_a_full_one_that_is_killed_goes_on_where_it_was(lab: Lab, cut_after: str, machine: str, then: str) -> None:
    async def story() -> None:
        lab.describe("full")
        lab.cut_after = cut_after
        lab.told = tuple(one for one in lab.told if "machine_config" not in one)
        going = asyncio.create_task(lab.up())
        await lab.installs.wait()
        processes = lab.person.world.processes
        assert (await lab.install())["state"] == "running"
        (command,) = processes.named("up")
        processes.kill(command)
        await asyncio.gather(going, return_exceptions=True)
        assert (await lab.install())["state"] == "cut off"

        lab.cut_after, lab.left = "", {**lab.left, "domains": machine}
        names = [f"ctrl-{number}" for number in range(3)]
        lab.cluster |= {"hosts": dict.fromkeys(names, "provisioned"), "nodes": dict.fromkeys(names, True)}
        assert await lab.up() is not None
        assert lab.commands[-1] == then and lab.setting["release"].endswith("/release.json")
        assert lab.released == (2 if cut_after == "Consuming" else 1)
        status = await lab.person.status()
        assert status["install"]["state"] == "complete" and "stand-in" not in lab.parts(status)
        assert await lab.person.destroy() and lab.leaves_nothing()

    lab.person.live(story)


def test_somebody_who_stops_it_gets_the_installer_stopped_and_is_told_that_it_was_cut_off(lab: Lab) -> None:
    lab.stays, lab.told = True, ()

    async def story() -> None:
        going = asyncio.create_task(lab.up())
        processes = lab.person.world.processes
        await lab.installs.wait()
        (command,) = processes.named("up")
        processes.interrupt(command.pid)
        with pytest.raises(Interrupted):
            await going
        assert lab.interrupts == 1
        assert (await lab.person.status())["install"]["state"] == "cut off"
        assert await lab.person.destroy() and lab.leaves_nothing()

    lab.person.live(story)


def test_an_install_config_of_another_site_is_refused_before_the_installer_runs(lab: Lab) -> None:
    async def story() -> None:
        lab.describe("quick", f", install_config: {lab.source}")
        with pytest.raises(InputError, match="is not for the lab lab") as raised:
            await lab.up()
        assert "the API VIP is 10.20.30.5 there" in raised.value.why and "rackless init --from" in raised.value.hint
        assert lab.commands == []

    lab.person.live(story)


@pytest.mark.parametrize("firmware", ["uefi", "bios"])
def test_a_full_rehearsal_may_boot_over_a_managed_network(firmware: str) -> None:
    text = "cluster: {method: openshift, openshift: {installer: x}}\n"
    text += f"servers: {{ctrl: {{role: control-plane, boot: network, firmware: {firmware}}}}}"
    assert parse(text, "lab.yaml").networks.provisioning.mode == "managed"


@pytest.mark.parametrize(("text", "said"), [
    ("cluster: {method: openshift}", "which openshift-install is to be run?"),
    ("cluster: {openshift: {installer: x}}", "nobody runs an installer with cluster.method: direct"),
    ("cluster: {method: openshift, openshift: {installer: x}}\nservers: {worker: {count: 1}}", "needs a control plane"),
    ("cluster: {method: openshift, openshift: {installer: x, oc: y}}", "nothing is pulled with payload: full"),
])  # fmt: skip
def test_what_does_not_fit_together_is_told_by_the_spec(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        parse(text, "lab.yaml")


def test_the_stage_is_the_program_that_labd_runs() -> None:
    from rackless.labd import stand_in

    assert stand_in.PROGRAM == STAGE


SECRET = json.dumps({"auths": {"nowhere.invalid": {"auth": "c2VjcmV0LXNlY3JldA=="}}})
HELP = "rackless.operations.openshift.help"


def _real(lab: Lab, remediation: str, more: str = "") -> None:
    secret = lab.person.folder / "pull-secret"
    secret.write_text(SECRET)
    lab.describe("real", f", pull_secret: {secret}{more}")
    spec = lab.person.spec
    lab.person.spec = spec.model_copy(update={"remediation": Remediation(remediation)})


def test_a_real_install_is_given_what_it_needs_and_pulls_for_itself(lab: Lab) -> None:
    oc = lab.person.folder / "bin/oc"
    oc.parent.mkdir()
    oc.write_text("")
    oc.chmod(0o755)

    async def story() -> None:
        _real(lab, "off", f", oc: {oc}, release_image: mirror.invalid/release@sha256:{'a' * 64}")
        report = await lab.up()
        assert report is not None and report.kind == "real"
        ran = [one for one in lab.person.world.processes.all.values() if "create" in one.argv and one.name == INSTALLER]
        process = ran[0]
        assert process.env["OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"].startswith("mirror.invalid/release")
        assert process.env["PATH"].startswith(f"{oc.parent}:")
        assert process.env["TERRAFORM_LIBVIRT_TEST_DOMAIN_TYPE"] == "qemu"
        assert "OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE" not in process.env and lab.setting["iso"] == ""
        assert "c2VjcmV0" in lab.config and lab.setting["proxy"]
        told = " | ".join(report.deviations)
        assert "no KVM here" in told and "networks.uplink is none" in told and "OpenShift wants 16" in told
        assert (await lab.install())["state"] == "complete"

    lab.person.live(story)


def test_a_real_install_without_a_pull_secret_is_refused_unless_it_is_okd(lab: Lab) -> None:
    async def story() -> None:
        lab.describe("real")
        with pytest.raises(InputError, match="needs a pull secret"):
            await lab.up()
        assert lab.commands == []
        lab.release = "4.22.0-okd-scos.1"
        assert await lab.up() is not None

    lab.person.live(story)


@pytest.mark.parametrize(("remediation", "done"), [("auto", True), ("ask", False), ("off", False)])
def test_a_real_install_is_helped_as_the_lab_may_and_what_was_done_is_written_down(
    lab: Lab, remediation: str, *, done: bool
) -> None:
    looked: list[list[str]] = []

    async def look(process: FakeProcess) -> int:
        looked.append(list(process.argv))
        slow = [{"server": "ctrl-1", "state": "inspecting", "why": "Timeout reached", "tries": 1}]
        process.say(json.dumps({"slow": slow, "requests": [{"request": "csr-1", "server": "ctrl-0"}]}))
        return 0

    lab.person.world.processes.programs[HELP] = look

    async def story() -> None:
        _real(lab, remediation)
        lab.slow, lab.codes = 40.0, [5, 0]
        lab.error = "Bootstrap failed to complete: timed out waiting for the condition"
        if done:
            report = await lab.up()
            assert report is not None and report.exit_code == 0
            helped = " | ".join(one for one in report.deviations if one.startswith("helped: "))
            assert "switch ctrl-1 off and on" in helped and "approve the certificate of ctrl-0" in helped
            assert "let the installer wait again" in helped
            assert lab.commands == ["create cluster", "wait-for install-complete"]
        else:
            with pytest.raises(CommandFailed, match="exited with 5"):
                await lab.up()
            assert lab.commands == ["create cluster"]
        assert bool(looked) is (remediation != "off")
        assert all(("--approve" in argv) is done for argv in looked)
        events = [json.loads(line) for line in lab.person.paths.events.read_text().splitlines()]
        applied = [one for one in events if "remedy-applied" in json.dumps(one)]
        assert bool(applied) is done

    lab.person.live(story)
