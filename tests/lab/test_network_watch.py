"""DHCP and DNS that died are brought back, and one that keeps dying is given longer pauses."""

import asyncio

from rackless.drivers.fake.clock import VirtualClock
from rackless.errors import LabError
from rackless.events import Bus
from rackless.lab.network_watch import LONGEST_PAUSE, NetworkWatch
from rackless.ports.fabric import Network
from rackless.run.parts import Part


class FakeNetworks:
    def __init__(self) -> None:
        self.dies = False
        self.dead = False
        self.broken = False
        self.revived = 0

    async def revive(self, name: str) -> bool:
        if self.broken:
            raise LabError("libvirt refused", why="no such port")
        if self.dead or self.dies:
            self.dead, self.revived = False, self.revived + 1
            return True
        return False

    def server_pid(self, name: str) -> int | None:
        return None if self.dead else 7

    async def ensure_network(self, network: Network) -> bool:
        return False

    async def differs(self, network: Network) -> bool:
        return False

    async def ensure_bridge_network(self, name: str, bridge: str) -> bool:
        return False

    async def active(self) -> set[str]:
        return {"cluster"}


async def test_a_dead_one_is_started_again_and_told_in_the_status() -> None:
    networks, clock, bus = FakeNetworks(), VirtualClock(), Bus()
    watch = NetworkWatch(networks, ["cluster"], clock, bus)

    async def life() -> None:
        watching = asyncio.create_task(watch.watch())
        await clock.sleep(5)
        assert watch.describe()[0] == Part("dnsmasq of cluster", running=True, pid=7, restarts=0, reason="", log="")
        networks.dead = True
        await clock.sleep(5)
        assert networks.revived == 1 and watch.describe()[0].restarts == 1
        networks.broken = True
        await clock.sleep(60)
        assert (watch.describe()[0].running, watch.describe()[0].reason) == (False, "no such port")
        networks.broken = False
        await clock.sleep(LONGEST_PAUSE + 5)
        assert watch.describe()[0].running
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    await clock.run(life())


async def test_one_that_keeps_dying_is_started_less_and_less_often() -> None:
    networks, clock = FakeNetworks(), VirtualClock()
    networks.dies = True
    watching = asyncio.create_task(NetworkWatch(networks, ["cluster"], clock, Bus()).watch())
    await clock.run(clock.sleep(600))
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert 8 < networks.revived < 20, "every two seconds it would be three hundred times"


async def test_who_asks_for_one_that_could_not_be_started_does_not_wait_for_its_turn() -> None:
    networks, clock = FakeNetworks(), VirtualClock()
    watch = NetworkWatch(networks, ["cluster"], clock, Bus())

    async def life() -> None:
        watching = asyncio.create_task(watch.watch())
        networks.broken = True
        await clock.sleep(100)
        assert not watch.describe()[0].running
        networks.broken, networks.dead = False, True
        await watch.hurry()
        assert watch.describe()[0].running and networks.revived == 1
        watching.cancel()

    await clock.run(life())
