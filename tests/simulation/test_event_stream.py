"""Who follows a lab's events hears each once and in order, whoever is killed meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from rackless.drivers.fake.script import Rule
from rackless.errors import RacklessError
from rackless.events import StepStarted
from rackless.operations.lab_events import host_timeline, lab_events
from rackless.protocol.event_log import Missed, Numbered, last_number
from rackless.protocol.event_stream import EventsWanted
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
