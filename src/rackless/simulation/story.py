"""One seed, one story: a person runs verbs while things go wrong; then all is well, and the same verbs have to end well.

The seed decides the lab, the verbs, the faults, who of several processes goes on first, and how long everything takes.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Collection, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rackless.drivers.fake.loop import PROCESS, Dead
from rackless.drivers.fake.processes import WasKilled
from rackless.drivers.fake.script import Call
from rackless.errors import RacklessError, known
from rackless.simulation import invariants
from rackless.simulation.disaster import Disaster
from rackless.simulation.disk import FaultyDisk
from rackless.simulation.faults import Mishap, draw, explained
from rackless.simulation.invariants import Situation, Wrong
from rackless.simulation.person import Person
from rackless.simulation.seeded import WallClock, seeded
from rackless.simulation.trace import StoryTrace
from rackless.simulation.world import looked_at_once, make_world
from rackless.spec.load import parse

TRIES = 6
"""How often a person runs a verb again, when nothing goes wrong any more, before they call it broken."""
PATIENCE = 6 * 3600.0
"""Virtual seconds within which every verb ends, whatever goes wrong."""
LABS = (
    "name: lab\nservers: {ctrl: {role: control-plane, count: 3}, worker: {count: 1}}",
    "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, worker: {count: 2}}",
    "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, spare: {role: spare, count: 1}, worker: {count: 1}}",
    "name: lab\nservers: {worker: {count: 2}}",
)
REFUSABLE = ("retry", "clean", "inspect")
"""Wishes that a host may be in no state for."""
RECORD = "\nnetworks: {dns: {records: {registry: 192.168.111.7}}}"


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    lab: str
    verbs: tuple[str, ...]
    faults: tuple[Mishap, ...]


@dataclass
class Outcome:
    scenario: Scenario
    kept: tuple[int, ...]
    wrong: list[str] = field(default_factory=list)
    digest: str = ""
    trace: StoryTrace | None = None


def compose(seed: int) -> Scenario:
    chance = random.Random(f"scenario {seed}")
    middle = [(), (), (), ("down",), ("record",), ("more",), ("down", "up"),
              ("retry",), ("power off", "power on"), ("retry", "retry"), ("deprovision", "clean")]  # fmt: skip
    verbs = ("up", *chance.choice(middle), *chance.choice(((), ("destroy",))))
    faults = draw(chance, chance.choice((0, 1, 1, 2, 2, 3, 4, 6)))
    return Scenario(seed, chance.choice(LABS), verbs, tuple(faults))


def simulate(seed: int, folder: Path, keep: Collection[int] | None = None) -> Outcome:
    """Live through the story of this seed, in an empty folder; with `keep`, with only these of its faults."""
    scenario = compose(seed)
    kept = tuple(range(len(scenario.faults)) if keep is None else sorted(keep))
    return _Story(scenario, kept, folder).live()


class _Broken(Exception):
    """The story cannot go on."""


class _Story:
    def __init__(self, scenario: Scenario, kept: Sequence[int], folder: Path) -> None:
        chance = random.Random(f"story {scenario.seed}")
        self.outcome = Outcome(scenario, tuple(kept))
        self.person = Person(folder, make_world(seed=scenario.seed, own_api=True), spec=parse(scenario.lab, "lab.yaml"))
        self.trace = self.outcome.trace = StoryTrace(folder)
        self.wall = WallClock()
        self.disk = FaultyDisk(folder, self.person.roots.state)
        self.order, self.chance = random.Random(chance.random()), random.Random(chance.random())
        self.disaster = Disaster(self.person, self.disk, self.wall, self.chance, self.trace, self._besides)
        self.scene = Situation(self.person, self.disaster)
        self.text = scenario.lab
        self.others: list[asyncio.Task[None]] = []
        self.person.world.script.listeners.append(self._heard)
        self.person.world.processes.crashed = lambda process, error: self._crashed(process.name, error)
        self.disk.touched = self._touched

    def live(self) -> Outcome:
        chance = random.Random(f"chance {self.outcome.scenario.seed}")
        with seeded(chance, self.wall), looked_at_once(), self.disk.mounted():
            try:
                self.person.live(self._story, chance=self.order)
            except _Broken:
                pass
            except TimeoutError as error:
                self._wrong("every_wait_ends", str(error))
        assert self.trace is not None
        self.outcome.digest = self.trace.digest()
        return self.outcome

    # the story

    async def _story(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unhandled)
        self.trace.now = self.wall.elapsed = loop.time
        scenario = self.outcome.scenario
        for index in self.outcome.kept:
            self.disaster.plant(scenario.faults[index])
        for verb in scenario.verbs:
            await self._attempt(verb)
        for other in self.others:
            await other
        self.disaster.calm()
        await asyncio.sleep(30)
        await self._until_quiet("up")
        await asyncio.sleep(300)
        self._demand(invariants.AT_REST)
        with self.person.world.script.recorded() as calls:
            await self._attempt("up", calm=True)
        if changes := [str(call) for call in calls if call.changed]:
            self._wrong("a_second_up_changes_nothing", f"it did {', '.join(changes[:5])}")
        self.disaster.may_lose.add("*")
        await self._until_quiet("destroy")
        self._demand(invariants.AFTER_DESTROY)

    async def _until_quiet(self, verb: str) -> None:
        for _ in range(TRIES):
            if await self._attempt(verb, calm=True):
                return
            await asyncio.sleep(60)
        self._wrong("every_wait_ends", f"{verb} did not end well in {TRIES} tries although nothing goes wrong any more")
        raise _Broken

    async def _attempt(self, verb: str, *, calm: bool = False) -> bool:
        """Run a verb; whether it ended well. An error has to be one that a person can act on, and somebody's fault."""
        self.trace.note("PERSON", f"runs {verb}", notable=True)
        try:
            async with asyncio.timeout(PATIENCE):
                await self._verb(verb)
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
        if verb in ("up", "more", "record"):
            self._demand(invariants.AFTER_UP)
        return True

    def _blame(self, verb: str, error: str, calm: bool) -> None:
        """Somebody planted what this error tells of; one that nothing explains leads people astray."""
        kinds = {fault.kind for fault in self.disaster.fired}
        if verb in REFUSABLE or explained(error, kinds) or (calm and kinds):
            return
        planted = ", ".join(sorted(kinds)) or "nothing"
        self._wrong("every_error_names_a_planted_cause", f"{verb} failed, planted was {planted}: {error}")

    async def _verb(self, verb: str) -> None:
        person = self.person
        match verb:
            case "up":
                await person.up(replace="*" in self.disaster.may_lose)
            case "record":
                person.spec = parse(self.text + RECORD, "lab.yaml")
                await person.up()
            case "more":
                person.spec = parse(_with_one_more(self.text), "lab.yaml")
                await person.up()
            case "down":
                await person.down()
            case "destroy":
                self.disaster.may_lose.add("*")
                await person.destroy()
            case "power off":
                await person.power("off", "worker-0")
            case "power on":
                await person.power("on", "worker-0")
            case "inspect" | "retry" | "clean" | "deprovision":
                if verb == "deprovision":
                    self.disaster.may_lose.add("worker-0")
                await person.wish(verb, "worker-0")
            case "status":
                await person.status()
            case "plan":
                await person.plan()

    def _besides(self, verb: str) -> None:
        async def run() -> None:
            await self._attempt(verb)

        self.others.append(asyncio.get_running_loop().create_task(run(), context=Context()))

    # what is looked at

    def _heard(self, call: Call) -> None:
        process = self.person.world.processes.all.get(call.by)
        who = f"{process.name.removeprefix('rackless.').removesuffix('.main')}" if process else "-"
        self.trace.note(who, f"{'changed: ' if call.changed else ''}{call}")
        self.scene.call = call
        self._demand(invariants.AFTER_EVERY_CALL)

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
            self.trace.note("WRONG", told, notable=True)

    def _crashed(self, who: str, error: Exception) -> None:
        if known(error) is not None:  # as the command line shows it
            self.trace.note("PERSON", f"{who} failed: {known(error)}", notable=True)
        else:
            self._wrong("every_error_is_one_a_person_can_act_on", f"{who} ended with {error!r}")

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(error := context.get("exception"), Exception):
            self._crashed(str(context.get("message")), error)


def _with_one_more(text: str) -> str:
    """A lab with another worker."""
    return re.sub(r"worker: {count: (\d)", lambda found: f"worker: {{count: {int(found[1]) + 1}", text)
