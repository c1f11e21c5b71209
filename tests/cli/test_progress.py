import io

from rich.console import Console

from rackless.cli.failure import show
from rackless.cli.progress import ProgressPrinter
from rackless.diagnosis.estimates import Usual
from rackless.errors import LabError, Problem, SpecError
from rackless.events import Bus, StepFinished, StepStarted


def lines(output: io.StringIO) -> list[str]:
    return [line.rstrip() for line in output.getvalue().splitlines()]


def progress() -> tuple[Bus, io.StringIO]:
    output = io.StringIO()
    bus = Bus()
    bus.subscribe(ProgressPrinter(Console(file=output, width=100, highlight=False)))
    return bus, output


def test_steps_are_shown_below_the_step_they_belong_to() -> None:
    bus, output = progress()
    with bus.step("lab"), bus.step("networks") as networks:
        networks.detail = "three"
    shown = lines(output)
    assert shown[0] == "▾ lab"
    assert shown[1].startswith("  ✓ networks") and shown[1].endswith("three")
    assert shown[2].startswith("✓ lab")


def test_what_was_there_already_is_said_quietly() -> None:
    bus, output = progress()
    with bus.step("packages") as step:
        step.unchanged("all there")
    assert lines(output) == ["· packages  all there"]


def test_a_step_that_began_before_we_looked_is_shown_where_we_are() -> None:
    bus, output = progress()
    from rackless.events import inside

    with bus.step("hosts"), inside("d99"), bus.step("ctrl-0: inspecting"):
        pass
    assert lines(output)[1].startswith("  ✓ ctrl-0: inspecting")


def test_a_failure_is_what_why_and_what_to_do() -> None:
    output = io.StringIO()
    long = "the cable " * 20
    error = LabError("it broke", why=f"{long}\nis out", hint="plug it in", log="/x/log")
    show(error, Console(file=output, width=80, soft_wrap=True))
    assert lines(output) == ["error: it broke", f"  {long.rstrip()}", "  is out", "log: /x/log", "do: plug it in"]


def test_all_problems_of_a_spec_are_listed_with_their_lines() -> None:
    output = io.StringIO()
    show(
        SpecError("lab.yaml", [Problem("name", "bad", 3, "better"), Problem("servers", "worse")]), Console(file=output)
    )
    text = output.getvalue()
    assert "lab.yaml:3: name: bad (better)" in text and "lab.yaml: servers: worse" in text


def test_what_runs_is_shown_with_what_is_usual_and_what_was_slow_is_said_to_be() -> None:
    output = io.StringIO()
    console = Console(file=output, width=120, highlight=False)
    printer = ProgressPrinter(console, lambda event: Usual(100, 100, 100, 5) if event.phase == "inspecting" else None)
    printer(StepStarted("d1", None, "host/ctrl-0", "inspecting", 0.0))
    console.print(printer)
    assert "ctrl-0: inspecting" in output.getvalue() and "usually 1 min 40 s here" in output.getvalue()
    printer(StepFinished("d1", "done", 120.0, "", 120.0))
    assert lines(output)[-1] == "✓ ctrl-0: inspecting  2 min 00 s"
    printer(StepStarted("d2", None, "host/ctrl-1", "inspecting", 0.0))
    printer(StepFinished("d2", "done", 300.0, "", 300.0))
    assert lines(output)[-1] == "✓ ctrl-1: inspecting  5 min 00 s (usually 1 min 40 s here)"
