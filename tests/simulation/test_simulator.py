"""The simulator itself: one seed is one story, whoever tells it; what goes wrong is made small; and nothing goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rackless.plan.actions import Verb
from rackless.simulation.campaign import StoryTold
from rackless.simulation.person import Person
from rackless.simulation.shrink import shrink
from rackless.simulation.story import compose
from rackless.simulation.world import make_world


def simulate(*words: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rackless.simulation", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )


def test_fifty_seeds_of_disasters_end_well() -> None:
    done = simulate("--seeds", "50")
    assert done.returncode == 0, done.stdout


def test_a_seed_is_the_same_story_in_another_process_with_other_hashes(tmp_path: Path) -> None:
    for run, hashes in enumerate(("0", "7")):
        assert simulate("--seed", "14", "--trace", str(tmp_path / f"{run}"), hash_seed=hashes).returncode == 0
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


@pytest.mark.long("simulate")
def test_ten_thousand_seeds_of_disasters_end_well() -> None:
    done = simulate("--seeds", "10000")
    assert done.returncode == 0, done.stdout


@pytest.mark.long("simulate")
def test_stories_come_by_most_lines_of_what_they_are_about() -> None:
    done = simulate("--seeds", "100", "--coverage", "1")
    assert done.returncode == 0, done.stdout
