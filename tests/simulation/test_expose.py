"""Ports of the hypervisor that lead into a lab: in its ledger before they are open, kept by its holder, gone with it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from rackless.drivers.fake.loop import VirtualLoop
from rackless.errors import InputError, LabError
from rackless.operations import expose
from rackless.plan.exposure import LOOPBACK, PORTS, What
from rackless.run.ledger import Ledger
from rackless.spec.load import parse
from tests.simulation.person import Person

LAB = "name: lab\nservers: {node: {count: 2}}"


class Exposing:
    def __init__(self, person: Person) -> None:
        self.person = person
        person.spec = parse(LAB, "lab.yaml")

    async def open(self, what: What, *servers: str, address: str = LOOPBACK, port: int | None = None) -> expose.Exposed:
        drivers = self.person.world.drivers()
        work = expose.expose(
            "lab", what, self.person.roots, drivers, servers=servers, address=address, port=port
        )  # fmt: skip
        return await self.person.run("expose", work)

    async def close(self, what: What | None = None, servers: Sequence[str] = ()) -> list[str]:
        drivers = self.person.world.drivers()
        work = expose.unexpose("lab", self.person.roots, drivers, what=what, servers=servers)
        return [one.id for one in await self.person.run("unexpose", work)]

    def listening(self) -> set[str]:
        """On the computer's side, at these ports or above."""
        here = [place[2:] for place in _taken() if place[0] is None]
        return {f"{address}:{port}" for address, port in here if port >= PORTS[0]}

    def ledger(self) -> list[str]:
        return [entry.id for entry in Ledger(self.person.paths.ledger).entries() if entry.kind == "forward"]


def _taken() -> set[Any]:
    """What programs have bound, on the computer's side and in labs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.taken


@pytest.fixture
def lab(person: Person) -> Exposing:
    return Exposing(person)


def test_bmcs_are_exposed_stay_while_labd_is_killed_and_go_with_the_lab(lab: Exposing, person: Person) -> None:
    async def story() -> None:
        await person.up("bmc")
        done = await lab.open("bmc")
        assert done.open and [one.port for one in done.forwards] == [17000, 17000, 17001, 17001]
        assert lab.listening() == {"127.0.0.1:17000", "127.0.0.1:17001"}
        assert (await lab.open("bmc")).forwards == done.forwards, "asking again changes nothing"
        processes = person.world.processes
        labd = processes.find(person.paths.labd_pid)
        assert labd is not None
        processes.kill(processes.all[labd])
        await person.world.drivers().clock.sleep(5)
        assert lab.listening() == {"127.0.0.1:17000", "127.0.0.1:17001"}
        await person.down()
        assert lab.listening() == set() and len(lab.ledger()) == 4, "a lab that is stopped keeps what it was told"
        await person.up("bmc")
        assert lab.listening() == {"127.0.0.1:17000", "127.0.0.1:17001"}
        await person.destroy()
        assert lab.listening() == set() and lab.ledger() == []

    person.live(story)


def test_one_is_closed_and_the_others_stay_open(lab: Exposing, person: Person) -> None:
    async def story() -> None:
        await person.up("bmc")
        await lab.open("bmc", "node-1")
        await lab.open("ssh", port=17100)
        assert lab.listening() == {"127.0.0.1:17000", "127.0.0.1:17100", "127.0.0.1:17101"}
        assert await lab.close("ssh", ["node-0"]) == ["tcp/127.0.0.1:17100"]
        assert lab.listening() == {"127.0.0.1:17000", "127.0.0.1:17101"}
        assert await lab.close() == ["tcp/127.0.0.1:17000", "udp/127.0.0.1:17000", "tcp/127.0.0.1:17101"]
        assert (lab.listening(), lab.ledger(), await lab.close()) == (set(), [], [])

    person.live(story)


def test_what_is_exposed_of_a_lab_that_is_stopped_opens_when_it_starts(lab: Exposing, person: Person) -> None:
    async def story() -> None:
        await person.up("bmc")
        await person.down()
        assert not (await lab.open("api", address="192.0.2.1", port=17443)).open
        assert lab.listening() == set()
        await person.up("bmc")
        assert lab.listening() == {"192.0.2.1:17443"}

    person.live(story)


def test_mistakes_are_told_and_leave_nothing_in_the_ledger(lab: Exposing, person: Person) -> None:
    async def story() -> None:
        with pytest.raises(LabError, match="there is no lab named lab"):
            await lab.open("bmc")
        await person.up("bmc")
        with pytest.raises(InputError, match="has no server moon"):
            await lab.open("bmc", "moon")
        with pytest.raises(InputError, match="nowhere is no address"):
            await lab.open("api", address="nowhere")
        await lab.open("api", port=17500)
        with pytest.raises(LabError, match=r"127.0.0.1:17500 is taken"):
            await lab.open("cluster", port=17500)
        assert lab.ledger() == ["tcp/127.0.0.1:17500"]

    person.live(story)


def test_ports_of_other_programs_are_passed_over_unless_they_were_named(lab: Exposing, person: Person) -> None:
    async def story() -> None:
        await person.up("bmc")
        _taken().update((None, socket.SOCK_STREAM, LOOPBACK, port) for port in (17000, 17002))
        assert [one.port for one in (await lab.open("ssh")).forwards] == [17001, 17003]
        with pytest.raises(LabError, match=r"127.0.0.1:17002 cannot be listened at"):
            await lab.open("api", port=17002)
        assert lab.ledger() == ["tcp/127.0.0.1:17001", "tcp/127.0.0.1:17003"]

    person.live(story)
