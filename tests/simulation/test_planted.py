"""The simulator finds bugs: each that is planted is found within so many seeds; here each with a story that shows it."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest

from rackless.simulation import disk, story
from rackless.simulation.__main__ import load_everything
from rackless.simulation.campaign import side_by_side
from rackless.simulation.faults import Mishap
from rackless.simulation.story import Scenario, live_through
from tests.simulation.planted import PLANTED
from tests.simulation.test_found import MIXED

SEEDS = 500
WITHIN = 3000.0
"""Seconds: a bug may let a story go on and on, and a test does not."""
ONE = "name: lab\nservers: {worker: {count: 1}}"
SPARES = (
    "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, spare: {role: spare, count: 2}, worker: {count: 1}}"
)
THREE_BY_IPI = "name: lab\nservers: {ctrl: {role: control-plane, count: 3}}\ncluster: {method: ipi}"
SHOWN = {
    "ledger_line_after_the_thing": (Scenario(0, ONE, (), ()), "the_ledger_covers_all_that_exists"),
    "missing_fsync": (
        Scenario(0, ONE, ("up",), (Mishap("restart the computer", "disk.replace *", 30),)),
        "every_wait_ends",
    ),
    "patch_without_a_version": (
        Scenario(0, MIXED, ("up", "deprovision"), (Mishap("somebody edits", "provisioner.inspect *", 3, amount=20),)),
        "nothing_acknowledged_is_lost",
    ),
    "error_that_ends_the_loop": (
        Scenario(0, ONE, ("up",), (Mishap("fail unexpectedly", "provisioner.inspect *", 3),)),
        "every_wait_ends",
    ),
    "lease_that_is_not_renewed": (Scenario(0, ONE, ("up", "controllers", "wait"), ()), "at_most_one_leads"),
    "priority_that_all_have": (Scenario(0, THREE_BY_IPI, ("up",), ()), "at_most_one_holds_the_vip"),
    "claim_that_is_made_again": (Scenario(0, SPARES, ("up", "scale up", "wait"), ()), "no_host_is_claimed_twice"),
}
"""By the bug: a story that shows it, and the demand that is then not met."""


LONG = [name for name, (scenario, _) in SHOWN.items() if scenario.lab == THREE_BY_IPI]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in sorted(SHOWN)]
)
def test_a_planted_bug_is_found_by_a_story_that_comes_by(name: str, tmp_path: Path) -> None:
    scenario, demand = SHOWN[name]

    load_everything()

    def live() -> list[str]:
        logging.disable()
        # tries take an hour each, and what a power cut takes is not left to chance
        with PLANTED[name](), patch.object(story, "TRIES", 2), patch.object(disk, "KEPT", 0.0):
            return live_through(scenario, Path(tempfile.mkdtemp(dir=tmp_path))).wrong

    found = next(side_by_side([live], 1))
    assert demand in {wrong.partition(":")[0] for wrong in found}, found


@pytest.mark.long("simulate")
@pytest.mark.parametrize("name", sorted(PLANTED))
def test_every_planted_bug_is_found_within_500_seeds(name: str) -> None:
    """In a process of its own: the bug stays in it."""
    words = [sys.executable, "-m", "tests.simulation.planted", name, "0", str(SEEDS)]
    found = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN)
    assert found.returncode == 0, found.stdout + found.stderr
