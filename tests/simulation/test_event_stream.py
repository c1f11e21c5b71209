"""Who follows a lab's events hears each once and in order, whoever is killed meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from rackless.drivers.fake.script import Rule
from rackless.errors import RacklessError
from rackless.events import Bus, Event, StepFinished, StepStarted
from rackless.operations.lab_events import host_timeline, lab_events
from rackless.operations.own_events import own_events
from rackless.protocol.event_log import Missed, Numbered, last_number, read_events
from rackless.protocol.event_stream import EventsWanted
from rackless.run.ledger import Ledger
from tests.simulation.person import Person


def test_a_follower_misses_nothing_and_hears_nothing_twice_over_kills_of_the_daemon(person: Person) -> None:
    async def story() -> None:
        heard: list[Numbered | Missed] = []

        async def follow() -> None:
            async with aclosing(lab_events(person.paths, EventsWanted())) as stream:
                async for one in stream:
                    heard.append(one)

        def kill() -> None:
            for process in person.world.processes.named("rackless.labd.main"):
                person.world.processes.kill(process)

        following = asyncio.ensure_future(person.run("follow", follow()))
        person.world.script.rules.append(Rule("hypervisor.ensure ctrl-1", then=kill))
        person.world.script.rules.append(Rule("provisioner.provision ctrl-2", then=kill))
        for _ in range(3):
            try:
                await person.up()
                break
            except RacklessError:
                await person.world.drivers().clock.sleep(5)
        else:
            pytest.fail("three times were not enough")
        await person.down()
        await person.up()
        await person.world.drivers().clock.sleep(2)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert [one.seq for one in heard if isinstance(one, Numbered)] == list(range(1, len(heard) + 1))
        assert len(heard) == last_number(person.paths.events) > 100
        begun = [one.event.step for one in heard if isinstance(one, Numbered) and isinstance(one.event, StepStarted)]
        assert len(set(begun)) == len(begun), "steps of a daemon that is started again have names of their own"

        told = await person.run("timeline", host_timeline("lab", person.roots))
        assert {"registering", "inspecting", "provisioning"} <= {phase.name for phase in told["ctrl-2"]}
        await person.down()
        assert await person.run("timeline", host_timeline("lab", person.roots)) == told, "also while it is down"

    person.live(story)


def logged(person: Person) -> list[Event]:
    return [one.event for one in read_events(person.paths.events, 0, ["*"]) if isinstance(one, Numbered)]


def test_what_up_does_before_and_beside_the_daemon_is_in_the_log_once_and_above_what_the_daemon_does(
    person: Person,
) -> None:
    async def story() -> None:
        await person.up()
        told = logged(person)
        begun = [event for event in told if isinstance(event, StepStarted)]
        phases = [event.phase for event in begun]
        for own in ("this computer", "packages", "namespaces and daemon", "lab", "provisioning engine", "cluster"):
            assert phases.count(own) == 1, own
        assert phases.index("packages") < phases.index("namespaces and daemon") < phases.index("libvirtd")
        known = {event.step for event in begun}
        assert {event.parent for event in begun} <= known | {None}
        assert known == {event.step for event in told if isinstance(event, StepFinished)}, "each has ended"
        assert sorted(map(repr, told)) == sorted(map(repr, person.seen)), "what was shown, and nothing twice"

    person.live(story)


def test_an_up_that_fails_before_there_is_a_daemon_is_in_the_log_of_the_lab_that_is_there(person: Person) -> None:
    async def story() -> None:
        await person.up("lab")
        await person.down()
        before = last_number(person.paths.events)
        person.world.packages.missing, person.world.packages.unknown = set(), {"openssh-client"}
        with pytest.raises(RacklessError):
            await person.up("lab")
        failed = [event for event in logged(person)[before:] if isinstance(event, StepFinished)]
        assert [event.outcome for event in failed] == ["failed", "failed"] and failed[0].cause == "CommandFailed"
        person.world.packages.unknown = set()
        await person.up("lab")
        numbers = [one.seq for one in read_events(person.paths.events, 0, ["*"]) if isinstance(one, Numbered)]
        assert numbers == list(range(1, len(numbers) + 1)), "the daemon goes on from there"

    person.live(story)


def test_where_there_is_no_lab_nothing_is_left_of_an_up_that_failed(person: Person) -> None:
    async def story() -> None:
        person.world.packages.unknown = {"openssh-client"}
        with pytest.raises(RacklessError):
            await person.up()
        assert not person.paths.state.exists()

    person.live(story)


def test_what_down_does_is_in_the_log_and_what_was_left_when_the_daemon_ended_too(person: Person) -> None:
    async def story() -> None:
        await person.up("lab")
        before = len(person.seen)
        await person.down()
        await person.down()
        told = logged(person)
        begun = [event for event in told if isinstance(event, StepStarted)]
        phases = [event.phase for event in begun]
        own = [
            phase
            for phase in phases[phases.index("stop lab") :]
            if phase in ("stop lab", "servers", "daemon and networks")
        ]
        assert own == ["stop lab", "servers", "daemon and networks", "stop lab"]
        assert {event.step for event in begun} == {event.step for event in told if isinstance(event, StepFinished)}
        assert all(told.count(event) == 1 for event in person.seen[before:]), "what was shown, and nothing twice"
        await person.up("lab")
        numbers = [one.seq for one in read_events(person.paths.events, 0, ["*"]) if isinstance(one, Numbered)]
        assert numbers == list(range(1, len(numbers) + 1)), "the daemon goes on from there"

    person.live(story)


def test_the_steps_of_a_down_whose_daemon_was_killed_are_not_lost(person: Person) -> None:
    async def story() -> None:
        await person.up("lab")
        for name in ("rackless.holder.main", "rackless.labd.main"):
            for process in person.world.processes.named(name):
                person.world.processes.kill(process)
        await person.down()
        phases = [event.phase for event in logged(person) if isinstance(event, StepStarted)]
        assert phases[-2:] == ["stop lab", "daemon and networks"]

    person.live(story)


def test_who_follows_hears_that_a_lab_is_destroyed_and_a_destroy_that_fails_is_in_what_is_left_of_the_log(
    person: Person,
) -> None:
    async def story() -> None:
        await person.up("lab")
        heard: list[Numbered | Missed] = []

        async def follow() -> None:
            async with aclosing(lab_events(person.paths, EventsWanted())) as stream:
                async for one in stream:
                    heard.append(one)

        following = asyncio.ensure_future(person.run("follow", follow()))
        await person.world.drivers().clock.sleep(1)
        Ledger(person.paths.ledger).own("moon", "of a newer version")
        with pytest.raises(RacklessError, match="does not know"):
            await person.destroy()
        await person.world.drivers().clock.sleep(1)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        begun = [one.event for one in heard if isinstance(one, Numbered) and isinstance(one.event, StepStarted)]
        assert "destroy lab" in [event.phase for event in begun]
        failed = [event for event in logged(person) if isinstance(event, StepFinished) and event.outcome == "failed"]
        assert [event.cause for event in failed] == ["LabError", "LabError"], "the entry's and the whole"

    person.live(story)


def test_what_a_command_does_for_long_is_in_the_timeline_before_it_ends(person: Person) -> None:
    """An install's: labd has no part in it."""

    async def story() -> None:
        await person.up("bmc")
        drivers = person.world.drivers()

        async def install() -> None:
            async with own_events(Bus(), person.paths, drivers) as own, own.telling(person.paths, drivers.clock):
                with own.bus.step("registering", subject="host/ctrl-0"):
                    await drivers.clock.sleep(60)
                with own.bus.step("inspecting", subject="host/ctrl-0"):
                    await drivers.clock.sleep(60)

        installing = asyncio.ensure_future(person.run("install", install()))
        await drivers.clock.sleep(90)
        told = (await person.run("timeline", host_timeline("lab", person.roots)))["ctrl-0"]
        assert [(phase.name, phase.outcome) for phase in told] == [("registering", "done"), ("inspecting", "running")]
        await installing
        told = (await person.run("timeline", host_timeline("lab", person.roots)))["ctrl-0"]
        assert [(phase.name, phase.outcome) for phase in told] == [("registering", "done"), ("inspecting", "done")]

    person.live(story)
