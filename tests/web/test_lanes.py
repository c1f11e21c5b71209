"""The steps of a log as lanes."""

from __future__ import annotations

from rackless.events import Event, Note, StepFinished, StepStarted
from rackless.web.lanes import lanes


def began(step: str, phase: str, at: float, subject: str = "", parent: str | None = None) -> Event:
    return StepStarted(step, parent, subject, phase, at)


def ended(step: str, at: float, outcome: str = "done") -> Event:
    return StepFinished(step, outcome, 0.0, "", at)  # type: ignore[arg-type]


def test_a_lane_for_the_lab_then_what_is_no_server_then_servers_in_their_order_then_metal() -> None:
    told = [
        began("s1", "hosts", 10), began("s2", "inspecting", 11, "host/b", "s1"), began("s3", "inspecting", 12, "host/a"),
        began("s5", "inspecting", 12, "host/rack1"), began("s4", "starting", 13, "bootstrap/vm"), ended("s2", 14),
        ended("s3", 15), ended("s4", 16), ended("s5", 17), ended("s1", 20),
    ]  # fmt: skip
    chart = lanes(told, ["a", "b", "c"])
    assert [lane["subject"] for lane in chart["lanes"]] == ["", "bootstrap/vm", "host/a", "host/b", "host/rack1"]
    assert (chart["began"], chart["ended"]) == (10, 20)


def test_all_that_is_done_with_a_server_is_in_its_lane_and_each_bar_says_of_what() -> None:
    told = [
        began("s1", "power on", 1, "server/a"), began("s2", "provisioning", 2, "host/a"), ended("s1", 3), ended("s2", 4),
        began("s3", "joining the cluster", 5, "node/a"), began("s4", "starting", 6, "server/bootstrap"),
    ]  # fmt: skip
    bootstrap, lane = lanes(told, ["a"])["lanes"]
    assert bootstrap["subject"] == "server/bootstrap" and lane["subject"] == "host/a"
    assert [bar["subject"] for bar in lane["bars"]] == ["server/a", "host/a", "node/a"]


def test_an_image_that_was_in_the_cache_has_no_lane_and_one_that_was_built_has() -> None:
    told = [began("s1", "node", 1, "image/node"), ended("s1", 2, "unchanged"), began("s2", "deploy", 1, "image/deploy")]
    told += [ended("s2", 9), began("s3", "cleaning", 3, "host/a"), ended("s3", 4, "unchanged")]
    assert [lane["subject"] for lane in lanes(told, ["a"])["lanes"]] == ["image/deploy", "host/a"]


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
