from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rackless.drivers.fake.loop import VirtualLoop
from rackless.errors import LabError, RacklessError
from rackless.events import Bus, Event, StepFinished
from rackless.plan.actions import Action, Observed, Verb
from rackless.run.journal import Journal
from rackless.run.runner import LOOK_COUNTS_FOR, Runner
from rackless.run.stage import Stage, stage
from rackless.spec.lab import LabSpec

LAB = LabSpec()
T = TypeVar("T")


def live(story: Coroutine[Any, Any, T]) -> T:
    """In virtual time."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(story)
    finally:
        loop.close()


@dataclass
class Site:
    """Stages that are there when they were made, and say when they begin and end."""

    folder: Path
    there: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    seen: list[Event] = field(default_factory=list)
    looks: list[str] = field(default_factory=list)
    look_takes: float = 0.0

    def stage(self, name: str, subject: str) -> Stage:
        async def observe() -> Observed:
            self.looks.append(name)
            await asyncio.sleep(self.look_takes)
            return Observed(differing={} if name in self.there else {subject: "does not run"})

        async def ensure(work: Sequence[Action]) -> None:
            self.said.append(f"{name} begins {work[0].subject}")
            if name in self.gates:
                await self.gates[name].wait()
            if name in self.broken:
                raise LabError(f"{name} is broken")
            self.there.add(name)
            self.said.append(f"{name} ends")

        async def restore(_: Sequence[Action]) -> None:
            self.there.add(name)
            self.said.append(f"{name} is back")

        async def retire() -> None:
            self.said.append(f"{name} goes")

        return stage(name, name, observe=observe, ensure=ensure, restore=restore, retire=retire)

    def runner(self) -> Runner:
        stages = [self.stage(name, f"service/{name}") for name in ("libvirtd", "time", "api")]
        stages.append(self.stage("bmc", "stage/bmc"))
        bus = Bus()
        bus.subscribe(self.seen.append)
        journal = Journal(self.folder / "journal", self.folder / "goal")
        return Runner(LAB, stages, journal, bus, Observed(LAB, daemon=True))


async def test_only_what_is_planned_is_done_and_the_second_time_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path, there={"time"})
    await site.runner().run(["libvirtd", "time"])
    assert site.said == ["libvirtd begins service/libvirtd", "libvirtd ends"]
    await site.runner().run(["libvirtd", "time"])
    assert len(site.said) == 2
    assert [event.outcome for event in site.seen if isinstance(event, StepFinished)] == ["unchanged"] * 3


async def test_stages_that_do_not_need_each_other_go_side_by_side(tmp_path: Path) -> None:
    site = Site(tmp_path, gates={"time": asyncio.Event(), "api": asyncio.Event()})
    running = asyncio.create_task(site.runner().run(["time", "api"]))
    for _ in range(50):
        await asyncio.sleep(0)
    assert site.said == ["time begins service/time", "api begins service/api"]
    for gate in site.gates.values():
        gate.set()
    await running


async def test_a_failure_is_told_as_it_is_and_what_was_done_is_kept(tmp_path: Path) -> None:
    site = Site(tmp_path, broken={"api"})
    runner = site.runner()
    await runner.run(["libvirtd"])
    with pytest.raises(LabError, match="api is broken"):
        await runner.run(["api"])
    told = runner.journal.read()
    assert told.reached == {"libvirtd"} and told.failed == "api is broken"


async def test_a_restart_brings_back_what_was_reached_and_a_run_waits_for_it_and_finds_it(tmp_path: Path) -> None:
    site = Site(tmp_path)
    await site.runner().run(["libvirtd", "api"])
    site.there.clear()
    site.said.clear()
    runner = site.runner()
    await asyncio.gather(runner.restore(), runner.run(["libvirtd", "api"]))
    assert sorted(site.said) == ["api is back", "libvirtd is back"]


async def test_all_end_in_the_order_of_those_who_need_others(tmp_path: Path) -> None:
    site = Site(tmp_path)
    await site.runner().retire()
    assert site.said == ["bmc goes", "api goes", "time goes", "libvirtd goes"]


async def test_what_loses_something_is_not_done_by_the_way(tmp_path: Path) -> None:
    site = Site(tmp_path)
    runner = site.runner()
    runner.spec = LabSpec.model_validate({"servers": {"a": {}}})
    runner.stages = [site.stage("servers", "server/a-0")]
    with pytest.raises(RacklessError, match="was asked to"):
        await runner.run(["servers"])
    assert site.said == []


async def test_what_is_to_go_is_taken_away_by_the_stage_that_planned_it_and_by_no_other(tmp_path: Path) -> None:
    site = Site(tmp_path)
    runner = site.runner()
    gone: list[str] = []

    async def remove(work: Sequence[Action]) -> None:
        gone.extend(action.subject for action in work)
        assert runner.journal.read().cut_off == tuple(work), "written down before it is done"

    runner.stages = [*runner.stages, replace(site.stage("servers", "server/a-0"), remove=remove)]
    await runner.remove([Action("server/a-0", Verb.REMOVE, "is not wanted")])
    assert gone == ["server/a-0"] and runner.journal.read().cut_off == () and site.said == []


async def test_a_loss_that_no_stage_knows_is_not_passed_over(tmp_path: Path) -> None:
    runner = Site(tmp_path).runner()
    with pytest.raises(RacklessError, match="remove moon/full"):
        await runner.remove([Action("moon/full", Verb.REMOVE, "is not wanted")])


LAB_STAGES, LATER = ["libvirtd", "time", "api"], ["bmc"]


async def whole(site: Site) -> Runner:
    """A lab that is there, and of which nobody has looked at anything since."""
    runner = site.runner()
    for names in (LAB_STAGES, LATER):
        await runner.run(names)
    site.said.clear()
    site.looks.clear()
    return runner


def test_a_lab_that_is_whole_is_looked_at_all_at_once_and_each_stage_once(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> float:
        runner = await whole(site)
        site.look_takes = 5.0
        before = asyncio.get_running_loop().time()
        await runner.begin([*LAB_STAGES, *LATER])
        await runner.run(LAB_STAGES)
        await runner.run(LATER)
        return asyncio.get_running_loop().time() - before

    assert live(story()) == 5.0
    assert sorted(site.looks) == ["api", "bmc", "libvirtd", "time"] and site.said == []


def test_what_was_seen_ahead_does_not_count_once_something_was_done(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        runner = await whole(site)
        site.there.remove("api")
        ended = asyncio.get_running_loop().time()
        await runner.begin([*LAB_STAGES, *LATER])
        await runner.run(LAB_STAGES)
        site.there.remove("bmc")  # by what was done for the API
        await runner.run(LATER)
        assert asyncio.get_running_loop().time() == ended

    live(story())
    assert site.said == ["api begins service/api", "api ends", "bmc begins stage/bmc", "bmc ends"]


def test_what_was_seen_ahead_is_forgotten_when_nobody_comes_for_it(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        runner = await whole(site)
        await runner.begin([*LAB_STAGES, *LATER])
        await runner.run(LAB_STAGES)
        await asyncio.sleep(LOOK_COUNTS_FOR)
        await runner.run(LATER)

    live(story())
    assert site.looks.count("bmc") == 2


def test_a_failed_look_is_told_to_whoever_takes_it_and_to_nobody_else(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        runner = await whole(site)

        async def fails() -> Observed:
            raise LabError("cannot be looked at")

        runner.stages = [
            replace(each, observe=fails, costly=True) if each.name == "bmc" else each for each in runner.stages
        ]
        await runner.begin([*LAB_STAGES, *LATER])
        await runner.run(LAB_STAGES)
        with pytest.raises(LabError, match="cannot be looked at"):
            await runner.run(LATER)
        await runner.begin([*LAB_STAGES, *LATER])
        await runner.run(LAB_STAGES)
        await runner.retire()

    live(story())


def test_what_was_never_reached_is_not_looked_at_ahead(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        runner = site.runner()
        await runner.begin([*LAB_STAGES, *LATER])
        before = list(site.looks)
        await runner.run(LAB_STAGES)
        assert site.looks[len(before) :] == LAB_STAGES, "nothing was reached: each is looked at in its turn"

    live(story())


def test_a_lab_that_is_whole_is_not_written_about(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        runner = await whole(site)
        await runner.run(LAB_STAGES)
        before = runner.journal.path.stat()
        await runner.run(LAB_STAGES)
        assert runner.journal.path.stat() == before

    live(story())
