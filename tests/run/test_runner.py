from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from rackless.errors import LabError, RacklessError
from rackless.events import Bus, Event, StepFinished
from rackless.plan.actions import Action, Observed, Verb
from rackless.run.journal import Journal
from rackless.run.runner import Runner
from rackless.run.stage import Stage, stage
from rackless.spec.lab import LabSpec

LAB = LabSpec()


@dataclass
class Site:
    """Stages that are there when they were made, and say when they begin and end."""

    folder: Path
    there: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    seen: list[Event] = field(default_factory=list)

    def stage(self, name: str, subject: str) -> Stage:
        async def observe() -> Observed:
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
