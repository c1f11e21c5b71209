"""Whoever is killed, and wherever: the next `up` goes on and finishes, and `destroy` leaves nothing."""

from __future__ import annotations

import asyncio

import pytest

from rackless.drivers.fake.processes import WasKilled
from rackless.drivers.fake.script import Rule
from rackless.errors import RacklessError
from rackless.simulation.person import Person

SERVERS = {"ctrl-0", "ctrl-1", "ctrl-2", "worker-0"}
PROGRAMS = {"up": "up", "labd": "rackless.labd.main", "holder": "rackless.holder.main", "libvirtd": "libvirtd"}


def kill(person: Person, program: str) -> None:
    for process in person.world.processes.named(PROGRAMS[program]):
        person.world.processes.kill(process)


@pytest.mark.parametrize(
    ("victim", "when"),
    [
        ("up", "processes.launch *"),
        ("up", "hypervisor.ensure ctrl-1"),
        ("up", "provisioner.provision ctrl-2"),
        ("labd", "networks.ensure_network cluster"),
        ("labd", "hypervisor.ensure ctrl-1"),
        ("labd", "processes.start ironic"),
        ("labd", "provisioner.provision worker-0"),
        ("labd", "nodes.admit *"),
        ("holder", "processes.start libvirtd"),
        ("holder", "provisioner.inspect ctrl-0"),
        ("libvirtd", "hypervisor.ensure worker-0"),
    ],
)
def test_a_kill_in_the_middle_costs_one_more_up(person: Person, victim: str, when: str) -> None:
    killed: list[str] = []

    def strike() -> None:
        killed.append(victim)
        kill(person, victim)

    async def story() -> None:
        person.world.script.rules.append(Rule(when, then=strike))
        try:
            await person.up()
        except (RacklessError, WasKilled):
            await person.world.drivers().clock.sleep(5)
            await person.up()
        assert killed == [victim], "the script was played"
        found = await person.status()
        assert [server["host"] for server in found["servers"]] == ["provisioned"] * 4
        assert set(person.lab.running()) == set(person.lab.nodes.joined) == SERVERS
        assert found["reached"] == "cluster" and found["cut_off"] == []
        await person.destroy()
        assert not any(process.alive for process in person.world.processes.all.values())
        assert person.world.pinned == set() and person.lab.running() == []
        assert not person.roots.state.exists() and not person.roots.run.exists()

    person.live(story)


def test_status_says_where_a_killed_run_was(person: Person) -> None:
    async def story() -> None:
        person.world.script.rules.append(Rule("hypervisor.ensure ctrl-1", then=lambda: kill(person, "labd")))
        with pytest.raises(RacklessError, match="went away"):
            await person.up("lab")
        await person.world.drivers().clock.sleep(10)
        found = await person.status()
        assert found["reached"] is None
        assert "create server/ctrl-1" in found["cut_off"]

    person.live(story)


def test_two_who_change_the_same_lab_do_not_meet_and_a_dead_one_holds_nothing(person: Person) -> None:
    async def story() -> None:
        def meet() -> None:
            second.append(asyncio.ensure_future(person.up("lab")))

        second: list[asyncio.Future[None]] = []
        person.world.script.rules.append(Rule("hypervisor.ensure ctrl-0", then=meet, seconds=5))
        person.world.script.rules.append(Rule("hypervisor.ensure ctrl-1", then=lambda: kill(person, "up")))
        with pytest.raises(WasKilled):
            await person.up("lab")
        with pytest.raises(RacklessError, match="another rackless is working on the lab"):
            await second[0]
        await person.up("lab")

    person.live(story)
