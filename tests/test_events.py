from rackless import events


def test_steps_opened_inside_a_step_are_nested_in_it_and_survive_json() -> None:
    seen: list[events.Event] = []
    bus = events.Bus()
    bus.subscribe(lambda event: seen.append(events.from_json(events.to_json(event))))

    with bus.step("outer") as outer, bus.step("inner") as inner:
        inner.progress("half way")
        inner.unchanged("was there")

    started = [event for event in seen if isinstance(event, events.StepStarted)]
    assert [(event.title, event.parent) for event in started] == [("outer", None), ("inner", outer.id)]
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
