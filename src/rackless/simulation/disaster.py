"""Faults at work: what each kind does to the world of a story, and how all of them end when the story calms down."""

from __future__ import annotations

import asyncio
import errno
import random
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from rackless.controllers.machines.records import KIND as MACHINE
from rackless.controllers.machines.records import SET
from rackless.drivers.fake import provisioner as fake
from rackless.drivers.fake.api import AnswerLost
from rackless.drivers.fake.loop import VirtualLoop
from rackless.drivers.fake.script import Rule
from rackless.errors import CommandFailed, LabError, RacklessError
from rackless.ports.api import ApiConnection
from rackless.ports.hypervisor import Power, Unreachable
from rackless.ports.nodes import NodesUnreachable
from rackless.ports.resources import Conflict
from rackless.provisioning.baremetalhost import INSPECT, KIND, REBOOT, RETRY
from rackless.simulation.api import Strayed
from rackless.simulation.disk import NO_ROOM, READ_ONLY, FaultyDisk
from rackless.simulation.faults import PROGRAMS, Mishap
from rackless.simulation.installed_servers import BOOTSTRAP, InstalledServers
from rackless.simulation.installer import INSTALLER, STAGE, UsersInstaller
from rackless.simulation.person import Person
from rackless.simulation.seeded import WallClock
from rackless.simulation.trace import FAULT, StoryTrace

COMMANDS = ("up", "rehearse")
"""What a person runs that takes long, as processes."""
ERRORS: Mapping[str, Callable[[], BaseException]] = {
    "hypervisor": lambda: Unreachable("planted: libvirt's connection broke"),
    "networks": lambda: Unreachable("planted: libvirt's connection broke"),
    "links": lambda: LabError("planted: netlink refused"),
    "api": AnswerLost,
    "provisioner": lambda: LabError("planted: the engine's connection broke"),
    "processes": lambda: CommandFailed(["planted"], 1, "planted: it failed"),
    "disk": lambda: OSError(errno.EIO, "planted: the disk failed"),
    "nodes": lambda: NodesUnreachable("planted: no answer"),
}
"""What the real driver of each port raises when its outside does not answer."""


@dataclass
class Disaster:
    person: Person
    disk: FaultyDisk
    wall: WallClock
    chance: random.Random
    trace: StoryTrace
    besides: Callable[[str], None]
    """Has the person run another command at the same time."""
    machines: InstalledServers | None = None
    """Of a cluster that installs itself."""
    installer: UsersInstaller | None = None
    fired: list[Mishap] = field(default_factory=list)
    restarted: int = 0
    labelled: dict[str, tuple[str, set[str]]] = field(default_factory=dict)
    """Hosts that a person was told to have labelled: which object that was, by its uid, and its labels then."""
    _edits: int = 0
    silent: set[str] = field(default_factory=set)
    """Nodes of which nothing is heard although their servers run."""
    may_lose: set[str] = field(default_factory=set)
    """Hosts of which somebody asked that they lose their system."""

    def plant(self, fault: Mishap) -> None:
        rule = Rule(fault.pattern, skip=fault.nth - 1)
        act = getattr(self, f"_{re.sub('[^a-z]', '_', fault.kind.lower())}")

        def happen() -> None:
            self.fired.append(fault)
            self.trace.note(FAULT, str(fault), notable=True)
            act(fault, rule)

        rule.then = happen
        if fault.kind in ("fail", "lose the answer"):
            rule.error = ERRORS[fault.pattern.partition(".")[0]]
            rule.lost = fault.kind == "lose the answer"
        if fault.kind == "fail unexpectedly":
            rule.error = lambda: KeyError("planted")
        if fault.kind in ("request comes late", "request is doubled"):
            rule.error = lambda: Strayed(fault.amount, doubled=fault.kind == "request is doubled")
        if fault.kind in ("delay", "hang", "answer comes late"):
            rule.seconds = fault.amount
            rule.lost = fault.kind == "answer comes late"
        if fault.kind == "restart the computer":
            self.disk.expect_cut()
        self.person.world.script.rules.append(rule)

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self.person.world.script.rules.clear()
        self.disk.refuses, self.disk.slow = 0, 0.0
        self.disk.expect_no_cut()
        for lab in self.person.world.labs.values():
            lab.provisioner.faults.clear()
            lab.provisioner.hung.clear()
            lab.provisioner.lying.clear()
            lab.hypervisor.deaf.clear()
        self.silent.clear()
        if self.machines is not None:
            self.machines.release_away = False
        if self.installer is not None:
            self.installer.fails = 0
        self.trace.note("STORY", "all faults are over", notable=True)

    # who dies

    def _kill(self, fault: Mishap, _: Rule) -> None:
        self._end(*COMMANDS if fault.subject == "up" else (PROGRAMS[fault.subject],))

    def _end(self, *programs: str) -> None:
        for name in programs:
            for process in self.person.world.processes.named(name):
                self.person.world.processes.kill(process)

    def _kill_dnsmasq(self, _: Mishap, __: Rule) -> None:
        self.person.lab.networks.serving.clear()

    def _restart_the_computer(self, fault: Mishap, _: Rule) -> None:
        """The power fails some writes later."""
        self.person.world.script.rules.append(Rule("disk.*", skip=int(fault.amount), then=self._cut))

    def _cut(self) -> None:
        self.restarted += 1
        with self.disk.unheard():
            self.person.world.restart_computer(self.person.roots.run)
            lost = self.disk.cut(self.chance)
        self.trace.note(FAULT, f"the power fails; lost: {', '.join(lost) or 'nothing'}", notable=True)

    # what ports do

    def _fail(self, _: Mishap, __: Rule) -> None: ...

    _lose_the_answer = _delay = _hang = _answer_comes_late = _fail_unexpectedly = _request_comes_late = (
        _request_is_doubled
    ) = _fail

    def _connection_breaks(self, _: Mishap, __: Rule) -> None:
        alive = [process for process in self.person.world.processes.all.values() if process.alive]
        open_ones = [end for process in alive for end in process.connections if not end.is_closing()]
        if open_ones:
            self.chance.choice(open_ones).break_off()

    # the computer

    def _disk_full(self, fault: Mishap, _: Rule) -> None:
        self._refuse_writes(NO_ROOM, fault.amount)

    def _disk_read_only(self, fault: Mishap, _: Rule) -> None:
        self._refuse_writes(READ_ONLY, fault.amount)

    def _refuse_writes(self, code: int, seconds: float) -> None:
        self.disk.refuses = code
        _later(seconds, lambda: setattr(self.disk, "refuses", 0))

    def _disk_slow(self, fault: Mishap, _: Rule) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.disk.slow, self.disk.stall = fault.amount, loop.stall
        _later(60.0, lambda: setattr(self.disk, "slow", 0.0))

    def _clock_jumps(self, fault: Mishap, _: Rule) -> None:
        self.wall.jumped += fault.amount

    # the metal

    def _bmc_lies_about_power(self, fault: Mishap, _: Rule) -> None:
        self.person.lab.provisioner.lying.add(fault.subject)

    def _host_hangs(self, fault: Mishap, _: Rule) -> None:
        self.person.lab.provisioner.hung.add(fault.subject)

    def _work_fails(self, fault: Mishap, _: Rule) -> None:
        work, host = fault.subject.split()
        self.person.lab.provisioner.faults.append(fake.Fault(work, host, f"planted: {work} failed", int(fault.amount)))

    def _engine_forgets(self, _: Mishap, __: Rule) -> None:
        self.person.lab.provisioner.forget()

    def _server_goes_off(self, fault: Mishap, _: Rule) -> None:
        hypervisor = self.person.lab.hypervisor
        if fault.subject in hypervisor._servers and hypervisor._servers[fault.subject].power is Power.ON:
            hypervisor.guest_stops(fault.subject)

    def _server_is_deaf(self, fault: Mishap, _: Rule) -> None:
        self.person.lab.hypervisor.deaf.add(fault.subject)

    # an install

    def _bootstrap_goes_off(self, _: Mishap, __: Rule) -> None:
        if self.machines is not None:
            self.machines.goes_off(self.machines.all.get(BOOTSTRAP))

    def _bootstrap_reboots(self, _: Mishap, __: Rule) -> None:
        if self.machines is not None:
            self.machines.bootstrap_reboots()

    def _bootstrap_s_program_dies(self, fault: Mishap, _: Rule) -> None:
        if self.machines is not None:
            self.machines.dies(fault.subject)

    def _the_vip_s_holder_goes_off(self, _: Mishap, __: Rule) -> None:
        if self.machines is not None:
            self.machines.goes_off(self.machines.holder())

    def _release_server_is_away(self, fault: Mishap, _: Rule) -> None:
        """Neither the bootstrap nor the hosts' agents can fetch from it."""
        machines = self.machines
        if machines is not None:
            machines.release_away = True
            _later(fault.amount, lambda: setattr(machines, "release_away", False))
            for host, _spare in self.person.servers():
                told = "planted: the release server does not answer"
                self.person.lab.provisioner.faults.append(fake.Fault("provision", host, told))

    # a user's installer

    def _installer_dies(self, _: Mishap, __: Rule) -> None:
        self._end(INSTALLER)

    def _stage_dies(self, _: Mishap, __: Rule) -> None:
        self._end(STAGE)

    def _installer_fails(self, fault: Mishap, _: Rule) -> None:
        if self.installer is not None:
            self.installer.fails = int(fault.amount)

    def _installer_s_machine_goes_off(self, _: Mishap, __: Rule) -> None:
        if self.installer is not None:
            self.installer.switch_off()

    # people

    def _ctrl_c(self, _: Mishap, __: Rule) -> None:
        for command in COMMANDS:
            for process in self.person.world.processes.named(command):
                self.person.world.processes.signal(process, 2)

    def _another_up(self, _: Mishap, __: Rule) -> None:
        self.besides("up")

    def _another_destroy(self, _: Mishap, __: Rule) -> None:
        self.may_lose |= {"*"}
        self.besides("destroy")

    def _status(self, _: Mishap, __: Rule) -> None:
        self.besides("status")

    def _plan(self, _: Mishap, __: Rule) -> None:
        self.besides("plan")

    def _object_edited(self, fault: Mishap, _: Rule) -> None:
        edit, host = fault.subject.split()
        changes: Mapping[str, dict[str, Any]] = {
            "inspect": {"metadata": {"annotations": {INSPECT: ""}}},
            "reboot": {"metadata": {"annotations": {REBOOT: ""}}},
            "retry": {"metadata": {"annotations": {RETRY: ""}}},
            "label": {"metadata": {"labels": {f"edited-{self._next()}": ""}}},
            "offline": {"spec": {"online": False}},
            "online": {"spec": {"online": True}},
        }

        async def write(api: ApiConnection) -> None:
            record = await api.patch(KIND, host, changes[edit])
            if edit == "label":
                self._acknowledged(host, record)

        self._at_the_api(host, write)

    def _next(self) -> int:
        self._edits += 1
        return self._edits

    def _acknowledged(self, host: str, record: Mapping[str, Any]) -> None:
        """All that a person has written and is told to be there."""
        self.labelled[host] = (record["metadata"]["uid"], {*record["metadata"]["labels"]})

    def _somebody_edits(self, fault: Mishap, rule: Rule) -> None:
        """Somebody labels hosts again and again, each time that anybody else is about to read one, and keeps an eye on that."""
        script = self.person.world.script

        def edit(host: str) -> None:
            async def write(api: ApiConnection) -> None:
                change = {"metadata": {"labels": {f"edited-{self._next()}": ""}}}
                self._acknowledged(host, await api.patch(KIND, host, change))

            if host in self.person.records():
                self._at_the_api(host, write)

        for host in self.person.records():
            edit(host)

        def read() -> None:
            assert script.current is not None
            edit(script.current.subject.split()[1])

        script.rules.append(Rule("api.get baremetalhosts *", then=read, times=int(fault.amount)))

    def _object_deleted(self, fault: Mishap, _: Rule) -> None:
        self.may_lose.add(fault.subject)
        self._at_the_api(fault.subject, lambda api: api.delete(KIND, fault.subject))

    def _machine_deleted(self, _: Mishap, __: Rule) -> None:
        names = sorted(name for name in self.person.records("machines") if name.startswith("worker"))
        if names:
            self.may_lose |= self._movable()
            self._at_the_api(names[0], lambda api: api.delete(MACHINE, names[0]))

    def _scaled(self, fault: Mishap, _: Rule) -> None:
        self.may_lose |= self._movable()
        change = {"spec": {"replicas": int(fault.amount)}}
        self._at_the_api("workers", lambda api: api.patch(SET, "workers", change))

    def _movable(self) -> set[str]:
        return {name for name, _ in self.person.servers() if not name.startswith("ctrl")}

    def _node_falls_silent(self, fault: Mishap, _: Rule) -> None:
        self.silent.add(fault.subject)

    def _at_the_api(self, host: str, work: Callable[[ApiConnection], Any]) -> None:
        async def write() -> None:
            with suppress(RacklessError, Conflict):  # the API may be away, and the host not written down
                await work(self.person.kubectl())

        asyncio.get_running_loop().create_task(write(), context=Context())


def _later(seconds: float, work: Callable[[], None]) -> None:
    """Whoever is killed meanwhile."""
    asyncio.get_running_loop().call_later(seconds, work, context=Context())
