"""A whole `up` on fakes teaches how long its steps take; one that found everything there teaches nothing."""

from __future__ import annotations

from rackless.operations.estimates import known_estimates
from rackless.operations.runs import lab_runs
from tests.simulation.person import Person


def test_a_run_teaches_and_one_that_finds_everything_there_does_not(person: Person) -> None:
    async def story() -> None:
        await person.up()
        known = known_estimates(person.roots)
        hosts = len(person.described.servers)
        inspecting, whole = known.usual("host: inspecting"), known.usual(f"hosts servers={hosts}")
        assert inspecting is not None and inspecting.runs == hosts and whole is not None and whole.runs == 1
        await person.up()
        again = known_estimates(person.roots)
        assert again.usual("host: inspecting") == inspecting and again.usual(f"hosts servers={hosts}") == whole
        runs = await lab_runs("lab", person.roots)
        assert [run.number for run in runs] == [1, 2]
        assert any(span.subject.startswith("host/") for span in runs[0].spans)

    person.live(story)
