from pathlib import Path

import pytest

from rackless.plan.actions import Action, Verb
from rackless.plan.stages import INSIDE
from rackless.run.journal import Journal

MADE = [Action("server/a", Verb.CREATE, "is not there"), Action("server/b", Verb.CREATE, "is not there")]


def journal(folder: Path) -> Journal:
    return Journal(folder / "journal.jsonl", folder / "goal")


def test_a_stage_that_was_done_once_stays_reached_over_runs(tmp_path: Path) -> None:
    for stage in ("libvirtd", "networks"):
        found = journal(tmp_path)
        found.begin()
        found.reach(stage)
    assert journal(tmp_path).read().reached == {"libvirtd", "networks"}


def test_what_was_begun_and_not_ended_was_cut_off_until_it_is_done(tmp_path: Path) -> None:
    found = journal(tmp_path)
    found.begin()
    killed = found.carrying_out(MADE)
    killed.__enter__()  # and nobody comes back
    assert journal(tmp_path).read().cut_off == tuple(MADE)
    with found.carrying_out(MADE):
        pass
    assert journal(tmp_path).read().cut_off == ()


def test_what_failed_was_not_cut_off_and_its_reason_is_kept_until_the_next_run(tmp_path: Path) -> None:
    found = journal(tmp_path)
    found.begin()
    with pytest.raises(OSError), found.carrying_out(MADE):
        raise OSError("no room\nat all")
    told = found.read()
    assert told.cut_off == () and told.failed == "no room"
    found.begin()
    assert found.read().failed == ""


def test_half_a_line_of_a_machine_that_went_off_is_passed_over(tmp_path: Path) -> None:
    found = journal(tmp_path)
    found.begin()
    found.reach("libvirtd")
    with found.path.open("a") as file:
        file.write('{"reached": ["netw')
    assert journal(tmp_path).read().reached == {"libvirtd"}
    found.reach("api")
    assert journal(tmp_path).read().reached == {"libvirtd", "api"}, "and the next line is a line of its own"


def test_the_goal_of_a_lab_of_before_counts_as_reached_until_there_is_a_journal(tmp_path: Path) -> None:
    (tmp_path / "goal").write_text("engine")
    found = journal(tmp_path)
    assert found.read().goal == "engine"
    assert {"servers", "bmc", "engine"} <= found.read().reached and "hosts" not in found.read().reached
    found.begin()
    (tmp_path / "goal").write_text("cluster")
    assert found.read().goal == "engine", "from now on the goal is what was asked for"
    (tmp_path / "goal").write_text("nonsense")
    assert journal(tmp_path / "nowhere").read().goal is None


def test_a_goal_is_reached_with_the_last_of_its_stages(tmp_path: Path) -> None:
    found = journal(tmp_path)
    found.begin()
    for stage in INSIDE:
        found.reach(stage)
    assert found.read().goal == "cluster"
