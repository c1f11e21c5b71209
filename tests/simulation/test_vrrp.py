"""The VIP of a story: routers as keepalived would run them with the files that machines really get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from ipaddress import ip_address
from typing import Any

import pytest

from rackless.installer.assets.ignition import front
from rackless.installer.assets.ignition.machines import OneCluster, OneMachine
from rackless.plan.addressing import plan_lab
from rackless.simulation.vrrp import VirtualRouter, Wire, read_settings
from rackless.simulation.world import make_world
from rackless.spec.lab import LabSpec

THREE = plan_lab(LabSpec.model_validate({"servers": {"ctrl": {"role": "control-plane", "count": 3}}}))


class Rack:
    """Machines with keepalived, and who of them leads to a ready API."""

    def __init__(self) -> None:
        self.wire = Wire(self._changed)
        self.ready: set[str] = set()
        self.seen: list[list[str]] = []
        self.running: dict[str, tuple[VirtualRouter, asyncio.Task[None]]] = {}

    def _changed(self) -> None:
        self.seen.append(self.wire.holders())

    def start(self, name: str, address: str, config: str) -> None:
        router = VirtualRouter(name, address, read_settings(config), lambda: name in self.ready, self.wire)
        self.running[name] = router, asyncio.get_running_loop().create_task(router.run())
        self.ready.add(name)

    def live(self, story: Coroutine[Any, Any, None]) -> None:
        async def whole() -> None:
            await story
            for name in [*self.running]:
                self.stop(name, said=False)
            await asyncio.sleep(0)

        make_world().run(whole())

    def stop(self, name: str, *, said: bool) -> None:
        router, task = self.running.pop(name)
        task.cancel()
        router.leave(said=said)


def planned(place: int) -> tuple[str, str, str]:
    server = THREE.control_planes[place]
    return server.name, str(server.address), front.keepalived_conf(server, THREE)


def joined(place: int) -> tuple[str, str, str]:
    """As one that an install made."""
    address = ip_address("192.168.111.20") + place
    machine = OneMachine(f"ctrl-{place}", f"ctrl-{place}.lab.test", address, "")
    cluster = OneCluster("lab", "lab.test", ip_address("192.168.111.5"), (machine,))
    return machine.name, str(address), front.keepalived_conf(machine, cluster, known=False, place=(place, 3))


@pytest.mark.parametrize("made", [planned, joined])
@pytest.mark.parametrize("said", [True, False], ids=["asked to go", "dead"])
def test_the_vip_goes_from_one_to_another_and_never_to_two(
    made: Callable[[int], tuple[str, str, str]], said: bool
) -> None:
    rack = Rack()

    async def story() -> None:
        for place in range(3):
            rack.start(*made(place))
        await asyncio.sleep(30)
        (first,) = rack.wire.holders()
        rack.stop(first, said=said)
        await asyncio.sleep(30)
        (second,) = rack.wire.holders()
        assert second != first
        rack.ready.discard(second)
        await asyncio.sleep(60)
        (third,) = rack.wire.holders()
        assert third not in (first, second)

    rack.live(story())
    assert [len(holders) for holders in rack.seen] == [1, 1, 1]


def test_two_that_count_to_the_same_moment_hold_it_together() -> None:
    rack = Rack()

    async def story() -> None:
        same = joined(0)[2]
        for place in range(2):
            name, address, _ = joined(place)
            rack.start(name, address, same)
        await asyncio.sleep(30)
        assert len(rack.wire.holders()) == 1, "the one with the lower address has heard of the other since"

    rack.live(story())
    assert ["ctrl-0", "ctrl-1"] in rack.seen


def test_one_that_is_told_of_no_peers_does_not_hear_them() -> None:
    rack = Rack()

    async def story() -> None:
        for place in range(2):
            name, address, config = planned(place)
            rack.start(name, address, config.replace(planned(1 - place)[1], "192.0.2.99"))
        await asyncio.sleep(60)
        assert rack.wire.holders() == ["ctrl-0", "ctrl-1"]

    rack.live(story())
