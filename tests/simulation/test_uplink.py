"""A lab with a way out, on fakes: what it opens on the hypervisor, that labs share it, and that nothing of it stays."""

from __future__ import annotations

import copy
from ipaddress import IPv4Network

import pytest

from rackless.drivers.fake.processes import WasKilled
from rackless.drivers.fake.script import Rule
from rackless.ports.computer_network import KnownRoute
from rackless.spec.load import parse
from tests.simulation.person import Person
from tests.simulation.test_plan_and_effects import compare

WAY_OUT = "name: lab\nnetworks: {uplink: {mode: nat}}\nservers: {worker: {count: 1}}"
WIFI = "wlan0"


def with_way_out(person: Person, **more: str) -> None:
    text = WAY_OUT.replace("mode: nat", ", ".join(["mode: nat", *(f"{name}: {value}" for name, value in more.items())]))
    person.spec = parse(text, "lab.yaml")


def remembered(person: Person) -> object:
    """All of the hypervisor that an uplink could change."""
    network = person.world.network
    return copy.deepcopy((network.forwarding, network.cables, network.on, person.world.firewall.tables))


def test_what_is_planned_of_an_uplink_is_done_and_nothing_of_it_stays(person: Person) -> None:
    with_way_out(person)

    async def story() -> None:
        network, before = person.world.network, remembered(person)
        assert "network/uplink" in await compare(person, "lab")
        (cable,) = network.cables.values()
        assert network.on == {cable.link} and cable.namespace == person.paths.netns
        assert network.forwarding["eth0"] and network.forwarding[cable.link] and not network.forwarding["all"]
        assert person.paths.upstream.read_text() == "203.0.113.1"
        await person.down()
        assert remembered(person) == before
        assert "network/uplink" in await compare(person, "lab")
        await person.destroy()
        assert remembered(person) == before

    person.live(story)


def test_an_uplink_that_may_reach_something_else_is_made_right(person: Person) -> None:
    with_way_out(person)

    async def story() -> None:
        await person.up("lab")
        with_way_out(person, reach="['192.0.2.8:5000']")
        assert "network/uplink" in await compare(person, "lab")
        ours = [
            inside for (space, _), inside in person.world.firewall.tables.items() if space == str(person.paths.netns)
        ]
        assert any("192.0.2.8" in inside for inside in ours)
        person.spec = parse(WAY_OUT.replace("mode: nat", "mode: none"), "lab.yaml")
        await person.up("lab")
        assert person.world.network.cables == {} and not person.world.network.forwarding["eth0"]

    person.live(story)


def test_labs_share_what_is_open_and_the_last_one_closes_it(person: Person) -> None:
    with_way_out(person)

    async def story() -> None:
        before = remembered(person)
        await person.up("lab")
        first, person.spec = person.spec, person.spec.model_copy(update={"name": "other"})
        await person.up("lab")
        assert len(person.world.network.cables) == 2
        await person.destroy()
        assert person.world.network.forwarding["eth0"], "the first lab still needs it"
        person.spec = first
        await person.destroy()
        assert remembered(person) == before

    person.live(story)


def test_a_computer_that_moved_to_another_network_is_noticed_and_the_old_way_is_closed(person: Person) -> None:
    with_way_out(person)

    async def story() -> None:
        await person.up("lab")
        network = person.world.network
        network.forwarding[WIFI] = False
        network.known = [KnownRoute(IPv4Network("0.0.0.0/0"), (WIFI,)), KnownRoute(IPv4Network("10.7.0.0/24"), (WIFI,))]
        assert await compare(person, "lab") == {"network/uplink"}
        assert network.forwarding[WIFI] and not network.forwarding["eth0"]
        network.forwarding["all"] = True  # by another program
        await person.destroy()
        assert network.forwarding[WIFI], "what somebody else turned on stays"

    person.live(story)


def test_after_a_restart_of_the_computer_the_uplink_is_made_again(person: Person) -> None:
    with_way_out(person)

    async def story() -> None:
        await person.up("lab")
        person.world.restart_computer(person.roots.run)
        assert person.world.network.cables == {}
        assert "network/uplink" in await compare(person, "lab")

    person.live(story)


@pytest.mark.parametrize("when", ["network.join *", "network.switch_on *", "firewall.replace rackless_uplink"])
def test_a_kill_while_the_uplink_is_made_leaves_nothing_that_destroy_does_not_find(person: Person, when: str) -> None:
    with_way_out(person)

    async def story() -> None:
        before = remembered(person)

        def strike() -> None:
            for process in person.world.processes.named("up"):
                person.world.processes.kill(process)

        person.world.script.rules.append(Rule(when, then=strike))
        with pytest.raises(WasKilled):
            await person.up("lab")
        await person.destroy()
        assert remembered(person) == before
        await person.up("lab")
        assert len(person.world.network.cables) == 1

    person.live(story)
