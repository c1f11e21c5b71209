import json

import pytest

from rackless import events
from rackless.errors import LabError
from rackless.events import Bus, Event, Note, StepFinished, StepStarted, from_json, to_json


def test_steps_opened_inside_a_step_are_nested_in_it_and_survive_json() -> None:
    seen: list[events.Event] = []
    bus = events.Bus()
    bus.subscribe(lambda event: seen.append(events.from_json(events.to_json(event))))

    with bus.step("outer") as outer, bus.step("inner") as inner:
        inner.progress("half way")
        inner.unchanged("was there")

    started = [event for event in seen if isinstance(event, events.StepStarted)]
    assert [(event.phase, event.parent) for event in started] == [("outer", None), ("inner", outer.id)]
    finished = {event.step: event for event in seen if isinstance(event, events.StepFinished)}
    assert finished[inner.id].outcome == "unchanged"
    assert finished[outer.id].outcome == "done"


def test_a_step_that_raises_is_failed_and_says_the_first_line_why() -> None:
    seen: list[events.Event] = []
    bus = events.Bus()
    bus.subscribe(seen.append)

    try:
        with bus.step("doomed"):
            raise ValueError("no disk\nmore detail")
    except ValueError:
        pass

    last = seen[-1]
    assert isinstance(last, events.StepFinished)
    assert (last.outcome, last.detail) == ("failed", "no disk")


def test_notes_carry_the_subject_of_the_step_they_are_made_in() -> None:
    bus, seen = Bus(), list[Event]()
    bus.subscribe(seen.append)
    with bus.step("inspecting", subject="host/ctrl-0") as step:
        step.progress("booting")
        with bus.step("reading the inventory"):
            bus.warn("slow")
        bus.info("elsewhere", subject="host/ctrl-1")
    bus.info("afterwards")
    notes = [(event.message, event.subject) for event in seen if isinstance(event, Note)]
    assert notes == [
        ("booting", "host/ctrl-0"),
        ("slow", "host/ctrl-0"),
        ("elsewhere", "host/ctrl-1"),
        ("afterwards", ""),
    ]


def test_a_step_that_fails_says_of_what_kind_its_cause_is() -> None:
    bus, seen = Bus(), list[Event]()
    bus.subscribe(seen.append)
    with pytest.raises(ExceptionGroup), bus.step("all"):
        raise ExceptionGroup("several", [ValueError("x"), LabError("the lab is away", why="somebody took it")])
    with pytest.raises(KeyError), bus.step("one"):
        raise KeyError("x")
    causes = [(event.outcome, event.cause) for event in seen if isinstance(event, StepFinished)]
    assert causes == [("failed", "LabError"), ("failed", "KeyError")]


def test_the_journal_of_an_older_lab_is_still_read() -> None:
    old = {"event": "step-started", "step": "s1", "parent": None, "at": 1.0}
    assert from_json({**old, "title": "ctrl-0: inspecting"}) == StepStarted(
        "s1", None, "host/ctrl-0", "inspecting", 1.0
    )
    assert from_json({**old, "title": "networks"}) == StepStarted("s1", None, "", "networks", 1.0)


def test_events_are_the_same_after_they_have_crossed_the_socket() -> None:
    bus, seen = Bus(), list[Event]()
    bus.subscribe(seen.append)
    with bus.step("servers", subject="lab/lab", servers=4) as step:
        step.progress("one")
    assert [from_json(json.loads(json.dumps(to_json(event)))) for event in seen] == seen
