"""One seed, one story: a person runs verbs while things go wrong; then all is well, and the same verbs have to end well.

The seed decides the lab, the verbs, the faults, who of several processes goes on first, and how long everything takes.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rackless.drivers.fake.loop import PROCESS, Dead
from rackless.drivers.fake.processes import WasKilled
from rackless.drivers.fake.script import Call
from rackless.errors import RacklessError, known
from rackless.ports.computer_devices import Device
from rackless.ports.resources import Conflict
from rackless.simulation import invariants
from rackless.simulation.api import prepare_stores
from rackless.simulation.cluster import ClusterStory
from rackless.simulation.disaster import Disaster
from rackless.simulation.disk import FaultyDisk
from rackless.simulation.errands import ERRANDS, Errands
from rackless.simulation.faults import Mishap, draw, explained
from rackless.simulation.installed_servers import InstalledServers
from rackless.simulation.installer import INSTALLER, UsersInstaller
from rackless.simulation.invariants import Situation, Wrong
from rackless.simulation.person import Person, described
from rackless.simulation.plots import PLOTS, RARER_PLOTS, draw_plot
from rackless.simulation.seeded import WallClock, seeded
from rackless.simulation.trace import WRONG, StoryTrace
from rackless.simulation.world import at_this_computer, make_world
from rackless.spec.cluster import Method

PLACES = {"PULL_SECRET": "pull-secret", "SECRET": "secret", "DISKS": "disks", "INSTALLER": INSTALLER, "OC": "oc"}
"""Files in the folder of a story, by what descriptions call them."""
SECRET, DISKS = "SECRET", "DISKS"
TRIES = 6
"""How often a person runs a verb again, when nothing goes wrong any more, before they call it broken."""
PATIENCE = 6 * 3600.0
"""Virtual seconds within which every verb ends, whatever goes wrong."""
MANY = (0, 1, 1, 2, 2, 3, 4, 6)
"""How many faults a story has."""
PLOTTED = 1 / 8
"""The share of stories that have one of the plots."""
RARER = 1 / 20
"""The share of stories that have one of the rarer ones."""
_MIXED = "servers: {ctrl: {role: control-plane, count: 1}, spare: {role: spare, count: 1}, worker: {count: 1}}"
LABS: Mapping[str, int] = {
    "name: lab\nservers: {ctrl: {role: control-plane, count: 3}, worker: {count: 1}}": 3,
    "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, worker: {count: 2}}": 3,
    f"name: lab\n{_MIXED}": 4,
    "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, spare: {role: spare, count: 2}, worker: {count: 1}}": 3,
    "name: lab\nservers: {worker: {count: 2}}": 2,
    f"name: lab\nnetworks: {{uplink: {{mode: nat}}}}\n{_MIXED}": 2,
    "name: lab\nnetworks: {uplink: {mode: nat}}\nservers: {worker: {count: 1}}": 1,
    f"name: lab\nprovisioner: {{url: 'http://192.0.2.1:6385', credentials: {{username: me, password_file: {SECRET}}}}}\n"
    "servers: {worker: {count: 2}}": 2,
    "name: lab\nservers: {worker: {bmc: redfish, count: 1}, old: {bmc: ipmi, firmware: bios}}": 1,
    f"name: lab\nstorage: {DISKS}\nservers: {{spare: {{role: spare, count: 1}}, worker: {{count: 1}}}}": 1,
}
"""Descriptions, and how often each is drawn."""
TOURS: tuple[tuple[str, ...], ...] = (
    (), (), (), ("down",), ("record",), ("more",), ("down", "up"), ("retry",), ("power off", "power on"),
    ("retry", "retry"), ("deprovision", "clean"), ("scale up", "wait", "scale down", "wait"),
    ("put on spare", "deprovision spare"), ("adopt", "deprovision spare"), ("more", "fewer"),
    ("health by power", "wait", "wait"), ("controllers", "wait"), ("put",), ("put", "deprovision"), ("deprovision", "wait"),
    ("put on spare", "up"), ("health by another", "wait", "wait"), ("scale up", "wait", "delete machine", "wait"),
    ("scale up", "wait"), ("controllers", "wait", "wait"), ("why", "wait", "why"), ("expose", "down", "up", "unexpose"),
)  # fmt: skip
"""What people do one after the other."""


DEVICES = {
    one.name: one
    for one in (
        Device("eth1", mtu=9000),
        Device("eth2", up=True, addresses=("192.0.2.5/24",), routes=("default via 192.0.2.1",), managed=True),
        Device("br0", bridge=True, up=True, addresses=("192.0.2.9/24",)),
    )
}
"""Of the computer, where a lab is attached to one."""


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    lab: str
    verbs: tuple[str, ...]
    faults: tuple[Mishap, ...]
    nodes: bool = False
    """Whether the nodes of the cluster have an API of their own, and live in it."""
    again: str = "up"
    """What the person runs again when all faults are over."""


@dataclass
class Outcome:
    scenario: Scenario
    kept: tuple[int, ...]
    wrong: list[str] = field(default_factory=list)
    digest: str = ""
    trace: StoryTrace | None = None


def compose(seed: int) -> Scenario:
    chance = random.Random(f"scenario {seed}")
    for share, plots in ((RARER, RARER_PLOTS), (PLOTTED, PLOTS)):
        if random.Random(f"{'rarer ' if plots is RARER_PLOTS else ''}plot {seed}").random() < share:
            plot = draw_plot(chance, plots)
            planted = draw(chance, chance.choice(MANY), plot.kinds, plot.when)
            return Scenario(seed, plot.lab, plot.verbs, tuple(planted), again=plot.again)
    if chance.random() < 0.5:
        middle = chance.choice(TOURS)
    else:
        middle = tuple(
            chance.choices(list(ERRANDS), [each.weight for each in ERRANDS.values()], k=chance.randint(1, 4))
        )
    verbs = ("up", *middle, *chance.choice(((), ("destroy",))))
    faults = draw(chance, chance.choice(MANY))
    lab = chance.choices(list(LABS), list(LABS.values()))[0]
    return Scenario(seed, lab, verbs, tuple(faults), "ctrl" in lab and chance.random() < 0.5)


def describe_labs() -> None:
    """Read the descriptions that name no folder, which every story has in another place."""
    for text in (*LABS, *(plot.lab for plot in (*PLOTS, *RARER_PLOTS))):
        if not any(place in text for place in PLACES):
            described(text)


def simulate(seed: int, folder: Path, keep: Collection[int] | None = None) -> Outcome:
    """Live through the story of this seed, in an empty folder; with `keep`, with only these of its faults."""
    return live_through(compose(seed), folder, keep)


def live_through(scenario: Scenario, folder: Path, keep: Collection[int] | None = None) -> Outcome:
    kept = tuple(range(len(scenario.faults)) if keep is None else sorted(keep))
    return _Story(scenario, kept, folder).live()


class _Broken(Exception):
    """The story cannot go on."""


class _Story:
    def __init__(self, scenario: Scenario, kept: Sequence[int], folder: Path) -> None:
        prepare_stores()
        chance = random.Random(f"story {scenario.seed}")
        self.outcome = Outcome(scenario, tuple(kept))
        (folder / "secret").write_text("a password\n")
        text = scenario.lab
        for place, file in PLACES.items():
            text = text.replace(place, str(folder / file))
        self.person = Person(folder, make_world(seed=scenario.seed, own_api=True), spec=described(text))
        self.trace = self.outcome.trace = StoryTrace(folder)
        self.wall = WallClock()
        self.disk = FaultyDisk(folder, self.person.roots.state)
        self.order, self.chance = random.Random(chance.random()), random.Random(chance.random())
        self.disaster = Disaster(self.person, self.disk, self.wall, self.chance, self.trace, self._besides)
        self.cluster = ClusterStory(self.person, silent=self.disaster.silent)
        self.machines = self.disaster.machines = InstalledServers(self.person, self.cluster, self.disk.unheard)
        if self.person.spec.cluster.method is Method.IPI:
            self.person.installed = lambda: self.cluster.file
        self.errands = Errands(self.person, self.cluster, text, self.disaster.may_lose)
        self.installer = self.disaster.installer = UsersInstaller(self.person, self.disk.unheard)
        if self._has_installer():
            self.installer.put_files()
        if "attach: " in text:
            devices = self.person.world.devices
            devices.configured, devices.here = dict(DEVICES), dict(DEVICES)
        self.scene = Situation(self.person, self.disaster, self.machines.wire, self.installer)
        self.machines.wire.changed = self._vip_moved
        self.others: list[asyncio.Task[None]] = []
        self.asked: list[str] = []
        """What people have run so far."""
        self.processes = self.person.world.processes.all
        self.person.world.script.listeners.append(self._heard)
        self.person.world.processes.crashed = lambda process, error: self._crashed(process.name, error)
        self.disk.touched = self._touched

    def live(self) -> Outcome:
        chance = random.Random(f"chance {self.outcome.scenario.seed}")
        computer = at_this_computer(self.person.world, self.person.paths)
        machines = self.machines.switched_on() if not self._has_installer() else self.installer.there()
        with seeded(chance, self.wall), computer, machines, self.disk.mounted():
            try:
                self.person.live(self._story, chance=self.order)
            except _Broken:
                pass
            except TimeoutError as error:
                self._wrong("every_wait_ends", str(error))
        assert self.trace is not None
        self.outcome.digest = self.trace.digest()
        return self.outcome

    def _has_installer(self) -> bool:
        return self.installer.payload is not None or self.outcome.scenario.again != "up"

    # the story

    async def _story(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unhandled)
        self.trace.now = self.wall.elapsed = self.disk.now = loop.time
        scenario = self.outcome.scenario
        for index in self.outcome.kept:
            self.disaster.plant(scenario.faults[index])
        if scenario.nodes:
            self.cluster.begin()
        if self.person.installed is not None:
            self.machines.begin()
        for verb in scenario.verbs:
            await self._attempt(verb)
        for other in self.others:
            await other
        self.disaster.calm()
        await asyncio.sleep(30)
        with suppress(RacklessError, Conflict):  # the API may be away, and then the next `up` finds it so
            await self.errands.tidy()
        await self._until_quiet(scenario.again)
        if scenario.again == "up":
            await self._rest()
        else:  # a rehearsal takes its lab away by itself
            self._demand(invariants.AFTER_DESTROY)
        self.disaster.may_lose.add("*")
        await self._until_quiet("destroy")
        self._demand(invariants.AFTER_DESTROY)

    async def _rest(self) -> None:
        await asyncio.sleep(300)
        self._demand(invariants.AT_REST)
        with self.person.world.script.recorded() as calls:
            await self._attempt("up", calm=True)
        if changes := [str(call) for call in calls if call.changed]:
            self._wrong("a_second_up_changes_nothing", f"it did {', '.join(changes[:5])}")

    async def _until_quiet(self, verb: str) -> None:
        for _ in range(TRIES):
            if await self._attempt(verb, calm=True):
                return
            await asyncio.sleep(60)
            if self.errands.other is not None:
                with suppress(RacklessError, Conflict):
                    await self.errands.tidy()
        self._wrong("every_wait_ends", f"{verb} did not end well in {TRIES} tries although nothing goes wrong any more")
        raise _Broken

    async def _attempt(self, verb: str, *, calm: bool = False) -> bool:
        """Run a verb; whether it ended well. An error has to be one that a person can act on, and somebody's fault."""
        self.trace.note("PERSON", f"runs {verb}", notable=True)
        self.asked.append(verb)
        try:
            async with asyncio.timeout(PATIENCE):
                await self.errands.run(verb)
        except TimeoutError:
            self._wrong("every_wait_ends", f"{verb} has not ended after {PATIENCE / 3600:.0f} hours")
            raise _Broken from None
        except (RacklessError, WasKilled) as error:
            self.trace.note("PERSON", f"{verb} failed: {str(error).splitlines()[0]}", notable=True)
            self._blame(verb, f"{verb} was killed" if isinstance(error, WasKilled) else str(error), calm)
            return False
        except Exception as error:
            self._crashed(verb, error)
            return False
        self.trace.note("PERSON", f"{verb} is done", notable=True)
        if ERRANDS[verb].rebuilds:
            self._demand(invariants.AFTER_UP)
        return True

    def _blame(self, verb: str, error: str, calm: bool) -> None:
        """Somebody planted what this error tells of; one that nothing explains leads people astray."""
        kinds = {fault.kind for fault in self.disaster.fired} | {f"asked to {verb}" for verb in self.asked}
        refused = ERRANDS[verb].refused
        if (refused and re.search(refused, error)) or explained(error, kinds) or (calm and self.disaster.fired):
            return
        planted = ", ".join(sorted({fault.kind for fault in self.disaster.fired})) or "nothing"
        asked = ", ".join(dict.fromkeys(self.asked))
        self._wrong(
            "every_error_names_a_planted_cause",
            f"{verb} failed: {error}; that is neither explained by what was planted ({planted}) nor by what was asked ({asked})",
        )

    def _besides(self, verb: str) -> None:
        async def run() -> None:
            await self._attempt(verb)

        self.others.append(asyncio.get_running_loop().create_task(run(), context=Context()))

    # what is looked at

    def _heard(self, call: Call) -> None:
        process = self.processes.get(call.by)
        self.trace.note(process.title if process else "-", f"changed: {call}" if call.changed else str(call))
        self.scene.call = call
        if call.changed:
            self._demand(invariants.AFTER_EVERY_CHANGE)
        else:
            self._demand(invariants.BEFORE_CALLS_OF.get(call.port, invariants.BEFORE_EVERY_CALL))

    def _vip_moved(self) -> None:
        self.trace.note("VIP", f"held by {', '.join(self.machines.wire.holders())}")
        self._demand(invariants.AFTER_THE_VIP_MOVED)

    def _touched(self, method: str, path: str) -> None:
        """Somebody is about to write a file: a moment to be killed in; and the dead write nothing."""
        if (owner := PROCESS.get()) is None:
            return
        if owner.alive:
            self.person.world.script.touch("disk", method, path)
        if not owner.alive:
            raise Dead

    def _demand(self, demands: Sequence[Callable[[Situation], Wrong]]) -> None:
        for demand in demands:
            for why in demand(self.scene):
                self._wrong(demand.__name__, why)

    def _wrong(self, demand: str, why: str) -> None:
        told = f"{demand}: {why}".replace(str(self.person.folder), "~")
        if told not in self.outcome.wrong:
            self.outcome.wrong.append(told)
            self.trace.note(WRONG, told, notable=True)

    def _crashed(self, who: str, error: Exception) -> None:
        if known(error) is not None:  # as the command line shows it
            self.trace.note("PERSON", f"{who} failed: {known(error)}", notable=True)
        else:
            self._wrong("every_error_is_one_a_person_can_act_on", f"{who} ended with {error!r}")

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(error := context.get("exception"), Exception):
            self._crashed(str(context.get("message")), error)
