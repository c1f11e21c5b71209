"""The user's openshift-install in a story: its bootstrap machine, what it leaves in the lab's libvirt, the stage beside it, and the
cluster that stands there afterwards.

What runs the installer and follows it is the real thing: `up` with `method: openshift`, `rehearse` with its twin, the report, the
help that a real install gets. Virtual are the installer itself, virsh, and what the stage and its stand-in serve on real sockets.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from rackless.cluster.openshift.faults import InstallFault
from rackless.cluster.openshift.helping import BOOTSTRAPPER, CLIENT
from rackless.cluster.openshift.progress import describe_install
from rackless.controllers.nodes.judging import NODE, NODES
from rackless.diagnosis.installer_run import LOG
from rackless.drivers.fake.processes import FakeProcess
from rackless.drivers.fake.resources import MemoryResources
from rackless.errors import RacklessError
from rackless.images.catalogue import BootstrapIso
from rackless.operations.openshift import help as openshift_help
from rackless.operations.rehearsal.stage import CONFIG
from rackless.ports.provisioner import Image
from rackless.run.files import write, write_secret
from rackless.simulation.cluster import a_key
from rackless.simulation.person import Person
from rackless.spec.cluster import InstallPayload, Method
from rackless.trust.requests import make_request

INSTALLER = "openshift-install"
STAGE = "rackless.operations.rehearsal.stage"
HELP = "rackless.operations.openshift.help"
VM = "bootstrap-machine"
"""The emulator of the installer's machine, as a process."""
MACHINE = "lab-abcde-bootstrap"
"""What the installer calls its machine in libvirt, and its storage pool."""
BOOTS_SECONDS, API_SECONDS, INSTALLS_SECONDS = 20.0, 40.0, 60.0
"""What the machine takes to boot, then to serve its API, then for each server."""
PATIENCE = {"api": 1200.0, "bootstrapping": 3600.0, "initialize": 2400.0}
"""How long the installer waits."""
SYSTEM = Image("http://192.0.2.5/node.qcow2", "0" * 64)
SITE = """\
apiVersion: v1
baseDomain: rackless.test
metadata: {name: lab}
networking: {machineNetwork: [{cidr: 10.20.30.0/24}]}
controlPlane: {name: master, replicas: 3}
compute: [{name: worker, replicas: 0}]
pullSecret: '{"auths":{"nowhere.invalid":{"auth":"c2VjcmV0LXNlY3JldA=="}}}'
platform:
  baremetal:
    apiVIPs: [10.20.30.5]
    ingressVIPs: [10.20.30.4]
    provisioningNetwork: Disabled
    hosts:
"""
HOST = """\
    - name: master-{number}
      role: master
      bootMACAddress: 0c:42:a1:00:6d:0{number}
      bmc: {{address: 'redfish-virtualmedia://192.168.112.1{number}/redfish/v1/Systems/1', username: me, password: secret-{number}}}
"""
KUBECONFIG: dict[str, Any] = {
    "clusters": [{"name": "lab", "cluster": {"server": "https://api.lab.rackless.test:6443", "certificate-authority-data": ""}}],
    "contexts": [{"name": "admin", "context": {"cluster": "lab", "user": "admin"}}],
    "current-context": "admin",
    "users": [{"name": "admin", "user": {}}],
}  # fmt: skip


class _Refused(Exception):
    """The installer ends, with this code and for this reason."""


@dataclass
class UsersInstaller:
    person: Person
    quiet: Callable[[], AbstractContextManager[None]]
    """What is written meanwhile is the installer's own matter, and not this computer's disk's."""
    fails: int = 0
    """The code with which it ends at its next step."""
    reached: dict[int, str] = field(default_factory=dict)
    """How far its machine came, by the pid of its emulator."""
    players: list[FakeProcess] = field(default_factory=list)
    """Who stands in for the cluster of a quick rehearsal."""
    setting: dict[str, Any] = field(default_factory=dict)
    """What its last stage was told."""
    mac: str = ""
    """Of its machine, as the install-config says."""

    def put_files(self) -> None:
        folder = self.person.folder
        (folder / INSTALLER).write_text("")
        (folder / INSTALLER).chmod(0o755)
        (folder / "oc").write_text("")
        (folder / "oc").chmod(0o755)
        (folder / "pull-secret").write_text('{"auths": {"nowhere.invalid": {"auth": "c2VjcmV0LXNlY3JldA=="}}}')
        hosts = "".join(HOST.format(number=number) for number in range(3))
        (folder / "install-config.yaml").write_text(SITE + hosts)

    @contextmanager
    def there(self) -> Iterator[None]:
        """While this lasts, the programs are on the computer, and what takes minutes to build is a small file."""

        async def iso(*_: object) -> BootstrapIso:
            return BootstrapIso(self.person.folder / "live.iso", "0" * 64, 4096, "key")

        async def root(_: object, target: Path, __: object) -> None:
            write(target, b"root")

        release = "rackless.operations.rehearsal.release"
        with ExitStack() as swapped:
            for module in ("openshift.lab", "rehearsal.rehearse"):
                swapped.enter_context(patch(f"rackless.operations.{module}.prepare_rehearsal", iso))
            swapped.enter_context(patch(f"{release}.extract_root", root))
            self.person.world.processes.programs |= {
                INSTALLER: self._installer,
                STAGE: self._stage,
                HELP: self._helps,
                "virsh": self._virsh,
            }
            yield

    # what is demanded of it

    @property
    def payload(self) -> InstallPayload | None:
        """Of the lab's cluster; None where nobody but rehearsals runs an installer."""
        cluster = self.person.spec.cluster
        return cluster.openshift.payload if cluster.method is Method.OPENSHIFT else None

    def lacking(self, *, at_rest: bool = False) -> Iterator[str]:
        """What an `up` has promised and is not so."""
        if self.payload is None:
            return
        told = describe_install(self.person.paths, self.person.world.processes)
        if told is None or told.state != "complete":
            yield f"up is done, and the install is {told.state if told is not None else 'not begun'}"
        elif at_rest and self._cluster() is None:
            yield "the cluster does not answer"

    # the programs

    async def _installer(self, process: FakeProcess) -> int:
        words = process.argv
        if not self._enter(process):
            return 1
        if words[-1] == "version":
            process.say(f"{INSTALLER} 4.22.3")
            return 0
        folder = Path(words[words.index("--dir") + 1])
        interrupted = asyncio.Event()
        process.handlers[2] = interrupted.set
        work = asyncio.ensure_future(self._run(process, folder, create="create" in words))
        stopped = asyncio.ensure_future(interrupted.wait())
        await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
            self._say(process, folder, "received interrupt signal", "error")
            return 8
        stopped.cancel()
        try:
            await work
        except _Refused as refused:
            code, why = refused.args
            self._say(process, folder, why, "error")
            return int(code)
        return 0

    async def _run(self, process: FakeProcess, folder: Path, *, create: bool) -> None:
        self.setting = json.loads((Path(process.env["HOME"]) / "stage.json").read_text())
        self._say(process, folder, f"Running: {INSTALLER} {'create cluster' if create else 'wait-for'}", "debug")
        if create:
            await self._create(process, folder)
        self._say(process, folder, "Waiting up to 40m0s for the cluster to initialize...")
        await asyncio.sleep(10.0)  # operators take their time, whoever answers
        await self._wait("initialize", lambda: self._cluster() is not None, 6, "failed to initialize the cluster")
        await self._step("complete")
        self._say(process, folder, "Install complete!")
        self._say(process, folder, 'Login to the console with user: "kubeadmin", and password: "very-secret-indeed"')

    async def _create(self, process: FakeProcess, folder: Path) -> None:
        config = folder / "install-config.yaml"
        if config.exists():
            await self._step("config")
            self._say(process, folder, "Consuming Install Config from target directory")
            metal = yaml.safe_load(config.read_text())["platform"]["baremetal"]
            self.mac = str(metal.get("externalMACAddress") or "52:54:00:00:00:01").lower()
            with self.quiet():
                (folder / "auth").mkdir(exist_ok=True)
                (folder / "auth/kubeconfig").write_text(yaml.safe_dump(KUBECONFIG))
                (folder / "metadata.json").write_text("{}")
                config.unlink()
            self._say(process, folder, "Creating infrastructure resources...")
            await self._step("infrastructure")
            if self._defined():
                raise _Refused(4, f"failed to create bootstrap: storage pool '{MACHINE}' already exists")
            self._define(True)
            self._switch_on()
        elif not (folder / "metadata.json").exists():
            raise _Refused(3, "there is no install-config")
        self._say(
            process, folder, "Waiting up to 20m0s for the Kubernetes API at https://api.lab.rackless.test:6443..."
        )
        await self._wait("api", lambda: self._is("api", "complete"), 5, "Bootstrap failed: the API does not answer")
        self._say(process, folder, "API v1.35.0 up")
        self._say(process, folder, "Waiting up to 1h0m0s for bootstrapping to complete...")
        await self._wait(
            "bootstrapping", lambda: self._is("complete"), 5, "Bootstrap failed to complete: timed out waiting for it"
        )
        self._say(process, folder, "Destroying the bootstrap resources...")
        await self._step("destroying")
        self.switch_off()
        self._define(False)

    async def _step(self, name: str) -> None:
        await self.person.world.script.meet("installer", name)
        if self.fails:
            code, self.fails = self.fails, 0
            raise _Refused(code, f"planted: the installer failed at {name}")

    async def _wait(self, what: str, done: Callable[[], bool], code: int, why: str) -> None:
        await self._step(what)
        try:
            async with asyncio.timeout(PATIENCE[what]):
                while not done():
                    if what != "initialize" and not self._runs() and not self._installs():
                        raise _Refused(1, "its bootstrap machine is off")
                    await asyncio.sleep(2.0)
        except TimeoutError:
            raise _Refused(code, why) from None

    def _say(self, process: FakeProcess, folder: Path, message: str, level: str = "info") -> None:
        told = message.replace('"', '\\"')
        with self.quiet(), suppress(FileNotFoundError):  # a lab that is taken away takes the folder along
            process.say(f'level={level} msg="{told}"')
            with (folder / LOG).open("a") as log:
                log.write(f'time="2026-01-01T00:00:00Z" level={level} msg="{told}"\n')

    async def _stage(self, process: FakeProcess) -> int:
        if not self._enter(process):
            return 1
        if "--kubeconfig" in process.argv:
            if (found := self._cluster()) is not None:
                process.say(json.dumps(found))
            return int(found is None)
        setting = json.loads(Path(process.argv[-1]).read_text())
        if "--stand-in" in process.argv:
            if not (Path(setting["folder"]) / CONFIG).exists():
                return 1
            self.players.append(process)
        else:
            self._tell(process, {"iso": "http://127.0.0.1:1/rehearsal.iso"} if setting["iso"] else {})
            self._tell(process, {"phase": "stage ready"})
            await self._play(process, setting)
        await asyncio.get_running_loop().create_future()
        return 0

    async def _play(self, process: FakeProcess, setting: dict[str, Any]) -> None:
        """What the stage tells of the machine, and of the cluster after it."""
        while not self._runs():  # noqa: ASYNC110
            await asyncio.sleep(1.0)
        self._tell(process, {"phase": "bootstrap machine runs", "machine": MACHINE})
        if setting["remember"]:
            with self.quiet():
                write_secret(Path(setting["folder"]) / CONFIG, "{}")
        told: set[str] = set()
        while self._runs():
            for phase, words in self._words(setting).items():
                if phase not in told and self._is(phase, "api", "complete"):
                    told.add(phase)
                    for one in words:
                        self._tell(process, one)
            if "api" in told and setting["fault"] == InstallFault.BOOTSTRAP_OFF:
                self._tell(process, {"fault": setting["fault"]})
                self.switch_off()
                if setting["release"]:
                    self._tell(process, {"waits": "its bootstrap machine, which is off", "in_vain": True})
            if "booted" in told and setting["fault"] == InstallFault.API_NEVER_UP and "vain" not in told:
                told.add("vain")
                self._tell(process, {"waits": "the API, which is not to come", "in_vain": True})
            await asyncio.sleep(1.0)
        self._tell(process, {"phase": "bootstrap machine gone"})
        if not self._installs():
            self.players.append(process)

    def _words(self, setting: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
        """What it tells once the machine is as far."""
        if not setting["iso"]:
            return {}
        inner: list[dict[str, Any]] = [
            {"phase": "booted", "ignition_bytes": 4711},
            {"phase": "network", "address": "10.20.30.99/24", "interface": "eth0", "mac": self.mac, "name": "bootstrap"},
            {"names": [{"name": "api.lab.rackless.test", "good": True, "saw": "10.20.30.5", "wanted": "10.20.30.5"},
                       {"name": "10.20.30.99", "good": True, "saw": "bootstrap", "wanted": "a name"}]},
            {"vip": "10.20.30.5", "free": True},
            {"bmc": "master-0", "good": True, "saw": "account accepted"},
        ]  # fmt: skip
        server: dict[str, Any] = {
            "machine_config": {"url": "https://api-int:22623/config/master", "good": True, "saw": "200"}
        }
        full: list[dict[str, Any]] = [
            {"installs": {"phase": "manifests applied"}},
            {"installs": {"subject": "host/ctrl-0", "begun": "inspecting"}},
            {"installs": {"phase": "provisioning network", "address": "172.22.0.2"}},
            {"installs": {"machine-config": "master", "to": "10.20.30.20"}},
            {"installs": {"phase": "hands over"}},
        ]
        return {"booted": [{"bootstrap": one} for one in inner], "api": full if setting["release"] else [server]}

    def _tell(self, process: FakeProcess, what: dict[str, Any]) -> None:
        if what:
            with self.quiet(), suppress(FileNotFoundError):
                process.say(json.dumps(what))

    async def _helps(self, process: FakeProcess) -> int:
        """In a real install: a host whose inspection came too late, and a node that asks for its certificate."""
        servers = sorted(json.loads(process.argv[process.argv.index(HELP) + 2]))
        api = MemoryResources()
        status = {"operationalStatus": "error", "errorMessage": "Timeout reached", "errorCount": 1}
        await api.create(
            {"apiVersion": "metal3.io/v1alpha1", "kind": openshift_help.HOST, "metadata": {"name": servers[0]}}
        )
        await api.patch(openshift_help.HOST, servers[0], {"status": status}, status=True)
        asked = make_request(a_key(), f"{NODE}{servers[-1]}", [NODES])
        spec = {"request": asked, "signerName": CLIENT, "username": BOOTSTRAPPER, "usages": ["client auth"]}
        kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
        await api.create({**kind, "metadata": {"name": "csr-1"}, "spec": spec})
        process.say(
            json.dumps(
                await openshift_help.look(api, dict.fromkeys(servers, servers), approves="--approve" in process.argv)
            )
        )
        return 0

    async def _virsh(self, process: FakeProcess) -> int:
        lab = self.person.lab
        if not self._enter(process) or not lab.hypervisor.reachable:
            return 1
        words = [word for word in process.argv[process.argv.index("virsh") + 1 :] if not word.startswith("--q")]
        found: list[str] = []
        match words:
            case ["list", "--name"]:
                found = [*lab.running(), *([MACHINE] if self._runs() else [])]
            case ["list", "--all", "--name"]:
                found = [*lab.hypervisor._defined, *([MACHINE] if self._defined() else [])]
            case ["pool-list", *_]:
                found = ["default", *([MACHINE] if self._defined() else [])]
            case ["vol-list", *_]:
                found = [" live-iso  /x/live-iso"]
            case ["destroy", name] if name == MACHINE:
                self.switch_off()
            case ["pool-undefine", name] if name == MACHINE:
                self._define(False)
            case ["destroy" | "undefine", name, *_] if name in lab.hypervisor._defined:
                await lab.hypervisor.retire(name)  # nobody should: a server of the lab's own
            case [*_]:
                pass
        for line in found:
            process.say(line)
        return 0

    # its machine

    def _switch_on(self) -> None:
        processes = self.person.world.processes
        network = str(self.person.paths.netns)
        machine = FakeProcess(next(processes._pids), (VM, MACHINE), None, network=network, outlives=True)
        processes._begin(self._machine, machine)

    def switch_off(self) -> None:
        """Its machine, as by a power cut."""
        for process in self.person.world.processes.named(VM):
            self.person.world.processes.kill(process)

    async def _machine(self, process: FakeProcess) -> int:
        await asyncio.sleep(BOOTS_SECONDS)
        self.reached[process.pid] = "booted"
        if self.setting["fault"] != InstallFault.API_NEVER_UP:
            await asyncio.sleep(API_SECONDS)
            self.reached[process.pid] = "api"
            for server in self._installs():
                await self._install(server)
            await asyncio.sleep(INSTALLS_SECONDS)
            self.reached[process.pid] = "complete"
        await asyncio.get_running_loop().create_future()
        return 0

    async def _install(self, server: str) -> None:
        """By its Ironic, which tries again."""
        lab = self.person.lab
        while True:
            try:
                await lab.hypervisor.power_off(server)
                await asyncio.sleep(INSTALLS_SECONDS)
                lab.provisioner.disks[server] = SYSTEM
                await lab.hypervisor.power_on(server)
            except RacklessError:
                await asyncio.sleep(5.0)
            else:
                return

    def _installs(self) -> list[str]:
        """The servers that get a system; none in a quick rehearsal."""
        quick = self.setting["iso"] and not self.setting["release"]
        return [] if quick else list(self.person.lab.hypervisor._defined)

    def _runs(self) -> bool:
        return bool(self.person.world.processes.named(VM))

    def _is(self, *phases: str) -> bool:
        """Whether the machine that runs came so far."""
        return any(self.reached.get(process.pid) in phases for process in self.person.world.processes.named(VM))

    # what stays

    @property
    def _left(self) -> Path:
        """Libvirt's description of its machine and pool."""
        return self.person.paths.state / "installers-machine.xml"

    def _defined(self) -> bool:
        return self._left.exists()

    def _define(self, there: bool) -> None:
        with self.quiet():
            if there:
                write(self._left, MACHINE)
            else:
                self._left.unlink(missing_ok=True)

    def _cluster(self) -> dict[str, Any] | None:
        """What its API says; None where nobody answers."""
        names = [name for name in self.person.lab.provisioner.disks if self.person.lab.answers(name)]
        if not names and not any(process.alive for process in self.players):
            return None
        return {
            "server": "https://api.lab.rackless.test:6443",
            "available": "True",
            "nodes": dict.fromkeys(names, True),
            "hosts": dict.fromkeys(names, "provisioned"),
        }

    def _enter(self, process: FakeProcess) -> bool:
        """Whether a program that is started by `nsenter` is in the lab: its target has to be there."""
        target = next((word for word in process.argv if word.startswith("--target=")), "")
        if target:
            holder = self.person.world.processes.all.get(int(target.partition("=")[2]))
            if holder is None or not holder.alive:
                return False
            process.network = holder.network
        return True
