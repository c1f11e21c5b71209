"""The simulator finds bugs: each that is planted is found within so many seeds; here each with a story that shows it."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from rackless.provisioning.baremetalhost import State
from rackless.simulation import disk, story
from rackless.simulation.__main__ import load_everything
from rackless.simulation.campaign import side_by_side
from rackless.simulation.faults import Mishap
from rackless.simulation.invariants import a_lab_at_rest_is_whole, what_up_says_is_so
from rackless.simulation.plots import RARER_PLOTS
from rackless.simulation.story import Scenario, live_through
from tests.simulation.planted import PLANTED
from tests.simulation.test_found import MIXED

SEEDS = 500
WITHIN = 3000.0
"""Seconds: a bug may let a story go on and on, and a test does not."""
ONE = "name: lab\nservers: {worker: {count: 1}}"
TWO = "name: lab\nservers: {worker: {count: 2}}"
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
    "lost_wake_up": (Scenario(0, TWO, ("up",), ()), "every_wait_ends"),
    "retry_that_forgets": (
        Scenario(0, TWO, ("up",), (Mishap("kill", "api.replace baremetalhosts *", 3, "api"),)),
        "every_wait_ends",
    ),
    "lease_that_is_not_renewed": (Scenario(0, ONE, ("up", "controllers", "wait"), ()), "at_most_one_leads"),
    "vip_that_is_taken_from_its_holder": (Scenario(0, THREE_BY_IPI, ("up",), ()), "at_most_one_holds_the_vip"),
    "swallowed_exception": (
        Scenario(0, ONE, ("up",), (Mishap("work fails", "provisioner.*", 1, "provision worker-0", 7.0),)),
        "every_wait_ends",
    ),
    "system_that_is_lost_with_the_power": (
        Scenario(0, ONE, ("up", "power off", "wait", "power on"), ()),
        "a_host_that_runs_is_never_wiped_unasked",
    ),
    "work_before_it_is_written_down": (Scenario(0, ONE, ("up",), ()), "nothing_is_provisioned_twice"),
    "program_that_is_started_twice": (Scenario(0, ONE, ("up until bmc",), ()), "at_most_one_of_each_program_runs"),
    "folder_that_is_struck_and_stays": (Scenario(0, ONE, (), ()), "nothing_is_left_after_destroy"),
    "error_that_loses_its_cause": (
        Scenario(0, ONE, ("up",), (Mishap("fail", "links.*", 3),)),
        "every_error_names_a_planted_cause",
    ),
    "error_that_nobody_put_into_words": (Scenario(0, ONE, (), ()), "every_error_is_one_a_person_can_act_on"),
    "device_that_is_not_given_back": (Scenario(0, RARER_PLOTS[-2].lab, (), ()), "nothing_is_left_after_destroy"),
    "leavings_that_stay": (
        Scenario(0, RARER_PLOTS[0].lab, ("up",), (Mishap("installer dies", "installer.api", 1),)),
        "every_wait_ends",
    ),
    "daemon_that_is_never_the_right_one": (Scenario(0, ONE, (), ()), "a_second_up_changes_nothing"),
    "claim_that_is_made_again": (Scenario(0, SPARES, ("up", "scale up", "wait"), ()), "no_host_is_claimed_twice"),
}
"""By the bug: a story that shows it, and the demand that is then not met."""


QUICK = (
    "claim_that_is_made_again",
    "error_that_ends_the_loop",
    "lease_that_is_not_renewed",
    "ledger_line_after_the_thing",
    "missing_fsync",
    "patch_without_a_version",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in sorted(SHOWN)]
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


def test_the_demands_of_a_lab_that_is_up_are_not_met_by_one_that_is_not() -> None:
    """No planted bug was found yet that only these two see: `up` fails before."""
    lab = SimpleNamespace(running=list, provisioner=SimpleNamespace(disks={}))
    person = SimpleNamespace(servers=lambda: [("worker-0", False), ("spare-0", True)], lab=lab)
    states = {"worker-0": State.PREPARING}
    scene: Any = SimpleNamespace(
        person=person, disaster=SimpleNamespace(fired=[]), installer=SimpleNamespace(payload=None),
        by_hand=lambda: {"worker-1"}, state_of=states.get,
    )  # fmt: skip
    assert list(what_up_says_is_so(scene)) == ["up is done, and worker-0 is preparing"]
    assert list(a_lab_at_rest_is_whole(scene)) == [
        "worker-0 should be on",
        "worker-0 should have a system",
        "worker-0 is preparing, and should be provisioned",
    ]


@pytest.mark.long("simulate")
@pytest.mark.parametrize("name", sorted(PLANTED))
def test_every_planted_bug_is_found_within_500_seeds(name: str) -> None:
    """In a process of its own: the bug stays in it."""
    words = [sys.executable, "-m", "tests.simulation.planted", name, "0", str(SEEDS)]
    found = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN)
    assert found.returncode == 0, found.stdout + found.stderr
