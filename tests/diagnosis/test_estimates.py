"""What is usual on this computer, learnt from the events of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackless.cli.durations import spent, usually
from rackless.diagnosis.estimates import KEPT, Estimates, Learner, Usual, load, phase_key, save, step_key
from rackless.events import StepFinished, StepStarted


class Bench:
    """A run told step by step, and what was learnt of it."""

    def __init__(self, servers: int = 4) -> None:
        self.learnt: dict[str, list[float]] = {}
        self.learner = Learner(servers, self._keep)
        self._steps = 0

    def _keep(self, learnt: object) -> None:
        assert isinstance(learnt, dict)
        for key, seconds in learnt.items():
            self.learnt.setdefault(key, []).extend(seconds)

    def begin(self, phase: str, subject: str = "", parent: str | None = None, **numbers: float) -> str:
        self._steps += 1
        self.learner(StepStarted(f"u1.{self._steps}", parent, subject, phase, 0.0, numbers))
        return f"u1.{self._steps}"

    def end(self, step: str, seconds: float, outcome: str = "done") -> None:
        self.learner(StepFinished(step, outcome, seconds, "", 0.0))  # type: ignore[arg-type]


def test_steps_that_were_done_are_learnt_when_the_stage_ends() -> None:
    bench = Bench()
    stage = bench.begin("hosts")
    for host, seconds in (("a", 10.0), ("b", 12.0)):
        bench.end(bench.begin("inspecting", f"host/{host}", stage), seconds)
    bench.end(bench.begin("servers", "", stage, servers=4), 2.0)
    assert bench.learnt == {}, "nothing is written in the middle"
    bench.end(stage, 30.0)
    assert bench.learnt == {"host: inspecting": [10.0, 12.0], "servers servers=4": [2.0], "hosts servers=4": [30.0]}
    assert phase_key("inspecting") in bench.learnt


@pytest.mark.parametrize("outcome", ["unchanged", "failed", "cancelled"])
def test_a_stage_in_which_something_was_there_already_or_failed_teaches_nothing(outcome: str) -> None:
    bench = Bench()
    stage = bench.begin("hosts")
    inner = bench.begin("nodes", "", stage)
    bench.end(bench.begin("networks", "", inner), 0.0, outcome)
    bench.end(bench.begin("servers", "", stage), 3.0)
    bench.end(inner, 0.1)
    bench.end(stage, 0.1)
    assert bench.learnt == {"servers servers=4": [3.0]}


def test_what_a_lab_as_a_whole_takes_depends_on_its_size_and_a_host_is_like_another() -> None:
    lab = StepStarted("u1.1", None, "", "hosts", 0.0)
    assert step_key(lab, 4) != step_key(lab, 5)
    one, other = (StepStarted("d1.1", None, f"host/{name}", "inspecting", 0.0) for name in ("a", "b"))
    assert step_key(one, 4) == step_key(other, 5)
    assert "image/agent" in step_key(StepStarted("u1.1", None, "image/agent", "built", 0.0), 4)


def test_median_and_spread_of_the_latest_runs_and_the_oldest_are_forgotten(tmp_path: Path) -> None:
    known = Estimates()
    assert known.usual("x") is None
    known.learn({"x": [100.0]})
    assert known.usual("x") == Usual(100, 100, 100, 1)
    known.learn({"x": [90.0, 110.0, 200.0, 95.0]})
    usual = known.usual("x")
    assert usual == Usual(100, 95, 110, 5)
    known.learn({"x": [1.0] * KEPT})
    assert known.usual("x") == Usual(1, 1, 1, KEPT)
    save(tmp_path / "durations.json", known)
    assert load(tmp_path / "durations.json") == known


@pytest.mark.parametrize("text", ["", "[]", '{"seconds": 3}', '{"seconds": {"x": "y"}}', '{"seconds": {"x": [null]}}'])
def test_a_file_that_cannot_be_read_is_as_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "durations.json").write_text(text)
    assert load(tmp_path / "durations.json") == Estimates() == load(tmp_path / "nowhere.json")


def test_the_file_does_not_grow_for_ever() -> None:
    known = Estimates()
    for number in range(600):
        known.learn({f"step {number}": [1.0]})
    assert len(known.durations) == 500 and "step 599" in known.durations and "step 0" not in known.durations


def test_it_is_said_as_a_person_says_it() -> None:
    assert usually(Usual(100, 98, 104, 5)) == "usually 1 min 40 s here"
    assert usually(Usual(100, 60, 130, 5)) == "usually 1 min 40 s here (1 min 00 s to 2 min 10 s)"
    assert usually(Usual(31.2, 31, 31, 2)) == "31 s here before"
    assert [spent(one) for one in (4.25, 59.7, 100, 7500)] == ["4.2 s", "59.7 s", "1 min 40 s", "2 h 05 min"]
