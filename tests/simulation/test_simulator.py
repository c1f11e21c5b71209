"""The simulator itself: one seed is one story, whoever tells it; what goes wrong is made small; and nothing goes wrong."""

from __future__ import annotations

import ast
import asyncio
import inspect
import logging
import os
import random
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

import rackless
from rackless.drivers.fake import loop
from rackless.drivers.fake.script import Call, Script
from rackless.plan.actions import Verb
from rackless.run.files import write
from rackless.simulation import invariants, story
from rackless.simulation.__main__ import describe, load_everything
from rackless.simulation.campaign import StoryTold, run_seeds, side_by_side, warm_up
from rackless.simulation.disk import FaultyDisk
from rackless.simulation.faults import BESIDE_AN_INSTALLER, BESIDE_DEVICES, KINDS, WHEN
from rackless.simulation.person import Person
from rackless.simulation.plots import PLOTS, RARER_PLOTS
from rackless.simulation.shrink import shrink
from rackless.simulation.story import Scenario, compose, live_through
from rackless.simulation.trace import StoryTrace
from rackless.simulation.world import make_world

CLOCKS = ("time.time", "time.monotonic", "time.perf_counter")


def simulate(*words: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rackless.simulation", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )


@pytest.mark.parametrize("first", range(0, 50, 10))
def test_fifty_seeds_of_disasters_end_well(first: int) -> None:
    """In forks of this process, which begins nothing anew; `scripts/simulate` is the same with a process of its own."""
    load_everything()

    def live() -> list[str]:
        logging.disable()
        warm_up()
        return [f"seed {told.seed}: {told.wrong[0]}" for told in run_seeds(range(first, first + 10), 1) if told.wrong]

    assert next(side_by_side([live], 1)) == []


@pytest.mark.slow
def test_more_seeds_of_disasters_end_well() -> None:
    done = simulate("--seeds", "20", "--first", "50")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["", "method: ipi", "role: spare", "hosts:", "discover:", "method: openshift", "attach:"]
)
def test_a_seed_is_the_same_story_in_another_process_with_other_hashes(kind: str, tmp_path: Path) -> None:
    """One of everyday labs, and one of each kind of plot."""
    plotted = [plot.lab for plot in (*PLOTS, *RARER_PLOTS) if kind and kind in plot.lab]
    seed = next(seed for seed in range(2000) if compose(seed).lab in plotted) if plotted else 14
    for run, hashes in enumerate(("0", "7")):
        assert simulate("--seed", str(seed), "--trace", str(tmp_path / f"{run}"), hash_seed=hashes).returncode == 0
    first, second = ((tmp_path / run).read_text() for run in "01")
    assert first == second and len(first.splitlines()) > 500


def test_with_the_api_itself_a_lab_that_is_up_has_nothing_left_to_do(tmp_path: Path) -> None:
    """Machines take their hosts a moment after they were written: `up` came back before, and `plan` had work again."""
    person = Person(tmp_path, make_world(own_api=True))

    async def story() -> None:
        await person.up()
        assert [str(action) for action in await person.plan() if action.verb is not Verb.KEEP] == []

    person.live(story)


def test_seeds_compose_different_stories_and_one_seed_always_the_same() -> None:
    assert compose(3) == compose(3)
    assert len({compose(seed).faults for seed in range(40)}) > 30


@pytest.mark.slow
def test_every_call_that_a_fault_waits_for_is_one_that_stories_make(tmp_path: Path) -> None:
    lab = "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, spare: {role: spare, count: 1}, worker: {count: 1}}"
    calm = Scenario(0, lab, ("up", "scale up", "wait", "scale down", "controllers", "wait"), ())
    install = Scenario(0, next(plot.lab for plot in PLOTS if "method: ipi" in plot.lab), ("up",), ())
    by_installer, attached = (Scenario(0, RARER_PLOTS[number].lab, ("up",), ()) for number in (0, -1))

    load_everything()

    def live(scenario: Scenario) -> tuple[list[str], set[str]]:
        logging.disable()
        seen: set[str] = set()
        note = Script._note

        def noted(script: Script, call: Call) -> None:
            seen.add(str(call))
            note(script, call)

        with patch.object(Script, "_note", noted):
            return live_through(scenario, Path(tempfile.mkdtemp(dir=tmp_path))).wrong, seen

    seen: set[str] = set()
    stories = [partial(live, one) for one in (calm, install, by_installer, attached)]
    for wrong, calls in side_by_side(stories, 2):
        assert wrong == []
        seen |= calls
    patterns = {pattern for pattern, _ in (*WHEN, *BESIDE_AN_INSTALLER, *BESIDE_DEVICES)} | {
        pattern for kind in KINDS.values() for pattern in kind.only
    }
    assert {pattern for pattern in patterns if not any(fnmatchcase(call, pattern) for call in seen)} == set()


def test_nobody_holds_on_to_a_clock_that_the_simulator_replaces() -> None:
    """A default value is taken once, at the import: it would be the real clock, and a story on a busy computer another one."""
    held = []
    for path in sorted(Path(rackless.__file__).parent.rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if any(clock in text for clock in CLOCKS) else ():
            if isinstance(node, ast.arguments):
                defaults = [*node.defaults, *(one for one in node.kw_defaults if one is not None)]
            elif isinstance(node, ast.AnnAssign) and node.value is not None:  # a field of a dataclass
                defaults = [node.value]
            else:
                continue
            held += [f"{path.name}:{one.lineno}" for one in defaults if ast.unparse(one) in CLOCKS]
    assert held == []


def test_who_is_busy_without_end_is_noticed_although_no_time_passes() -> None:
    async def busy() -> None:
        for _ in range(10_000):
            await asyncio.sleep(0)

    with (
        patch.object(loop, "MOST_TURNS", 1000),
        pytest.raises(TimeoutError, match="busy without end: 1,000 turns in 0 s"),
    ):
        make_world().run(busy())


def test_a_power_cut_takes_what_was_not_synced_and_is_not_old(tmp_path: Path) -> None:
    now = [0.0]
    disk = FaultyDisk(tmp_path, tmp_path, now=lambda: now[0])
    sure = random.Random(0)
    sure.random = lambda: 1.0  # type: ignore[method-assign]
    with disk.mounted():
        disk.expect_cut()
        (tmp_path / "old").write_text("not synced, and written back")
        now[0] = 100.0
        write(tmp_path / "whole", "synced, and its name, too")
        (tmp_path / "new").write_text("not synced")
        (tmp_path / "old").write_text("changed since")
        now[0] = 101.0
        with disk.unheard():
            assert disk.cut(sure) == ["new is gone", "old is as it was"]
            assert disk.cut(sure) == []
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "old": "not synced, and written back",
        "whole": "synced, and its name, too",
    }


def test_a_failing_story_shrinks_to_the_fault_that_matters() -> None:
    tried = []

    def attempt(kept: tuple[int, ...]) -> StoryTold:
        tried.append(kept)
        wrong = ("demand: it broke",) if {1, 3} <= set(kept) else ("another: thing",) if 2 in kept else ()
        return StoryTold(9, kept, "", wrong)

    assert shrink(attempt((0, 1, 2, 3, 4)), attempt).kept == (1, 3)
    assert shrink(StoryTold(9, (0, 1), "", ("demand: it broke",)), lambda kept: StoryTold(9, kept, "", ())).kept == (
        0,
        1,
    )


def test_a_story_that_went_wrong_is_told_to_a_person() -> None:
    """Who did what and when, what was expected, what was seen; calls only where something happened at them."""
    trace, now = StoryTrace(Path("/somewhere")), [0.0]
    trace.now = lambda: now[0]
    for at, who, what, notable in (
        (0, "PERSON", "runs up", True),
        (1, "labd", "api.get secrets x", False),
        (2, "labd", "hypervisor.servers", False),
        (3, "labd", "api.replace baremetalhosts worker-0", False),
        (3, "FAULT", "kill api at call 4 of api.replace *", True),
        (4, "labd", "api.get baremetalhosts worker-0", False),
        (5, "WRONG", "what_up_says_is_so: up is done, and worker-0 is inspecting", True),
        (6, "PERSON", "runs destroy", True),
        (7, "WRONG", "every_wait_ends: destroy has not ended", True),
    ):
        now[0] = at
        trace.note(who, what, notable=notable)
    lines = tuple(trace.told(around=1))
    assert [line.split() for line in lines] == [
        ["0.000", "s", "PERSON", "runs", "up"],
        ["…", "2", "steps"],
        ["3.000", "s", "labd", "api.replace", "baremetalhosts", "worker-0"],
        ["3.000", "s", "FAULT", "kill", "api", "at", "call", "4", "of", "api.replace", "*"],
        ["4.000", "s", "labd", "api.get", "baremetalhosts", "worker-0"],
        ["5.000", "s", "WRONG", *"what_up_says_is_so: up is done, and worker-0 is inspecting".split()],
        ["…", "2", "steps", "until", "the", "end,", "7", "s"],
    ]
    seed = next(seed for seed in range(100) if len(compose(seed).faults) > 1)
    told = describe(StoryTold(seed, (1,), "", ("what_up_says_is_so: up is done, and worker-0 is inspecting",), lines))
    assert "expected: when `up` is done, every host that it is about is provisioned\n" in told
    assert "seen: up is done, and worker-0 is inspecting\n" in told
    assert f"\n  1: {compose(seed).faults[1]}\n" in told and told.endswith(f"--seed {seed} --faults 1")


def test_of_every_demand_it_can_be_told_what_was_expected() -> None:
    made = {
        name
        for name, found in vars(invariants).items()
        if getattr(found, "__annotations__", {}).get("return") == "Wrong"
    }
    for node in ast.walk(ast.parse(inspect.getsource(story))):
        match node:
            case ast.Call(ast.Attribute(ast.Name("self"), "_wrong"), [ast.Constant(str(name)), *_]):
                made.add(name)
    assert made == set(invariants.EXPECTED)


@pytest.mark.long("simulate")
def test_ten_thousand_seeds_of_disasters_end_well() -> None:
    done = simulate("--seeds", "10000")
    assert done.returncode == 0, done.stdout


@pytest.mark.long("simulate")
def test_stories_come_by_most_lines_of_what_they_are_about() -> None:
    done = simulate("--seeds", "400", "--coverage", "1")
    assert done.returncode == 0, done.stdout
