"""Runs told apart in a lab's events, as a trace, as a picture, and compared."""

from __future__ import annotations

import json
from itertools import pairwise
from xml.etree import ElementTree

from rackless.diagnosis.chrome_trace import chrome_trace
from rackless.diagnosis.comparison import Difference, compare
from rackless.diagnosis.runs import CUT_OFF, Run, StepSpan, by_subject, find_runs, levels, tracks
from rackless.diagnosis.timeline_svg import timeline_svg
from rackless.events import Event, Note, StepFinished, StepStarted


class Tale:
    """Events as `up` (u…) and labd (d…) write them."""

    def __init__(self) -> None:
        self.told: list[Event] = []

    def begin(self, at: float, step: str, phase: str, subject: str = "", parent: str | None = None) -> None:
        self.told.append(StepStarted(step, parent, subject, phase, at))

    def end(self, at: float, step: str, outcome: str = "done", detail: str = "") -> None:
        self.told.append(StepFinished(step, outcome, 0.0, detail, at))  # type: ignore[arg-type]


def two_runs() -> list[Event]:
    tale = Tale()
    for up, at, slow in (("u7", 0.0, 0.0), ("u9", 1000.0, 20.0)):
        tale.begin(at, f"{up}.1", "lab")
        tale.begin(at + 1, f"d5.{at:.0f}1", "networks", parent=f"{up}.1")
        tale.begin(at + 1, f"d5.{at:.0f}2", "servers", parent=f"{up}.1")
        tale.end(at + 3, f"d5.{at:.0f}1")
        tale.end(at + 4, f"d5.{at:.0f}2")
        tale.end(at + 5, f"{up}.1")
        tale.begin(at + 6, f"d5.{at:.0f}3", "inspecting", "host/ctrl-0")
        tale.told.append(Note(f"d5.{at:.0f}3", "the agent calls", at + 7, "progress"))
        tale.told.append(Note(None, "", at + 8, "warning", "", "disk-low", {"free_mib": 3}))
        tale.end(at + 36 + slow, f"d5.{at:.0f}3", "failed", "<time-out> & \x1b more")
    return tale.told


def test_a_run_begins_with_an_up_and_has_what_labd_does_until_the_next() -> None:
    first, second = find_runs(two_runs())
    assert (first.number, second.number) == (1, 2) and len(first.spans) == len(second.spans) == 4
    assert (first.began, first.seconds, second.seconds) == (0.0, 36.0, 56.0)
    assert [span.phase for span in first.leaves()] == ["networks", "servers", "inspecting"]
    assert first.spans[-1].waits == "the agent calls" and first.notes[0].code == "disk-low"
    assert list(by_subject(first)) == ["", "host/ctrl-0"]


def test_what_a_killed_process_was_at_is_cut_off_when_the_next_one_speaks() -> None:
    tale = Tale()
    tale.begin(0, "u1.1", "hosts")
    tale.begin(1, "d2.1", "inspecting", "host/a")
    tale.begin(9, "d3.1", "inspecting", "host/a")  # another labd
    (run,) = find_runs(tale.told)
    assert [(span.outcome, span.ended) for span in run.spans] == [("running", None), (CUT_OFF, 9), ("running", None)]
    assert run.seconds == 9 and run.spans[2].seconds(now=20) == 11


def test_events_without_a_beginning_are_a_run_too_and_nothing_is_none() -> None:
    tale = Tale()
    tale.end(0, "d1.1")
    tale.begin(1, "d1.2", "inspecting", "host/a")
    assert [run.number for run in find_runs(tale.told)] == [1] and find_runs([]) == []


def test_in_a_row_steps_are_apart_or_inside_each_other() -> None:
    def span(began: float, ended: float) -> StepSpan:
        return StepSpan("s", None, "", "p", began, ended)

    outer, inner, beside, after = span(0, 10), span(1, 5), span(4, 12), span(5, 10)
    assert tracks([outer, inner, beside, after], 20) == [[outer, inner, after], [beside]]


def test_what_a_step_was_made_of_stands_below_it() -> None:
    def span(began: float, ended: float) -> StepSpan:
        return StepSpan("s", None, "", "p", began, ended)

    outer, inner, inmost, after = span(0, 10), span(1, 5), span(2, 3), span(10, 12)
    assert levels([outer, inner, inmost, after], 20) == [[outer, after], [inner], [inmost]]


def test_a_clock_that_is_set_back_makes_no_step_shorter_than_nothing() -> None:
    tale = Tale()
    tale.begin(100, "u1.1", "hosts")
    tale.begin(101, "d2.1", "inspecting", "host/a")
    tale.end(40, "d2.1")
    tale.begin(41, "d3.1", "inspecting", "host/b")
    (run,) = find_runs(tale.told)
    assert [span.seconds(50) for span in run.spans] == [0.0, 0.0, 9.0]
    ElementTree.fromstring(timeline_svg("lab", run, now=50))
    assert all(one.get("dur", 0) >= 0 for one in chrome_trace("lab", run, now=50)["traceEvents"])


def test_steps_that_follow_each_other_do_not_overlap_in_a_trace_by_rounding() -> None:
    tale = Tale()
    edges = [0.0000004, 1.0000014, 2.0000026, 3.0000031, 4.0000049]
    for number, (began, ended) in enumerate(pairwise(edges)):
        tale.begin(began, f"u1.{number}", "p", "host/a")
        tale.end(ended, f"u1.{number}")
    (run,) = find_runs(tale.told)
    spans = [one for one in chrome_trace("lab", run, now=9)["traceEvents"] if one["ph"] == "X"]
    assert [one["ts"] + one["dur"] for one in spans[:-1]] == [one["ts"] for one in spans[1:]]


def test_a_trace_has_what_perfetto_asks_for() -> None:
    run = find_runs(two_runs())[0]
    trace = json.loads(json.dumps(chrome_trace("lab", run, now=100.0)))
    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    spans = [one for one in trace["traceEvents"] if one["ph"] == "X"]
    names = {one["tid"]: one["args"]["name"] for one in trace["traceEvents"] if one["name"] == "thread_name"}
    assert len(spans) == 4
    for one in spans:
        assert {"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"} <= set(one) and one["tid"] in names
        assert isinstance(one["ts"], int) and isinstance(one["dur"], int) and one["ts"] >= 0 <= one["dur"]
    (host,) = [one for one in spans if one["cat"] == "host"]
    assert (host["ts"], host["dur"], names[host["tid"]]) == (6_000_000, 30_000_000, "host/ctrl-0")
    assert host["args"]["outcome"] == "failed" and host["args"]["waited for"] == "the agent calls"
    for tid in names:  # a thread is a stack: what overlaps lies inside
        mine = sorted((one["ts"], -one["dur"]) for one in spans if one["tid"] == tid)
        open_ends: list[int] = []
        for began, length in mine:
            while open_ends and open_ends[-1] <= began:
                open_ends.pop()
            assert not open_ends or began - length <= open_ends[-1]
            open_ends.append(began - length)
    (moment,) = [one for one in trace["traceEvents"] if one["ph"] == "i"]
    assert moment["s"] == "g" and moment["args"]["free_mib"] == 3


def test_the_picture_is_xml_with_a_bar_for_each_step_and_nothing_that_runs() -> None:
    run = find_runs(two_runs())[0]
    text = timeline_svg("lab <one>", run, now=100.0)
    root = ElementTree.fromstring(text)
    names = "{http://www.w3.org/2000/svg}"
    bars = [one for one in root.iter(f"{names}rect") if one.find(f"{names}title") is not None]
    assert len(bars) == 4 and not list(root.iter(f"{names}script"))
    told = "\n".join(one.text or "" for one in root.iter(f"{names}title"))
    assert "inspecting: failed, 30 s" in told and "<time-out> &" in told and "waited for: the agent calls" in told
    widths = [float(bar.get("width", "0")) for bar in bars]
    assert max(widths) == widths[-1], "the longest step has the longest bar"
    assert root.get("viewBox") and "failed" in text, "with what its colours mean"
    ElementTree.fromstring(timeline_svg("empty", Run(1, 5.0), now=6.0))


def test_what_became_slower_comes_first_and_what_is_chance_is_not_noticed() -> None:
    before, after = find_runs(two_runs())
    found = compare(before, after)
    assert found[0] == Difference("host/ctrl-0", "inspecting", 30.0, 50.0) and found[0].noticed
    assert [one.phase for one in found if one.noticed] == ["inspecting"] and len(found) == 3
    assert compare(after, before)[-1].seconds == -20
    assert not Difference("", "x", 100.0, 109.0).noticed and not Difference("", "x", 0.1, 0.9).noticed


def test_tries_of_the_same_are_added_up_and_what_one_did_not_do_is_told_as_that() -> None:
    tale = Tale()
    tale.begin(0, "u1.1", "inspecting", "host/a")
    tale.end(5, "u1.1", "failed")
    tale.begin(6, "u1.2", "inspecting", "host/a")
    tale.end(10, "u1.2")
    tale.begin(10, "u1.3", "packages")
    tale.end(11, "u1.3", "unchanged")
    (run,) = find_runs(tale.told)
    assert compare(Run(1, 0.0), run) == [Difference("host/a", "inspecting", None, 9.0)]
