"""The steps of a log as lanes."""

from __future__ import annotations

from rackless.events import Event, Note, StepFinished, StepStarted
from rackless.web.lanes import lanes


def began(step: str, phase: str, at: float, subject: str = "", parent: str | None = None) -> Event:
    return StepStarted(step, parent, subject, phase, at)


def ended(step: str, at: float, outcome: str = "done") -> Event:
    return StepFinished(step, outcome, 0.0, "", at)  # type: ignore[arg-type]


def test_a_lane_for_the_lab_then_hosts_in_their_order_then_others() -> None:
    told = [
        began("s1", "hosts", 10), began("s2", "inspecting", 11, "host/b", "s1"), began("s3", "inspecting", 12, "host/a"),
        began("s4", "power on", 13, "server/a"), ended("s2", 14), ended("s3", 15), ended("s4", 16), ended("s1", 20),
    ]  # fmt: skip
    chart = lanes(told, ["a", "b", "c"])
    assert [lane["subject"] for lane in chart["lanes"]] == ["", "host/a", "host/b", "server/a"]
    assert (chart["began"], chart["ended"]) == (10, 20)


def test_a_step_that_goes_on_is_given_what_the_same_took_elsewhere() -> None:
    told = [began(f"s{n}", "inspecting", 0, f"host/h{n}") for n in range(4)]
    told += [ended("s0", 10), ended("s1", 30), ended("s2", 500, "failed"), Note("s3", "half way", 9, "progress")]
    chart = lanes(told, [])
    bar = next(lane["bars"][0] for lane in chart["lanes"] if lane["subject"] == "host/h3")
    assert bar["estimate"] == 20 and bar["ended"] is None and bar["detail"] == "half way" and chart["ended"] is None


def test_only_the_last_run_is_shown_and_the_runs_before_it_still_estimate() -> None:
    told = [began("s1", "lab", 0), ended("s1", 50), began("s2", "lab", 5000)]
    (lane,) = lanes(told, [])["lanes"]
    assert [(bar["step"], bar["estimate"]) for bar in lane["bars"]] == [("s2", 50)]


def test_a_step_whose_doer_was_killed_ends_where_it_is_begun_again() -> None:
    told = [began("s1", "cleaning", 0, "host/a"), began("t1", "cleaning", 8, "host/a")]
    (lane,) = lanes(told, ["a"])["lanes"]
    assert [(bar["ended"], bar["outcome"]) for bar in lane["bars"]] == [(8, "cancelled"), (None, "running")]


def test_a_log_without_steps_is_an_empty_chart() -> None:
    assert lanes([], ["a"]) == {"lanes": [], "began": None, "ended": None, "expected": None}


def test_what_this_computer_has_learnt_counts_more_than_the_log_and_says_when_it_ends() -> None:
    told = [began("s1", "cleaning", 0, "host/a"), ended("s1", 10), began("s2", "cleaning", 20, "host/b")]
    (bar,) = lanes(told, ["b"], lambda step: 33.0 if step.subject == "host/b" else None)["lanes"][-1:]
    assert bar["subject"] == "host/a" and bar["bars"][0]["estimate"] == 10
    chart = lanes(told, ["b"], lambda step: 33.0 if step.subject == "host/b" else None)
    assert chart["lanes"][0]["bars"][0]["estimate"] == 33 and chart["expected"] == 53
    assert lanes(told, ["b"])["expected"] == 30
