"""Whole labs of fakes that are repaired: by themselves with `remediation: auto`, else when a person says so."""

from __future__ import annotations

import pytest

from rackless.diagnosis.remedy import Remedy, read_tried
from rackless.drivers.fake.provisioner import Fault
from rackless.errors import LabError, RacklessError
from rackless.events import Bus, Note
from rackless.operations.remedies import apply
from rackless.operations.why import why_lab
from rackless.protocol.event_log import Numbered, read_events
from rackless.protocol.messages import RemedyOutcome
from rackless.spec.load import parse
from tests.simulation.person import Person

ONE = "name: lab\nservers: {{node: {{role: worker, count: 1}}}}\nremediation: {}\n"
SILENT = "timeout reached while inspecting the node: the agent on the server was not heard of in time"


async def found(person: Person) -> list[tuple[str, Remedy | None]]:
    answer = await person.run("why", why_lab("lab", person.roots, person.world.drivers()))
    return [(one.rule, one.fix) for one in answer.findings]


async def found_at_last(person: Person) -> list[tuple[str, Remedy | None]]:
    """While a host is tried again its error is not in its record."""
    for _ in range(60):
        if answer := await found(person):
            return answer
        await person.world.drivers().clock.sleep(10)
    return []


async def fix(person: Person, remedy: Remedy) -> RemedyOutcome:
    return await person.run("why", apply("lab", remedy, person.roots, Bus(), person.world.drivers()))


def told(person: Person) -> list[str]:
    events = read_events(person.paths.events, 0, ["*"])
    notes = [one.event for one in events if isinstance(one, Numbered) and isinstance(one.event, Note)]
    return [note.code for note in notes if note.code.startswith("remedy-")]


async def until_it_fails(person: Person) -> None:
    """A server whose agent is never heard of: the engine says so at each try."""
    person.lab.provisioner.faults.append(Fault("inspect", "node-0", SILENT, times=1000))
    with pytest.raises(RacklessError):
        await person.up("hosts")


def test_with_auto_a_server_whose_agent_is_never_heard_of_is_restarted_once(person: Person) -> None:
    person.spec = parse(ONE.format("auto"), "lab.yaml")

    async def story() -> None:
        await person.up("engine")
        await until_it_fails(person)
        await person.world.drivers().clock.sleep(3600)
        tried = read_tried(person.paths.remedies.read_text())
        assert [(one.remedy.cure, one.remedy.name, one.by) for one in tried] == [("restart-server", "node-0", "lab")]
        assert told(person).count("remedy-applied") == 1

    person.live(story)


def test_with_ask_nothing_is_done_until_a_person_says_so_and_then_once(person: Person) -> None:
    person.spec = parse(ONE.format("ask"), "lab.yaml")

    async def story() -> None:
        await person.up("engine")
        await until_it_fails(person)
        await person.world.drivers().clock.sleep(600)
        assert told(person) == [] and not person.paths.remedies.exists()
        [(rule, remedy)] = await found_at_last(person)
        assert rule == "host/no-kernel" and remedy is not None
        assert (await fix(person, remedy)).applied
        await person.world.drivers().clock.sleep(600)
        await found_at_last(person)
        again = await fix(person, remedy)
        assert not again.applied and told(person) == ["remedy-applied", "remedy-in-vain"]

        person.lab.provisioner.faults.clear()
        await person.wish("retry", "node-0")
        await person.up("hosts")
        assert await found(person) == []

    person.live(story)


def test_a_daemon_that_is_gone_is_started_by_whoever_asks(person: Person) -> None:
    person.spec = parse(ONE.format("ask"), "lab.yaml")

    async def story() -> None:
        await person.up("bmc")
        person.world.restart_computer(person.roots.run)
        [(rule, remedy)] = await found(person)
        assert rule == "lab/daemon-gone" and remedy is not None
        assert (await fix(person, remedy)).applied
        assert await found(person) == [] and (await person.status())["daemon"] == "running"
        assert told(person) == ["remedy-applied"]

    person.live(story)


def test_with_off_not_even_a_person_has_it_done(person: Person) -> None:
    person.spec = parse(ONE.format("off"), "lab.yaml")

    async def story() -> None:
        await person.up("bmc")
        person.world.restart_computer(person.roots.run)
        [(_, remedy)] = await found(person)
        assert remedy is not None
        with pytest.raises(LabError, match="does nothing about"):
            await fix(person, remedy)

    person.live(story)
