"""The machines of a cluster that installs itself, in a story: the bootstrap machine and the control planes after it.

What their units run is the real thing: manifests, metal3 with its Lease and controllers, the hand-over and the joining. Virtual are
systemd, etcd's members, Ironic and the wires between them. A machine is on while its server is; a unit that fails is started again.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

from rackless.api.objects.operations import Objects
from rackless.cluster.bootstrap import pulling
from rackless.cluster.bootstrap.membership import EtcdPeer, EtcdRefused
from rackless.cluster.bootstrap.taking_over import MACHINE_CONFIGS, METAL3_KUBECONFIG
from rackless.cluster.bootstrap.telling import Tell, render_line
from rackless.drivers.fake.loop import PROCESS, VirtualLoop
from rackless.drivers.fake.processes import FakeProcess
from rackless.drivers.fake.script import Call
from rackless.drivers.fake.world import LoopClock
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.errors import LabError, RacklessError
from rackless.installer.assets.ignition import services
from rackless.installer.assets.ignition.bootstrap_units import LOOPBACK_KUBECONFIG, ROOT
from rackless.installer.assets.ignition.front import VIP_UNIT
from rackless.lab.api_forward import host_url
from rackless.lab.files import PORT as FILES_PORT
from rackless.operations.bootstrap import handover as bootstrap_handover
from rackless.operations.bootstrap import leading as bootstrap_leading
from rackless.operations.bootstrap import parts as bootstrap_parts
from rackless.ports.api import Access
from rackless.ports.process import Child, Processes
from rackless.ports.resources import Conflict
from rackless.simulation.api import SENDER, Durable, open_objects
from rackless.simulation.cluster import ClusterStory
from rackless.simulation.person import Person
from rackless.simulation.vip import VipKeeper, Wire
from rackless.spec.address import IpInterface

BOOTSTRAP = "bootstrap"
IRONIC = "metal3-ironic"
"""As a process: labd's own has another name."""
DISC = "-bootstrap.iso"
LOOK_EVERY = 5.0
STARTS_AGAIN = 5.0
"""Seconds after which systemd starts a unit again that failed."""
Work = Callable[[], Coroutine[Any, Any, None]]


@dataclass
class InstalledServer:
    name: str
    root: Path
    """Its disk."""
    address: str
    log: Path | None = None
    """Where its console goes."""
    units: dict[str, FakeProcess] = field(default_factory=dict)
    on: bool = False
    etcd: bool = False
    api: bool = False
    engine: bool = False
    """Its Ironic answers."""
    keeper: VipKeeper | None = None
    """Its `rackless-vip`, while that runs."""
    works: dict[str, Work] = field(default_factory=dict)
    """What each unit runs."""

    @property
    def place(self) -> bootstrap_handover.Place:
        return bootstrap_handover.Place.inside(self.root)


@dataclass
class InstalledServers:
    person: Person
    cluster: ClusterStory
    quiet: Callable[[], AbstractContextManager[None]]
    """What is written meanwhile is a machine's own matter, and not this computer's disk's."""
    all: dict[str, InstalledServer] = field(default_factory=dict)
    members: list[EtcdPeer] = field(default_factory=list)
    objects: Objects | None = None
    wire: Wire = field(default_factory=Wire)
    """On which the VIP is."""
    release_away: bool = False
    """Nobody reaches what labd serves for an install."""
    _ids: int = 0

    # who is on

    def begin(self) -> None:
        self.person.world.served.ways.append(self._way)
        self.person.world.script.listeners.append(self._heard)
        asyncio.get_running_loop().create_task(self._live(), context=Context())

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            self._look()
            if self._quorum() and self.objects is None:
                self.objects = await open_objects(self.cluster.file)
            elif not self._quorum() and self.objects is not None:
                self.objects.hub.close()
                self.objects = None
            if self.objects is not None:
                await self._nodes()

    async def _nodes(self) -> None:
        for name, _ in self.person.servers():
            if self.person.lab.answers(name) and name in self.all and name not in self.cluster.silent:
                try:
                    await self.cluster.live_as(name)
                except (RacklessError, Conflict):
                    continue
                if name in self.cluster.records("nodes"):
                    with self.quiet():
                        _put(self.all[name].place.certificate, b"as agents keep it")

    def _heard(self, call: Call) -> None:
        if call.changed and call.port == "hypervisor":
            self._look()
        if call.changed and call.port == "provisioner" and call.method == "provision" and self.all:
            self._written(call.subject)

    def _look(self) -> None:
        lab = self.person.lab
        running = lab.running()
        carrier = self._carrier()
        if carrier is not None and BOOTSTRAP not in self.all:
            self._begin_bootstrap(carrier[0])
        if BOOTSTRAP in self.all and carrier is None:
            self._end(self.all.pop(BOOTSTRAP))
            shutil.rmtree(self._place(BOOTSTRAP), ignore_errors=True)
        for machine in list(self.all.values()):
            runs = self._server(machine) in running
            booted = machine.name == BOOTSTRAP or lab.answers(machine.name)
            if machine.on and not runs:
                self._end(machine)
            elif not machine.on and runs and booted:
                self._start(machine)

    def _server(self, machine: InstalledServer) -> str | None:
        if machine.name != BOOTSTRAP:
            return machine.name
        carrier = self._carrier()
        return carrier[0] if carrier is not None else None

    def _carrier(self) -> tuple[str, Path] | None:
        """The server that is or has the bootstrap machine, and where its config is: in a VM's firmware, or on a disc."""
        hypervisor = self.person.lab.hypervisor
        for name, server in hypervisor._defined.items():
            if server.ignition is not None:
                return name, server.ignition
        for name, state in hypervisor._servers.items():
            if state.media is not None and state.media.name.endswith(DISC):
                return name, state.media
        return None

    def _place(self, name: str) -> Path:
        return self.person.folder / "machines" / name

    def _begin_bootstrap(self, server: str) -> None:
        """Another cluster: what an earlier one left is nobody's."""
        for machine in self.all.values():
            self._end(machine)
        self.all.clear()
        self.members.clear()
        self.wire.begin_anew()
        with self.quiet():
            shutil.rmtree(self.person.folder / "machines", ignore_errors=True)
        self.person.lab.provisioner.disks.clear()
        self.cluster.file = Durable()
        plan = self.person.described
        own = next((str(each.address) for each in plan.servers if each.name == server), str(plan.gateway.ip + 200))
        machine = InstalledServer(BOOTSTRAP, self._place(BOOTSTRAP), own, self.person.paths.console(server))
        self.all[BOOTSTRAP] = machine
        self._member(machine)

    def _written(self, server: str) -> None:
        """A system of this cluster was put on a server's disk."""
        if server in self.all:
            self._end(self.all[server])
        with self.quiet():
            shutil.rmtree(self._place(server), ignore_errors=True)
        address = next(str(each.address) for each in self.person.described.servers if each.name == server)
        self.all[server] = InstalledServer(server, self._place(server), address)

    def _start(self, machine: InstalledServer) -> None:
        machine.on = True
        if machine.name == BOOTSTRAP:
            with self.quiet():
                _put(self._pid_file(), b"1")
        if machine.name == BOOTSTRAP or self._is_control_plane(machine.name):
            self._unit(machine, "boot", lambda: self._boot(machine))

    def _end(self, machine: InstalledServer) -> None:
        self._halt(machine)
        if machine.name == BOOTSTRAP:
            with self.quiet():
                for path in (*self._pid_file().parent.glob("*-bootstrap.pid"), self._pid_file()):
                    path.unlink(missing_ok=True)

    def _halt(self, machine: InstalledServer) -> None:
        machine.on = machine.etcd = machine.api = False
        self._stop_keeper(machine, said=False)
        for process in machine.units.values():
            self.person.world.processes.kill(process)
        machine.units.clear()

    def _pid_file(self) -> Path:
        name = self._server(self.all[BOOTSTRAP]) if BOOTSTRAP in self.all else None
        return self.person.paths.inner_run / "libvirt/qemu" / f"{name}.pid"

    def _is_control_plane(self, name: str) -> bool:
        return any(server.name == name for server in self.person.described.control_planes)

    # what runs there

    def _unit(self, machine: InstalledServer, name: str, work: Work) -> None:
        """As systemd runs it; it ends with its machine."""
        processes = self.person.world.processes
        if (running := machine.units.get(name)) is not None:
            processes.kill(running)
        machine.works[name] = work

        async def program(_: FakeProcess) -> int:
            while True:
                try:
                    await work()
                    return 0
                except RacklessError as error:
                    self._tell(
                        machine, {"unit": name, "ended": str(error)[:300]} if name == "boot" else {"failed": str(error)}
                    )
                except (OSError, Conflict, SystemExit) as error:
                    self._tell(machine, {"unit": name, "ended": str(error)[:300]})
                await asyncio.sleep(STARTS_AGAIN)

        network = str(self.person.paths.netns)
        process = FakeProcess(next(processes._pids), (f"{machine.name}:{name}",), None, env={"MACHINE": machine.name},
                              network=network)  # fmt: skip
        machine.units[name] = processes._begin(program, process)

    def _tell(self, machine: InstalledServer, what: Mapping[str, Any]) -> None:
        if machine.log is not None:
            with self.quiet(), machine.log.open("a") as console:
                console.write(f"{render_line(what)}\n")

    async def _boot(self, machine: InstalledServer) -> None:
        if machine.name == BOOTSTRAP:
            await asyncio.sleep(20.0)
            await self._boot_bootstrap(machine)
        elif (machine.place / "/etc/rackless/control-plane.json").exists():
            for name in ("etcd.service", "rackless-api.service", VIP_UNIT, services.METAL3):
                self._started(machine, name)
        else:
            await self._boot_new(machine)

    async def _boot_bootstrap(self, machine: InstalledServer) -> None:
        carrier = self._carrier()
        assert carrier is not None
        config = json.loads(carrier[1].read_text())
        if not (machine.place / ROOT).exists():
            with self.quiet():
                _unpack(config, machine.root)
        machine.etcd = machine.api = True
        if not (machine.root / "disabled").exists():
            self._start_keeper(machine)
        root, place = machine.place / ROOT, machine.place
        kubeconfig = place / LOOPBACK_KUBECONFIG

        def tell(what: Mapping[str, Any]) -> None:
            self._tell(machine, what)

        async def fetch() -> None:
            tell({"phase": "payload", "url": "http://lab"})
            await self._pull(machine, tell)
            tell({"phase": "payload mounted", "fetched": True, "bytes": 1})
            if not (machine.root / "disabled").exists():
                self._metal3(machine, kubeconfig, whole=False)

        self._unit(machine, "payload", fetch)
        self._unit(machine, "manifests", lambda: bootstrap_parts.apply_manifests(root, kubeconfig, tell))
        vip = self.person.described.api_vip
        assert vip is not None
        self._unit(machine, "hand-over", lambda: bootstrap_handover.hand_over(root, vip, tell, place))

    async def _pull(self, machine: InstalledServer, tell: Tell) -> None:
        """The payload, in as much time as it takes."""
        await asyncio.sleep(15.0)
        image = machine.root / "var/lib/rackless/payload.img"
        await pulling.pull("http://lab", "", image, LoopClock(), tell)

    def _fetched(self, _: str, __: str, scratch: Path, ___: object) -> str:
        """From the release server, which is labd."""
        self.person.world.script.touch("release", "fetch", "payload")
        place = (str(self.person.paths.netns), str(self.person.described.gateway.ip), FILES_PORT)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        if self.release_away or place not in loop.places:
            return "OSError: nobody answers"
        with self.quiet():
            _put(scratch, b"payload")
        return ""

    async def _boot_new(self, machine: InstalledServer) -> None:
        """Its config comes from a machine-config server."""
        found = self._rendered()
        if not found:
            raise LabError("no machine-config server answers")
        with self.quiet():
            _unpack(json.loads(found), machine.root)
        plan = self.person.described
        assert plan.api_vip is not None
        vip = plan.api_vip
        domain = plan.servers[0].fqdn.partition(".")[2]
        self._unit(machine, "join", lambda: bootstrap_handover.join(
            plan.name, domain, vip, lambda what: self._tell(machine, what), machine.place))  # fmt: skip

    def _rendered(self) -> str:
        for machine in self.all.values():
            for folder in (f"{ROOT}/machine-config", MACHINE_CONFIGS):
                path = machine.place / f"{folder}/master.ign"
                if machine.api and path.exists():
                    return path.read_text()
        return ""

    def _metal3(self, machine: InstalledServer, kubeconfig: Path, *, whole: bool) -> None:
        tell = lambda what: self._tell(machine, what)  # noqa: E731
        words = (machine.place / f"/etc/systemd/system/{services.METAL3}").read_text().split()
        provisioning = words[words.index("--provisioning") + 1] if "--provisioning" in words else ""
        self._unit(machine, "metal3", lambda: bootstrap_leading.run_metal3(
            kubeconfig, Path("/opt/payload"), "cluster0", tell, provisioning=provisioning, whole=whole))  # fmt: skip

    def control(self, machine: InstalledServer, words: tuple[str, ...]) -> None:
        """`systemctl`."""
        if "restart" in words:
            for name in words[words.index("--no-block") + 1 :]:
                self._started(machine, name)
        if "disable" in words:
            with self.quiet():
                _put(machine.root / "disabled", b"")
            if VIP_UNIT in words:
                self._stop_keeper(machine, said=True)
            if services.METAL3 in words and (running := machine.units.pop("metal3", None)) is not None:
                self.person.world.processes.signal(running, 15)

    def _started(self, machine: InstalledServer, name: str) -> None:
        if name == "etcd.service":
            machine.etcd = True
            self.members = [
                EtcdPeer(each.id, machine.name, each.peer, each.learner) if each.peer == _peer(machine) else each
                for each in self.members
            ]
        elif name == "rackless-api.service":
            machine.api = True
        elif name == VIP_UNIT:
            self._start_keeper(machine)
        elif name == services.METAL3:
            self._metal3(machine, machine.place / METAL3_KUBECONFIG, whole=True)

    # what happens to them

    def bootstrap_reboots(self) -> None:
        """Its disk stays, and its emulator; the next look finds it started."""
        if BOOTSTRAP in self.all:
            self._halt(self.all[BOOTSTRAP])

    def goes_off(self, machine: InstalledServer | None) -> None:
        server = self._server(machine) if machine is not None else None
        if machine is not None and machine.on and server is not None:
            self.person.lab.hypervisor.guest_stops(server)

    def dies(self, program: str) -> None:
        """A program of the bootstrap machine is killed; systemd, or whoever looks after it there, starts it again."""
        machine = self.all.get(BOOTSTRAP)
        if machine is None or not machine.on:
            return
        if program == "ironic":
            for process in self.person.world.processes.named(IRONIC):
                if self._machine_of(process) is machine:
                    self.person.world.processes.kill(process)
        elif program in ("etcd", "api"):
            if getattr(machine, program):
                setattr(machine, program, False)
                if self.objects is not None:
                    self.objects.hub.close()  # whoever watched is cut off
                    self.objects = None
                _later(STARTS_AGAIN, lambda: self._comes_back(machine, program))
        elif (running := machine.units.get(program)) is not None and running.alive:
            self.person.world.processes.kill(running)
            _later(STARTS_AGAIN, lambda: self._restarts(machine, program, running))

    def _comes_back(self, machine: InstalledServer, program: str) -> None:
        if machine.on:
            setattr(machine, program, True)

    def _restarts(self, machine: InstalledServer, unit: str, dead: FakeProcess) -> None:
        if machine.on and machine.units.get(unit) is dead:
            self._unit(machine, unit, machine.works[unit])

    # the VIP

    def _start_keeper(self, machine: InstalledServer) -> None:
        self._stop_keeper(machine, said=True)
        keeper = machine.keeper = VipKeeper(
            machine.name, lambda: machine.api and self._quorum(), lambda: self._votes(machine), self.wire
        )
        self._unit(machine, "vip", keeper.run)

    def _stop_keeper(self, machine: InstalledServer, *, said: bool) -> None:
        if machine.keeper is not None:
            machine.keeper.end(said=said)
            machine.keeper = None
        if (running := machine.units.pop("vip", None)) is not None:
            self.person.world.processes.kill(running)

    # etcd

    def _quorum(self) -> bool:
        voters = [each for each in self.members if not each.learner]
        answering = {_peer(one) for one in self.all.values() if one.etcd}
        return sum(each.peer in answering for each in voters) > len(voters) // 2

    def _votes(self, machine: InstalledServer) -> bool:
        own = [each for each in self.members if each.peer == _peer(machine) and not each.learner]
        return machine.etcd and bool(own) and self._quorum()

    def _member(self, machine: InstalledServer, *, learner: bool = False) -> EtcdPeer:
        self._ids += 1
        made = EtcdPeer(str(self._ids), "" if learner else machine.name, _peer(machine), learner)
        self.members.append(made)
        return made

    # the wires

    def here(self) -> InstalledServer:
        """The machine of whoever asks."""
        found = self._machine_of(PROCESS.get() or SENDER.get())
        assert found is not None, "nobody on a machine asks"
        return found

    def _machine_of(self, process: object) -> InstalledServer | None:
        while isinstance(process, FakeProcess):
            if "MACHINE" in process.env:
                return self.all[process.env["MACHINE"]]
            process = process.parent
        return None

    def at(self, url: str) -> InstalledServer | None:
        """The machine that this URL leads to."""
        host = _host(url)
        plan = self.person.described
        if host in ("127.0.0.1", "localhost"):
            return self.here()
        if host == str(plan.api_vip) or host.startswith(("api.", "api-int.")):
            return self.holder()
        if host.startswith("bootstrap."):
            return self.all.get(BOOTSTRAP)
        return next((one for one in self.all.values() if one.address == host), None)

    def holder(self) -> InstalledServer | None:
        """Of the VIP."""
        return next((one for one in self.all.values() if one.keeper is not None and one.keeper.holds), None)

    def _way(self, network: object, url: str) -> Objects | None:
        if network is None:  # the holder's door on the computer's own loopback
            found = self.holder()
            if found is None or url != host_url(self.person.paths.cluster_port):
                return None
            if not self.person.world.processes.named("rackless.holder.main"):
                return None
        else:
            found = self.at(url)
        return self.objects if found is not None and found.api and self._quorum() else None

    async def ready(self, url: str, _: Access) -> bool:
        await self.person.world.script.meet("api", "ready", url)
        return self._way(str(self.person.paths.netns), url) is not None

    @contextmanager
    def switched_on(self) -> Iterator[None]:
        """While this lasts, what is started on a machine finds that machine."""
        world, netns = self.person.world, str(self.person.paths.netns)

        def resources(access: Access, *, namespace: str, clock: object, patience: float = 1e9) -> KubernetesResources:
            return world.served.open(netns, access, LoopClock(), patience, namespace=namespace)

        def client(access: Access, _: object, patience: float) -> Any:
            return world.served.open(netns, access, LoopClock(), patience)._client

        uname, state = os.uname(), InstalledFolder(self, "var/lib/rackless/metal3")
        name = lambda: os.uname_result((uname[0], self.here().name, *uname[2:]))  # noqa: E731
        handover, metal3 = "rackless.operations.bootstrap.handover", "rackless.operations.bootstrap.metal3"
        leading = "rackless.operations.bootstrap.leading"
        with ExitStack() as swapped:
            for module in (handover, leading, metal3, "rackless.operations.bootstrap.parts"):
                swapped.enter_context(patch(f"{module}.SystemClock", LoopClock))
            for module in (handover, leading, metal3):
                swapped.enter_context(patch(f"{module}.LocalProcesses", lambda: world.processes))
            for module in (handover, leading):
                swapped.enter_context(patch(f"{module}.KubernetesResources", resources))
            for module in (handover, "rackless.operations.bootstrap.parts"):
                swapped.enter_context(patch(f"{module}.Client", client))
            swapped.enter_context(patch(f"{handover}.EtcdMembership", lambda url, _: StoryEtcd(self, url)))
            swapped.enter_context(patch(f"{handover}._is_ready", self.ready))
            swapped.enter_context(patch("rackless.cluster.bootstrap.pulling._fetch", self._fetched))
            swapped.enter_context(
                patch(f"{metal3}.IronicService", lambda *given, **more: StoryIronic(self, *given, **more))
            )
            swapped.enter_context(patch(f"{metal3}.IronicProvisioner", lambda *_, **__: self.person.lab.provisioner))
            swapped.enter_context(patch(f"{leading}.Leader", world.leader))
            swapped.enter_context(patch(f"{metal3}.STATE", state))
            swapped.enter_context(patch(f"{metal3}.write_trusting", lambda _, __, target: _put(target, b"")))
            swapped.enter_context(patch("os.uname", name))
            world.processes.programs |= {"env": self._systemctl, "ip": self._ip, IRONIC: self._ironic}
            yield

    async def _systemctl(self, process: FakeProcess) -> int:
        self.control(self.here(), process.argv)
        if "start" in process.argv and services.PAYLOAD in process.argv:  # waited for, and again when it fails
            while True:
                with suppress(RacklessError):
                    await self._pull(self.here(), lambda _: None)
                    return 0
                await asyncio.sleep(STARTS_AGAIN)
        return 0

    async def _ironic(self, process: FakeProcess) -> int:
        machine = self.here()

        def ends() -> None:
            machine.engine = False
            self.person.lab.provisioner.running = any(one.engine for one in self.all.values())

        process.at_end.append(ends)
        machine.engine = self.person.lab.provisioner.running = True
        await asyncio.get_running_loop().create_future()
        return 0

    async def _ip(self, process: FakeProcess) -> int:
        words = process.argv
        if "-json" not in words:  # asked for the evidence of the lab's own networks
            process.say("as ip says it")
            return 0
        machine = self.here()
        if "route" in words:
            process.say(json.dumps([{"dev": "cluster0", "prefsrc": machine.address}]))
        elif "link" in words:
            server = self.person.described.server(self._server(machine) or "")
            nics = server.nics if server is not None else ()
            process.say(json.dumps([{"ifname": f"eth{at}", "address": nic.mac} for at, nic in enumerate(nics)]))
        else:
            address = _configured(machine, words[-1]) or ip_interface(f"{machine.address}/24")
            info = {"local": str(address.ip), "prefixlen": address.network.prefixlen}
            process.say(json.dumps([{"addr_info": [info]}]))
        return 0


@dataclass(frozen=True)
class InstalledFolder:
    """A folder that every machine has at the same place."""

    machines: InstalledServers
    path: str

    def _here(self) -> Path:
        return self.machines.here().root / self.path

    def __truediv__(self, name: str) -> Path:
        return self._here() / name

    def mkdir(self, **how: Any) -> None:
        self._here().mkdir(**how)


@dataclass
class StoryEtcd:
    """`cluster.bootstrap.membership.EtcdMembership`, by whom the URL leads to."""

    machines: InstalledServers
    url: str

    async def __aenter__(self) -> StoryEtcd:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def members(self) -> list[EtcdPeer]:
        await self._reach("list")
        return list(self.machines.members)

    async def add_learner(self, peer: str) -> EtcdPeer:
        await self._reach("add")
        if any(each.learner for each in self.machines.members):
            raise EtcdRefused("etcd refused to add a member", why="too many learner members in cluster")
        (machine,) = [one for one in self.machines.all.values() if _peer(one) == peer]
        return self.machines._member(machine, learner=True)

    async def promote(self, member: EtcdPeer) -> None:
        await self._reach("promote")
        self._change(member, EtcdPeer(member.id, member.name, member.peer, False))

    async def remove(self, member: EtcdPeer) -> None:
        await self._reach("remove")
        self._change(member)

    def _change(self, member: EtcdPeer, *by: EtcdPeer) -> None:
        members = self.machines.members
        where = next((index for index, each in enumerate(members) if each.id == member.id), None)
        if where is None:
            raise EtcdRefused("etcd refused", why="member not found")
        members[where : where + 1] = by

    async def _reach(self, what: str) -> None:
        await self.machines.person.world.script.meet("etcd", what)
        found = self.machines.at(self.url)
        if found is None or not found.etcd or not self.machines._quorum():
            raise EtcdRefused("etcd does not answer")


@dataclass
class StoryIronic:
    """`drivers.ironic.service.IronicService`: one engine for all machines, of whoever started it last."""

    machines: InstalledServers
    config: Any
    environment: Path
    processes: Processes
    log: Path
    _child: Child | None = None

    async def start(self, within: float) -> None:
        await asyncio.sleep(3.0)
        if not (self.config.state / "ironic.sqlite").exists():
            _put(self.config.state / "ironic.sqlite", b"")
            self.machines.person.lab.provisioner.forget()
        self._child = await self.processes.start([IRONIC], log=self.log)

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop(within=15.0)


def _configured(machine: InstalledServer, interface: str) -> IpInterface | None:
    """What networkd is told of one of its NICs."""
    for path in (machine.place / "/etc/systemd/network").glob("*.network"):
        lines = path.read_text().splitlines()
        if f"Name={interface}" in lines:
            return ip_interface(next(line for line in lines if line.startswith("Address=")).partition("=")[2])
    return None


@lru_cache(64)
def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _peer(machine: InstalledServer) -> str:
    return _peer_url(machine.address)


@lru_cache(64)
def _peer_url(address: str) -> str:
    return f"https://{ip_address(address)}:2380"


def _later(seconds: float, work: Callable[[], None]) -> None:
    """Whoever ends meanwhile."""
    asyncio.get_running_loop().call_later(seconds, work, context=Context())


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _unpack(config: Mapping[str, Any], root: Path) -> None:
    """What Ignition would write."""
    for each in config["storage"]["files"]:
        _put(root / each["path"].lstrip("/"), base64.b64decode(each["contents"]["source"].partition("base64,")[2]))
    for unit in config["systemd"]["units"]:
        _put(root / "etc/systemd/system" / unit["name"], unit.get("contents", "").encode())
