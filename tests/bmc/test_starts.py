"""Not all servers at once: in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from rackless.bmc.core.chassis import Chassis
from rackless.bmc.core.disk import StateDisk
from rackless.bmc.core.media import MediaShelf
from rackless.bmc.core.power import Reset
from rackless.bmc.core.start_limit import Pace, Starts, default_limit
from rackless.bmc.core.state import JsonFile, When
from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.errors import LabError
from rackless.events import Bus
from rackless.ports.hypervisor import Power, Unreachable
from tests.bmc.conftest import MakeRack, server

PACE = Pace(settle_seconds=30, longest_wait=120)


class Instant(StateDisk):
    """Takes no time: a real disk's would not pass on a virtual clock."""

    async def replace(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)


class World:
    """Servers that are all told to start at time 0, and when each of them really did."""

    def __init__(self, tmp_path: Path, count: int, limit: int, *, pace: Pace = PACE, processor: bool = False) -> None:
        self.clock = VirtualClock()
        self.hypervisor = FakeHypervisor()
        self.hypervisor.define(server(number) for number in range(count))
        self.starts = Starts(limit, self.clock, self.hypervisor.processor_seconds if processor else None, pace)
        shelf = MediaShelf(tmp_path)
        self.chassis = [
            Chassis(f"server-{number}", "127.0.0.1", self.hypervisor, shelf, JsonFile(tmp_path / f"{number}.json", Instant()),
                    Bus(), starts=self.starts)
            for number in range(count)
        ]  # fmt: skip
        self.at: dict[str, float] = {}

    async def look(self) -> None:
        for chassis in self.chassis:
            await chassis.look()

    def on(self) -> list[str]:
        return [chassis.name for chassis in self.chassis if chassis.server().power is Power.ON]

    async def watch(self, until: int) -> dict[str, float]:
        while len(self.at) < until:
            for chassis in self.chassis:
                if chassis.server().power is Power.ON:
                    self.at.setdefault(chassis.name, self.clock.now())
            await self.clock.sleep(0.5)
        return self.at

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def whole() -> Any:
            await self.look()
            try:
                return await self.clock.run(work)
            finally:
                await self.starts.close()

        return asyncio.run(whole())


def test_only_so_many_start_at_once_and_the_others_follow_when_those_have_settled(tmp_path: Path) -> None:
    world = World(tmp_path, 7, 3)

    async def go() -> None:
        await asyncio.gather(*(chassis.reset(Reset.ON) for chassis in world.chassis))
        assert len(world.on()) == 3
        assert sum(chassis.starting for chassis in world.chassis) == 4
        await world.watch(7)

    world.run(go())
    times = sorted(world.at.values())
    assert times[:3] == [0, 0, 0]
    assert all(30 <= time <= 31 for time in times[3:6])
    assert 60 <= times[6] <= 62
    assert list(world.at) == [f"server-{number}" for number in range(7)]


def test_a_server_that_has_calmed_down_makes_room_before_the_settle_time(tmp_path: Path) -> None:
    world = World(tmp_path, 2, 1, processor=True)

    async def burn() -> None:
        """server-0 uses a whole processor for ten seconds."""
        for tenth in range(100):
            world.hypervisor.processor["server-0"] = tenth / 10
            await world.clock.sleep(0.1)

    async def go() -> None:
        burning = asyncio.create_task(burn())
        for chassis in world.chassis:
            await chassis.reset(Reset.ON)
        await world.watch(2)
        await burning

    world.run(go())
    assert 10 <= world.at["server-1"] <= 15


def test_nobody_waits_longer_than_the_cap(tmp_path: Path) -> None:
    world = World(tmp_path, 3, 1, pace=Pace(settle_seconds=10_000, longest_wait=120))

    async def go() -> None:
        for chassis in world.chassis:
            await chassis.reset(Reset.ON)
        await world.watch(3)

    world.run(go())
    assert sorted(round(time) for time in world.at.values()) in ([0, 120, 120], [0, 120, 121])


def test_switching_off_while_it_waits_takes_it_out_of_the_line(tmp_path: Path) -> None:
    world = World(tmp_path, 3, 1)
    first, second, third = world.chassis

    async def go() -> None:
        for chassis in world.chassis:
            await chassis.reset(Reset.ON)
        await second.reset(Reset.FORCE_OFF)
        assert not second.starting
        await second.reset(Reset.ON)  # at the end of the line
        await second.reset(Reset.ON)  # once
        await first.reset(Reset.FORCE_OFF)  # makes room at once
        await world.clock.sleep(1)
        assert world.on() == [third.name]
        await world.clock.sleep(31)
        assert world.on() == [second.name, third.name]

    world.run(go())
    assert world.hypervisor.called("power_on") == [("power_on", f"server-{number}") for number in (0, 2, 1)]


def test_a_start_that_fails_in_its_turn_makes_room_and_is_told(tmp_path: Path) -> None:
    world = World(tmp_path, 3, 1)

    async def go() -> None:
        for chassis in world.chassis:
            await chassis.reset(Reset.ON)
        world.hypervisor.fail_once("power_on", LabError("no memory"))
        await world.clock.sleep(35)
        assert world.on() == ["server-0", "server-2"]
        assert not world.chassis[1].starting
        assert world.chassis[1].log.entries()[-1].warning

    world.run(go())


async def test_redfish_says_powering_on_meanwhile(make_rack: MakeRack) -> None:
    starts = Starts(1, VirtualClock())
    rack = await make_rack(2, starts=starts)
    assert await rack.reset("On", 0) == 204
    assert await rack.reset("On", 1) == 204
    assert [await rack.power(0), await rack.power(1)] == ["On", "PoweringOn"]
    assert [bmc.starting for bmc in rack.fleet.observe()] == [False, True]
    assert await rack.reset("ForceOff", 0) == 204

    async def second_is_on() -> bool:
        return await rack.power(1) == "On"

    await rack.until(second_is_on)


async def test_a_promised_start_is_kept_by_who_comes_after(make_rack: MakeRack) -> None:
    first = await make_rack(3, starts=Starts(1, VirtualClock()))
    for number in range(3):
        assert await first.reset("On", number) == 204
    assert await first.reset("ForceOff", 2) == 204  # what was taken back is not kept
    await first.fleet.stop()
    assert first.hypervisor.called("power_on") == [("power_on", "server-0")]

    second = await make_rack(3, hypervisor=first.hypervisor, starts=Starts(1, VirtualClock()))

    async def is_on() -> bool:
        return await second.power(1) == "On"

    await second.until(is_on)
    assert [await second.power(number) for number in range(3)] == ["On", "On", "Off"]
    assert second.fleet.chassis("server-1").memory.start_promised is False
    await second.fleet.stop()
    third = await make_rack(3, hypervisor=first.hypervisor)
    assert third.hypervisor.called("power_on") == [("power_on", "server-0"), ("power_on", "server-1")]


async def test_a_promise_that_others_kept_is_over_and_spends_no_override(make_rack: MakeRack) -> None:
    rack = await make_rack(2, starts=Starts(1, VirtualClock()))
    for number in range(2):
        assert await rack.reset("On", number) == 204
    once = {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}}
    assert (await rack.ask("PATCH", "/redfish/v1/Systems/1", once, number=1))[0] == 200
    rack.hypervisor.started_by_hand("server-1")

    async def is_on() -> bool:
        return await rack.power(1) == "On"

    await rack.until(is_on)
    assert await rack.reset("ForceOff", 0) == 204  # its turn comes
    chassis = rack.fleet.chassis("server-1")

    async def over() -> bool:
        return not chassis.memory.start_promised and not chassis.starting

    await rack.until(over)
    assert chassis.memory.boot.when is When.ONCE
    assert rack.hypervisor.called("power_on") == [("power_on", "server-0")]
    assert await rack.reset("On", 0) == 204
    assert await rack.power(0) == "On", "and its slot is free"


async def test_a_promised_start_waits_for_a_hypervisor_that_is_away(make_rack: MakeRack) -> None:
    rack = await make_rack(2, starts=Starts(1, VirtualClock()))
    for number in range(2):
        assert await rack.reset("On", number) == 204
    rack.hypervisor.fail_once("power_on", Unreachable("away"))
    assert await rack.reset("ForceOff", 0) == 204  # the turn of the other, at the wrong moment

    async def is_on() -> bool:
        return bool((await rack.ask("GET", "/redfish/v1/Systems/1", number=1))[1].get("PowerState") == "On")

    await rack.until(is_on)


def test_even_a_small_machine_starts_three() -> None:
    assert default_limit() >= 3
