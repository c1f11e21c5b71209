"""The one list of stages: what the documentation says of it, and how far a lab is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rackless.plan.stages import GOALS, INSIDE, STAGES, TITLES, own_stages, reached_goal, stages_of, upto
from rackless.spec.lab import LabSpec

PAGE = Path(__file__).parents[2] / "docs/explanation/architecture.md"


def documented() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Goal and needs of each stage, as its table has them."""
    table = PAGE.read_text().partition("| stage | goal | needs | actions |")[2].partition("\n\n")[0]
    found = {}
    for line in table.splitlines()[2:]:
        stages, goal, needs, _ = (re.findall(r"`([^`]*)`", cell) for cell in line.strip("|").split("|"))
        for stage in stages:
            found[stage] = (goal[0], tuple(needs))
    return found


def test_the_stages_are_those_of_the_documentation() -> None:
    table = documented()
    table["nodes"] = ("cluster", ("cluster",))  # told in one line with the cluster's
    assert {stage.name: (stage.goal, stage.needs) for stage in STAGES} == table


def test_each_stage_comes_after_those_that_it_needs() -> None:
    seen: set[str] = set()
    for stage in STAGES:
        assert seen.issuperset(stage.needs), stage.name
        seen.add(stage.name)


def test_only_servers_are_taken_away_by_a_stage_and_labd_does_all_but_three() -> None:
    assert {stage.name: stage.removes for stage in STAGES if stage.removes} == {"servers": "server"}
    assert {stage.name for stage in STAGES} - {*INSIDE} == {"daemon", "uplink", "attachment"}


def test_the_goals_are_the_words_of_up_until_and_have_titles() -> None:
    assert GOALS == ("lab", "bmc", "engine", "hosts", "cluster") == tuple(TITLES)
    assert list(TITLES.values()) == ["lab", "BMCs", "provisioning engine", "hosts", "cluster"]
    assert upto("lab") == ("lab",) and upto("engine") == ("lab", "bmc", "engine") and upto("cluster") == GOALS


def test_a_goal_has_its_stages_and_no_others() -> None:
    assert stages_of(("bmc", "engine")) == ["bmc", "engine"]
    assert stages_of(("cluster",)) == ["cluster", "nodes"]
    assert stages_of(GOALS) == [stage.name for stage in STAGES] and stages_of(()) == []


LAB = {"libvirtd", "networks", "time", "api", "servers", "power"}


@pytest.mark.parametrize(
    ("done", "goal"),
    [
        (set(), None),
        (LAB - {"power"}, None),
        (LAB, "lab"),
        (LAB | {"engine"}, "lab"),
        (LAB | {"bmc"}, "bmc"),
        (LAB | {"bmc", "engine", "hosts", "cluster"}, "hosts"),
        (LAB | {"bmc", "engine", "hosts", "cluster", "nodes"}, "cluster"),
        ({"bmc", "engine", "hosts", "cluster", "nodes"}, None),
    ],
)
def test_a_goal_is_reached_when_all_of_it_and_of_those_before_was_done(done: set[str], goal: str | None) -> None:
    assert reached_goal(done) == goal


@pytest.mark.parametrize("method", ["ipi", "none"])
def test_with_another_method_up_comes_to_the_bmcs_and_somebody_else_goes_on(method: str) -> None:
    spec = LabSpec.model_validate({"cluster": {"method": method}})
    assert own_stages(LabSpec()) - own_stages(spec) == {"engine", "hosts", "cluster", "nodes"}
