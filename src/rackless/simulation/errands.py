"""What a person of a story may run: each verb with the words in which it may be refused, and what it may lose.

Whoever asks for something that a host is in no state for is told so, and that is no fault; every other error has to be somebody's.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rackless.cluster.openshift.faults import InstallFault
from rackless.cluster.openshift.report import LineVerdict
from rackless.cluster.reference.kubeconfigs import inner_kubeconfig
from rackless.controllers.event_subscriptions import KIND as SUBSCRIPTION
from rackless.controllers.health.controller import KIND as CHECK
from rackless.controllers.health.controller import POWER_CYCLE, STRATEGY
from rackless.controllers.host_annotations import DETACHED
from rackless.controllers.machines.records import KIND as MACHINE
from rackless.controllers.machines.records import ROLE, SET
from rackless.controllers.pivot import journal
from rackless.controllers.pivot.journal import MovePhase
from rackless.drivers.fake.provisioner import INVENTORY
from rackless.errors import LabError
from rackless.events import Bus
from rackless.installer.twin.site import Wishes
from rackless.operations import (
    access,
    bmcs,
    doctor,
    export,
    expose,
    gather,
    hosts,
    images,
    lab_events,
    pivot,
    remedies,
    runs,
    servers,
    sizing,
    why,
)
from rackless.operations import controllers as standing
from rackless.operations import lab as operations
from rackless.operations.install import cluster as install_cluster
from rackless.operations.install import destroy as install_destroy
from rackless.operations.install import gather as install_gather
from rackless.operations.rehearsal import rehearse
from rackless.operations.workers import scale_workers
from rackless.ports.provisioner import Stranger
from rackless.ports.resources import Conflict, Record
from rackless.protocol.event_stream import EventsWanted
from rackless.protocol.messages import FaultWish
from rackless.provisioning.baremetalhost import KIND, PAUSED, REBOOT
from rackless.provisioning.data_image import KIND as DISC
from rackless.provisioning.firmware import SETTINGS as FIRMWARE
from rackless.simulation.api import Durable, open_objects
from rackless.simulation.cluster import ClusterStory
from rackless.simulation.installer import INSTALLER
from rackless.simulation.person import Person, described
from rackless.spec.images import ImageSpec
from rackless.spec.lab import Role

Work = Callable[["Errands"], Awaitable[object]]

_AWAY = r"does not answer|nobody looks after|there is no lab|is not running|went away"
_STATE = (
    r"only an available one|has not failed|cannot be adopted|would lose what is on it|is being deleted|there is no host"
)
_YET = rf"{_AWAY}|has no .* yet|not running yet|there is no server|has no workers|there are labs|has no server"
_INSTALL = rf"{_YET}|no install was begun"
_MOVE = (
    rf"{_YET}|being worked on|nothing to move|no move is under way|too far to be undone|of these names|cannot be read"
)
_METAL = rf"{_STATE}|{_YET}|nobody has said"
METAL = "rack1-u7"
FIRMWARE_SHOWN: Mapping[str, Mapping[str, Any]] = {
    "ProcVirtualization": {
        "value": "Disabled", "attribute_type": "Enumeration", "allowable_values": ["Enabled", "Disabled"],
        "read_only": False, "unique": False, "reset_required": True,
    },
}  # fmt: skip
ELSEWHERE = "https://192.0.2.9:6443"


@dataclass(frozen=True, slots=True)
class Errand:
    work: Work
    refused: str = ""
    """Words with which it may be refused although nothing is wrong."""
    loses: Callable[[Person], set[str]] = lambda _: set()
    """Hosts that may lose their systems by it."""
    rebuilds: bool = False
    """It is an `up`: what that says has to be so."""
    weight: int = 1


@dataclass
class Errands:
    person: Person
    cluster: ClusterStory
    text: str
    """lab.yaml as it is now."""
    may_lose: set[str]
    standing: list[asyncio.Task[None]] = field(default_factory=list)
    other: Durable | None = None
    """What is in an API elsewhere, where somebody has one."""

    async def run(self, verb: str) -> None:
        errand = ERRANDS[verb]
        self.may_lose |= errand.loses(self.person)
        await errand.work(self)

    # the lab

    async def up(self, *edits: tuple[str, str], goal: str = "cluster", replace: bool = False) -> None:
        for pattern, new in edits:
            self.text = re.sub(pattern, new, self.text, count=1)
        self.person.spec = described(self.text)
        await self.person.up(goal, replace=replace or "*" in self.may_lose)

    async def look(self, name: str, work: Awaitable[object]) -> object:
        async def whole() -> object:
            return await work

        return await self.person.run(name, whole())

    async def tell(self, name: str, work: Callable[[], object]) -> object:
        async def whole() -> object:
            return work()

        return await self.person.run(name, whole())

    # hosts

    async def put(self, host: str, *, replace: bool = False) -> None:
        own = self.person.folder / "own.raw"
        own.write_bytes(bytes(510) + b"\x55\xaa" + bytes(512))
        data = self.person.folder / "own.ign"
        data.write_text('{"ignition": {"version": "3.4.0"}}')
        image, roots, bus = ImageSpec(url=str(own)), self.person.roots, self.person.bus
        work = hosts.provision(self.name, [host], image, roots, bus, user_data=data, replace=replace, wait=True)
        await self.look("provision", work)

    async def adopt(self, host: str, *, own: bool = False) -> None:
        image = None
        if own:
            path = self.person.folder / "own.raw"
            path.write_bytes(bytes(510) + b"\x55\xaa" + bytes(512))
            image = ImageSpec(url=str(path))
        work = hosts.adopt(self.name, [host], image, self.person.roots, self.person.bus, wait=True)
        await self.look("adopt", work)

    async def fault(self, wish: FaultWish, *, clear: bool = True) -> None:
        socket = hosts.lab_socket(self.name, self.person.roots)
        await self.look("fault", hosts.add_fault(socket, wish))
        await self.look("fault", hosts.faults(socket))
        if clear:
            await self.look("fault", hosts.clear_faults(socket, []))

    # looking

    async def hear(self) -> None:
        async def listen() -> int:
            heard = 0
            wanted = EventsWanted(hear=("*",), follow=False)
            async with aclosing(lab_events.lab_events(self.person.paths, wanted)) as events:
                async for _ in events:
                    heard += 1
            return heard

        await self.person.run("events", listen())
        await self.person.run("timeline", lab_events.host_timeline(self.name, self.person.roots))

    async def sit(self, server: str) -> None:
        """At a console: look, type, and go."""

        async def whole() -> None:
            async with servers.console(self.name, server, 5, self.person.roots, self.drivers) as seat:
                if seat.write is not None:
                    seat.write(b"\n")
                await asyncio.sleep(0.1)

        self.person.lab.consoles.servers.update(name for name, _ in self.person.servers())
        await self.person.run("console", whole())
        await self.look("console", servers.look_at_console(self.name, server, 5, self.person.roots))
        await self.look("console", servers.find_terminal(self.name, server, self.person.roots, self.drivers))

    async def ways(self) -> None:
        """Into the lab."""
        roots, first = self.person.roots, self.person.servers()[0][0]
        await self.tell("exec", lambda: access.inside_command(self.name, ["ip", "link"], roots, self.drivers))
        await self.tell("exec", lambda: access.inside_environment(self.name, roots))
        await self.tell("kubeconfig", lambda: access.host_kubeconfig(self.name, roots))
        if any(name.startswith("ctrl") for name, _ in self.person.servers()):
            await self.tell("kubeconfig", lambda: access.cluster_kubeconfig(self.name, roots))
            await self.tell("ssh", lambda: access.ssh_command(self.name, first, ["uptime"], roots))

    async def inventory(self) -> None:
        """Of this computer: its labs, what they take, what they share."""
        roots = self.person.roots
        await self.look("list", operations.list_labs(roots, self.drivers))
        await self.look("list", operations.find_orphans(roots, self.drivers))
        await self.look("images", images.listing(roots, self.drivers))
        await self.look("images", images.verify(roots, Bus(), self.drivers))
        await self.look("images", images.prune(roots, Bus(), self.drivers, dry_run=False))
        await self.tell("size", lambda: sizing.choose_profile(None, roots))
        await self.tell("size", lambda: operations.shared_bytes(roots))
        await self.tell("list", lambda: operations.describe_left(self.name, roots))

    async def pack(self) -> None:
        await self.look("doctor", doctor.examine(self.person.roots, self.drivers))
        target = self.person.folder / "gathered.tar.gz"
        await self.look("gather", gather.gather(self.name, target, self.person.roots, self.drivers))
        await self.tell("owned", lambda: operations.owned(self.name, self.person.roots))
        await self.tell("why", lambda: why.why_archive(target))

    async def ask_why(self) -> None:
        """And have the first thing done about it that can be."""
        answer = await self.person.run("why", why.why_lab(self.name, self.person.roots, self.drivers))
        for finding in answer.findings:
            if finding.fix is not None:
                with suppress(LabError):  # it is another by now, or was tried
                    await self.look(
                        "why", remedies.apply(self.name, finding.fix, self.person.roots, Bus(), self.drivers)
                    )
                return

    async def open_ports(self) -> None:
        """Into the lab, and tell others of it."""
        roots = self.person.roots
        await self.look("expose", expose.expose(self.name, "bmc", roots, self.drivers))
        await self.look("expose", expose.expose(self.name, "ssh", roots, self.drivers, servers=["worker-0"]))
        await self.export(exposed=True)

    async def close_ports(self) -> None:
        await self.look("unexpose", expose.unexpose(self.name, self.person.roots, self.drivers, what="bmc"))
        await self.tell("expose", lambda: expose.exposed(self.name, self.person.roots))

    async def export(self, *, exposed: bool = False) -> None:
        def whole() -> None:
            found = export.select(self.name, self.person.roots, exposed=exposed)
            export.host_records(found, "metal3")
            export.enrolment(found)
            export.inventory(self.name, found, self.person.roots)

        await self.tell("export", whole)

    async def look_at_bmcs(self) -> None:
        roots = self.person.roots
        await self.look("bmc", bmcs.bmcs(self.name, roots))
        await self.look("bmc", bmcs.bmc(self.name, "worker-0", roots))
        await self.look("bmc", bmcs.eject_media(self.name, "spare-0", roots))

    async def strangers(self) -> None:
        """Servers boot the agent that nobody has described, and one that somebody has."""
        known = next(server.mac for server in self.person.described.servers)
        for number, mac in enumerate(("02:00:00:00:09:01", "02:00:00:00:09:02", known, "no address")):
            inventory = {**INVENTORY, "boot": {"pxe_interface": mac}, "interfaces": [{"mac_address": mac}]}
            self.person.lab.provisioner.came.append(Stranger(f"stranger-{number}", inventory))

    # installs

    async def gather_install(self) -> None:
        roots, folder = self.person.roots, self.person.paths.install
        target = self.person.folder / "install.tar.gz"
        await self.look("gather", install_gather.gather_bootstrap(folder, None, target, None, roots, self.drivers))
        await self.look("wait-for", install_cluster.await_bootstrap(folder, None, roots, Bus(), self.drivers))
        await self.look("wait-for", install_cluster.await_install(folder, None, roots, Bus(), self.drivers))

    async def destroy_install(self, *, bootstrap: bool = False) -> None:
        work = install_destroy.destroy_bootstrap if bootstrap else install_destroy.destroy_cluster
        await self.look("destroy", work(self.person.paths.install, None, self.person.roots, Bus(), self.drivers))

    async def rehearse(self, fault: InstallFault | None = None, *, full: bool = False, keep: bool = False) -> None:
        """A site whose twin has the lab's name."""
        folder = self.person.folder
        wanted = rehearse.Wanted(
            folder / "install-config.yaml", folder / INSTALLER, Wishes(self.name), fault, keep=keep, full=full
        )
        work = rehearse.rehearse(wanted, self.person.roots, self.person.bus, self.drivers)
        report = await self.person.run("rehearse", work)
        rehearse.write_report(report, folder / "report")
        if not report.good:
            bad = [f"{one.subject}: {one.saw}" for one in report.findings if one.verdict is LineVerdict.FAILED]
            raise LabError(f"the rehearsal has shown: {'; '.join(bad) or 'not all was reached'}")

    async def switch_on(self) -> None:
        """Control planes with a system that are off, as `why` says it where etcd has no quorum."""
        lab = self.person.lab
        for server in self.person.described.control_planes:
            if server.name in lab.provisioner.disks and server.name not in lab.running():
                await self.person.power("on", server.name)

    # another API

    async def move(self, *, back: bool = False, undo: bool = False) -> None:
        """Hosts and Machines to an API elsewhere, or back."""

        async def work() -> object:
            inner_kubeconfig(self.person.paths)  # as the command says it where there is no API yet
            here, there = self.person.paths.inner_kubeconfig, await self._elsewhere()
            ends = pivot.Ends(there, here) if back else pivot.Ends(here, there)
            return await pivot.pivot(ends, self.drivers.clock, lambda _: None, undo=undo, detach_within=30.0)

        await self.look("pivot", work())

    async def _elsewhere(self) -> Path:
        """An API that nobody's faults reach, and a kubeconfig for it."""
        config = self.person.folder / "elsewhere.kubeconfig"
        if self.other is None:
            self.other = Durable()
            self.person.world.served.places[None, ELSEWHERE] = await open_objects(self.other)
        if not config.exists():
            own = self.person.paths.inner_kubeconfig.read_text()
            config.write_text(re.sub(r"https://[^\s\"]+", ELSEWHERE, own))
        return config

    async def bring_back(self) -> None:
        """What was moved, or half-way: what was begun is ended, and then undone by the way back."""
        for _ in range(4):
            there, here = self._move_of(self.other), self._move_of(self.person.durable())
            if there not in ("", MovePhase.MOVED):
                await self.move(back=True)
            elif here not in ("", MovePhase.MOVED):
                await self.move()
            elif here:
                await self.move(back=True)
            else:
                return

    @staticmethod
    def _move_of(store: Durable | None) -> str:
        """How far a move away from this API is."""
        record = store.records("configmaps").get(journal.NAME) if store is not None else None
        return str((record.get("data") or {}).get("phase")) if record is not None else ""

    # objects

    async def kubectl(self, change: Callable[[Any], Awaitable[object]], *, nodes: bool = False) -> None:
        with suppress(Conflict):  # there is no such object, or another one by now
            await change(self.cluster.connection() if nodes else self.person.kubectl())

    async def check_health(self, strategy: str) -> None:
        annotations = {STRATEGY: POWER_CYCLE} if strategy == POWER_CYCLE else {}
        rules = [{"type": "Ready", "status": status, "timeout": "60s"} for status in ("False", "Unknown")]
        check: Record = {
            "apiVersion": "machine.openshift.io/v1beta1",
            "kind": CHECK,
            "metadata": {"name": "workers", "annotations": annotations},
            "spec": {"selector": {"matchLabels": {ROLE: "worker"}},
                     "unhealthyConditions": rules, "maxUnhealthy": "100%", "nodeStartupTimeout": "20m"},
        }  # fmt: skip
        await self.kubectl(lambda api: api.apply(check))

    async def put_disc(self, host: str) -> None:
        """An ISO into the drive of a host that runs: it is there after the next start."""
        disc: Record = {
            "apiVersion": "metal3.io/v1alpha1",
            "kind": DISC,
            "metadata": {"name": host},
            "spec": {"url": "http://192.0.2.5/data.iso"},
        }
        await self.kubectl(lambda api: api.apply(disc))
        await self.kubectl(lambda api: api.patch(KIND, host, {"metadata": {"annotations": {REBOOT: ""}}}))

    async def subscribe(self, host: str) -> None:
        """To what its BMC tells."""
        subscription: Record = {
            "apiVersion": "metal3.io/v1alpha1",
            "kind": SUBSCRIPTION,
            "metadata": {"name": f"{host}-events"},
            "spec": {"hostName": host, "destination": "https://192.0.2.6/events", "context": "lab"},
        }
        await self.kubectl(lambda api: api.apply(subscription))

    async def set_firmware(self, host: str, value: str) -> None:
        """A setting that the host's BMC has; applied when the host is prepared."""
        await self.kubectl(lambda api: api.patch(FIRMWARE, host, {"spec": {"settings": {"ProcVirtualization": value}}}))

    async def show_firmware(self) -> None:
        """From now on BMCs show settings."""
        self.person.lab.provisioner.bios = FIRMWARE_SHOWN

    async def of_machines(self, change: Callable[[Any, str], Awaitable[object]]) -> None:
        """Something is done to the last Machine of a worker."""
        names = sorted(name for name, found in self.person.records("machines").items() if not _leads(found))
        if names:
            await self.kubectl(lambda api: change(api, names[-1]))

    async def stand_by(self) -> None:
        """Controllers of one's own beside the lab's, several of which one leads."""
        config = self.person.paths.inner_kubeconfig
        for number in range(len(self.standing), len(self.standing) + 2):
            settings = standing.Settings(config, controllers=("health", "node"), identity=f"standing-{number}",
                                         listen=("127.0.0.1", 9100 + number) if not self.standing else None)  # fmt: skip
            work = self.person.run("controllers", standing.run(settings, Bus(), self.drivers))
            self.standing.append(asyncio.get_running_loop().create_task(_quietly(work)))
        await asyncio.sleep(5.0)
        await self.person.run("metrics", _fetch(9100))

    async def tidy(self) -> None:
        """The person takes back what keeps others from their work."""
        for task in self.standing:
            task.cancel()
        for process in self.person.world.processes.named("controllers"):
            self.person.world.processes.kill(process)
        if self.other is not None:
            await self.bring_back()
        api = self.person.kubectl()
        for host, record in self.person.records().items():
            if {PAUSED, DETACHED} & set(record["metadata"].get("annotations") or {}):
                await api.patch(KIND, host, {"metadata": {"annotations": {PAUSED: None, DETACHED: None}}})
            if self.person.installed is not None and not record["spec"].get("online"):
                await api.patch(KIND, host, {"spec": {"online": True}})  # no control plane without it
        if self.person.records("machinehealthchecks"):
            await api.delete(CHECK, "workers")

    @property
    def name(self) -> str:
        return self.person.spec.name

    @property
    def drivers(self) -> Any:
        return self.person.world.drivers()


async def _quietly(work: Awaitable[None]) -> None:
    """However it ends: somebody else leads, the API is away, it was killed."""
    await asyncio.gather(work, return_exceptions=True)


async def _fetch(port: int) -> bytes:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for page in ("metrics", "healthz", "readyz"):
            writer.write(f"GET /{page} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        await asyncio.sleep(1.0)
        writer.close()
        return await reader.read(1 << 16)
    except OSError:
        return b""  # it has ended


def _leads(machine: Record) -> bool:
    return (machine["metadata"].get("labels") or {}).get(ROLE) == "master"


def _movable(person: Person) -> set[str]:
    """Hosts that Machines of a set may have: they come and go."""
    return {server.name for server in person.described.servers if server.role is not Role.CONTROL_PLANE}


def _unless_complete(person: Person) -> set[str]:
    """An install whose bootstrap is taken away too early begins anew."""
    told = person.records("configmaps").get("bootstrap")
    return set() if told is not None and told["data"].get("status") == "complete" else {"*"}


def _power(action: Any, server: str) -> Work:
    return lambda on: on.person.power(action, server)


def _wish(verb: Any, host: str) -> Work:
    return lambda on: on.person.wish(verb, host)


def _annotate(kind: str, name: str, key: str, value: str | None = "") -> Work:
    return lambda on: on.kubectl(lambda api: api.patch(kind, name, {"metadata": {"annotations": {key: value}}}))


async def _beside(on: Errands, works: Sequence[Work]) -> None:
    ended = await asyncio.gather(*(work(on) for work in works), return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error


_WORKER = r"worker: {count: \d"
_ALL: Callable[[Person], set[str]] = lambda _: {"*"}  # noqa: E731

ERRANDS: Mapping[str, Errand] = {
    "up": Errand(lambda on: on.up(), rebuilds=True),
    "up until lab": Errand(lambda on: on.up(goal="lab")),
    "up until bmc": Errand(lambda on: on.up(goal="bmc")),
    "up until hosts": Errand(lambda on: on.up(goal="hosts")),
    "record": Errand(lambda on: on.up((r"$", "\nnetworks: {dns: {records: {registry: 192.168.111.7}}}"))
                     if "networks" not in on.text else on.up(), rebuilds=True),
    "more": Errand(lambda on: on.up((_WORKER, f"worker: {{count: {_count(on.text) + 1}")), rebuilds=True),
    "fewer": Errand(lambda on: on.up((_WORKER, f"worker: {{count: {max(1, _count(on.text) - 1)}"), replace=True),
                    loses=_movable),
    "larger": Errand(lambda on: on.up((_WORKER, f"worker: {{memory: 5GiB, count: {_count(on.text)}")), rebuilds=True),
    "another domain": Errand(lambda on: _another_domain(on), r"cannot become|would lose something"),
    "way out": Errand(lambda on: on.up((r"mode: nat", "mode: nat, reach: ['192.0.2.8:5000']")), rebuilds=True),
    "no way out": Errand(lambda on: on.up((r"mode: nat[^}]*", "mode: none")), rebuilds=True),
    "down": Errand(lambda on: on.person.down(), r"there is no lab", weight=3),
    "destroy": Errand(lambda on: on.person.destroy(), loses=_ALL),
    "destroy orphans": Errand(lambda on: on.look("destroy", operations.destroy_orphans(
        on.person.roots, on.person.bus, on.drivers)), _YET),
    "power off": Errand(_power("off", "worker-0"), _YET, weight=2),
    "power on": Errand(_power("on", "worker-0"), _YET, weight=2),
    "power cycle": Errand(_power("cycle", "worker-0"), _YET),
    "shutdown": Errand(_power("shutdown", "worker-0"), _YET),
    "power of nobody": Errand(_power("on", "moon"), _YET),
    "inspect": Errand(_wish("inspect", "worker-0"), f"{_STATE}|{_YET}"),
    "inspect spare": Errand(_wish("inspect", "spare-0"), f"{_STATE}|{_YET}"),
    "retry": Errand(_wish("retry", "worker-0"), f"{_STATE}|{_YET}", weight=2),
    "clean": Errand(_wish("clean", "worker-0"), f"{_STATE}|{_YET}"),
    "deprovision": Errand(_wish("deprovision", "worker-0"), f"{_STATE}|{_YET}", loses=lambda _: {"worker-0"}, weight=2),
    "deprovision spare": Errand(_wish("deprovision", "spare-0"), f"{_STATE}|{_YET}", loses=lambda _: {"spare-0"}),
    "put": Errand(lambda on: on.put("worker-0", replace=True), f"{_STATE}|{_YET}", loses=lambda _: {"worker-0"}),
    "put on spare": Errand(lambda on: on.put("spare-0"), f"{_STATE}|{_YET}", loses=lambda _: {"spare-0"}, weight=2),
    "adopt": Errand(lambda on: on.adopt("spare-0"), f"{_STATE}|{_YET}", loses=lambda _: {"spare-0"}, weight=2),
    "adopt own": Errand(lambda on: on.adopt("spare-0", own=True), f"{_STATE}|{_YET}", loses=lambda _: {"spare-0"}),
    "scale up": Errand(lambda on: on.look("scale", scale_workers(on.name, 2, on.person.roots)), _YET, _movable, weight=4),
    "scale down": Errand(lambda on: on.look("scale", scale_workers(on.name, 0, on.person.roots)), _YET, _movable, weight=4),
    "bmc fault": Errand(lambda on: on.fault(FaultWish("drop", "worker-0", "power")), f"{_YET}|there is no server"),
    "bad fault": Errand(lambda on: on.fault(FaultWish("melt")), f"{_YET}|there is no trouble"),
    "status": Errand(lambda on: on.person.status(), _YET, weight=2),
    "plan": Errand(lambda on: on.person.plan(), weight=2),
    "hosts": Errand(lambda on: on.look("hosts", hosts.hosts(on.name, on.person.roots)), _YET),
    "events": Errand(lambda on: on.hear(), _YET),
    "console": Errand(lambda on: on.sit("worker-0"), f"{_YET}|has no console"),
    "ways in": Errand(lambda on: on.ways(), f"{_YET}|has no (system|cluster|Kubernetes)"),
    "inventory": Errand(lambda on: on.inventory()),
    "gather": Errand(lambda on: on.pack(), _YET, weight=2),
    "why": Errand(lambda on: on.ask_why(), _YET, weight=2),
    "expose": Errand(lambda on: on.open_ports(), f"{_YET}|No such file"),
    "unexpose": Errand(lambda on: on.close_ports(), _YET),
    "export": Errand(lambda on: on.export(), f"{_YET}|No such file"),
    "bmcs": Errand(lambda on: on.look_at_bmcs(), _YET),
    "compare": Errand(lambda on: on.look("compare", runs.compare_runs(on.name, "1", "-1", on.person.roots)),
                      f"{_YET}|there is none|there are"),
    "uninstall": Errand(lambda on: on.tell("uninstall", lambda: operations.uninstall(on.person.roots)), _YET),
    "controllers": Errand(lambda on: on.stand_by(), f"{_YET}|cannot be read|No such file", weight=3),
    "health by power": Errand(lambda on: on.check_health(POWER_CYCLE), _YET, weight=3),
    "health by another": Errand(lambda on: on.check_health("delete"), _YET, _movable, weight=2),
    "delete machine": Errand(lambda on: on.of_machines(lambda api, name: api.delete(MACHINE, name)), _YET, _movable),
    "delete node": Errand(lambda on: on.kubectl(lambda api: api.delete("Node", "worker-0"), nodes=True), _YET),
    "cordon": Errand(lambda on: on.kubectl(
        lambda api: api.patch("Node", "worker-0", {"spec": {"unschedulable": True}}), nodes=True), f"{_YET}|not found"),
    "delete first": Errand(lambda on: on.kubectl(
        lambda api: api.patch(SET, "workers", {"spec": {"deletePolicy": "Oldest"}})), f"{_YET}|not found"),
    "detach": Errand(_annotate(KIND, "worker-0", DETACHED), f"{_YET}|not found"),
    "reattach": Errand(_annotate(KIND, "worker-0", DETACHED, None), f"{_YET}|not found"),
    "reboot": Errand(_annotate(KIND, "worker-0", REBOOT, '{"mode": "hard"}'), f"{_YET}|not found"),
    "pause": Errand(_annotate(KIND, "worker-0", PAUSED), f"{_YET}|not found"),
    "go on": Errand(_annotate(KIND, "worker-0", PAUSED, None), f"{_YET}|not found"),
    "two ups": Errand(lambda on: _beside(on, (lambda on: on.up(), lambda on: on.up())), r"another rackless is working"),
    "wait": Errand(lambda on: asyncio.sleep(120.0), weight=2),
    # only in plots
    "take metal": Errand(_wish("take", METAL), _METAL, weight=0),
    "inspect metal": Errand(_wish("inspect", METAL), _METAL, weight=0),
    "adopt metal": Errand(lambda on: on.adopt(METAL), _METAL, weight=0),
    "put on metal": Errand(lambda on: on.put(METAL), _METAL, loses=lambda _: {METAL}, weight=0),
    "deprovision metal": Errand(_wish("deprovision", METAL), _METAL, loses=lambda _: {METAL}, weight=0),
    "strangers come": Errand(lambda on: on.strangers(), weight=0),
    "move away": Errand(lambda on: on.move(), _MOVE, weight=0),
    "move back": Errand(lambda on: on.move(back=True), _MOVE, weight=0),
    "take back": Errand(lambda on: on.move(undo=True), _MOVE, weight=0),
    "show firmware": Errand(lambda on: on.show_firmware(), weight=0),
    "set firmware": Errand(lambda on: on.set_firmware("worker-0", "Enabled"), f"{_YET}|not found", weight=0),
    "set firmware wrongly": Errand(lambda on: on.set_firmware("spare-0", "Perhaps"), f"{_YET}|not found", weight=0),
    "put disc": Errand(lambda on: on.put_disc("worker-0"), f"{_YET}|not found", weight=0),
    "take disc": Errand(lambda on: on.kubectl(lambda api: api.delete(DISC, "worker-0")), f"{_YET}|not found", weight=0),
    "subscribe": Errand(lambda on: on.subscribe("worker-0"), f"{_YET}|not found", weight=0),
    "end subscription": Errand(lambda on: on.kubectl(
        lambda api: api.delete(SUBSCRIPTION, "worker-0-events")), f"{_YET}|not found", weight=0),
    "gather install": Errand(lambda on: on.gather_install(), _INSTALL, weight=0),
    "destroy install": Errand(lambda on: on.destroy_install(), _INSTALL, _ALL, weight=0),
    "destroy bootstrap": Errand(lambda on: on.destroy_install(bootstrap=True), _INSTALL, _unless_complete, weight=0),
    "another site's config": Errand(lambda on: _another_site(on), rf"is not for the lab|{_YET}|cannot become|would lose something",
                                    _ALL, weight=0),
    "rehearse": Errand(lambda on: on.rehearse(), weight=0),
    "rehearse and keep": Errand(lambda on: on.rehearse(keep=True), weight=0),
    "rehearse in full": Errand(lambda on: on.rehearse(full=True), weight=0),
    "rehearse a silent bootstrap": Errand(lambda on: on.rehearse(InstallFault.API_NEVER_UP), weight=0),
    "rehearse an interruption": Errand(lambda on: on.rehearse(InstallFault.INTERRUPTED), weight=0),
    "rehearse a bootstrap that goes off": Errand(lambda on: on.rehearse(InstallFault.BOOTSTRAP_OFF, full=True), weight=0),
}  # fmt: skip


def _count(text: str) -> int:
    found = re.search(r"worker: {[^}]*count: (\d)", text)
    return int(found[1]) if found else 1


async def _another_site(on: Errands) -> None:
    """The install-config of a site that the lab is not: the next `up` is without it again."""
    spec = on.person.spec
    config = on.person.folder / "install-config.yaml"
    try:
        on.person.spec = described(on.text.replace("payload:", f"install_config: {config}, payload:"))
        await on.person.up()
    finally:
        on.person.spec = spec


async def _another_domain(on: Errands) -> None:
    """A mistake that is noticed: the next `up` is with the old description again."""
    spec = on.person.spec
    try:
        on.person.spec = described(f"{on.text}\ndomain: other.test")
        await on.person.up()
    finally:
        on.person.spec = spec
