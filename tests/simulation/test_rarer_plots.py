"""The rarer plots of the simulator: labs that a user's own installer makes a cluster in, rehearsals, labs on a NIC or a bridge."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import pytest

from rackless.simulation.__main__ import load_everything
from rackless.simulation.campaign import side_by_side
from rackless.simulation.faults import Mishap
from rackless.simulation.plots import RARER_PLOTS
from rackless.simulation.story import Scenario, compose, live_through

QUICK, FULL, _, _, REHEARSED, IN_FULL = RARER_PLOTS[:6]


def lived(scenario: Scenario, folder: Path) -> list[str]:
    """What was called and told, one after the other."""
    load_everything()

    def live() -> tuple[list[str], list[str]]:
        logging.disable()
        outcome = live_through(scenario, Path(tempfile.mkdtemp(dir=folder)))
        assert outcome.trace is not None
        return outcome.wrong, [line.what for line in outcome.trace.lines]

    wrong, calls = next(side_by_side([live], 1))
    assert wrong == []
    return list(calls)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(RARER_PLOTS)))
def test_where_nothing_goes_wrong_each_of_them_comes_to_its_end_at_once(number: int, tmp_path: Path) -> None:
    plot = RARER_PLOTS[number]
    calls = lived(Scenario(0, plot.lab, plot.verbs, (), again=plot.again), tmp_path)
    assert not [what for what in calls if " failed: " in what and "another site's config" not in what]


def test_a_cluster_that_stands_is_not_installed_again(tmp_path: Path) -> None:
    assert lived(Scenario(0, QUICK.lab, ("up", "down", "up"), ()), tmp_path).count("installer.infrastructure") == 1


@pytest.mark.parametrize(
    ("fault", "began", "waited"),
    [
        (Mishap("kill", "installer.api", 1, "up"), 1, 0),  # its machine runs: the installer goes on with it
        pytest.param(Mishap("kill", "installer.initialize", 1, "up"), 1, 1, marks=pytest.mark.slow),
        pytest.param(Mishap("installer's machine goes off", "installer.api", 1), 2, 0, marks=pytest.mark.slow),
        pytest.param(Mishap("restart the computer", "installer.bootstrapping", 1, amount=5), 2, 0, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_an_install_that_was_cut_off_goes_on_where_it_was_or_begins_anew(
    fault: Mishap, began: int, waited: int, tmp_path: Path
) -> None:
    calls = lived(Scenario(0, FULL.lab, ("up",), (fault,)), tmp_path)
    assert calls.count("installer.infrastructure") == began
    assert calls.count("installer.initialize") - calls.count("installer.destroying") == waited


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        Mishap("stage dies", "installer.api", 1),
        Mishap("installer dies", "installer.bootstrapping", 1),
        Mishap("Ctrl-C", "installer.initialize", 1),
        Mishap("kill", "installer.infrastructure", 1, "up"),
        Mishap("restart the computer", "installer.destroying", 1, amount=3),
        Mishap("disk full", "installer.config", 1, amount=60.0),
    ],
)
def test_a_rehearsal_that_is_cut_off_is_run_again_and_leaves_nothing(fault: Mishap, tmp_path: Path) -> None:
    assert lived(Scenario(0, REHEARSED.lab, ("rehearse",), (fault,), again=IN_FULL.again), tmp_path)


def test_a_twentieth_of_the_seeds_lives_through_the_rarer_plots() -> None:
    own = [(plot.lab, plot.verbs) for plot in RARER_PLOTS]
    found = [found for scenario in map(compose, range(1000)) if (found := (scenario.lab, scenario.verbs)) in own]
    assert 30 < len(found) < 70 and set(found) == set(own)
