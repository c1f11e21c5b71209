"""Room for the servers' disks that becomes scarce, and comes back."""

import asyncio

from rackless.drivers.fake.clock import VirtualClock
from rackless.errors import LabError
from rackless.events import Bus, Event, Note
from rackless.lab.disk_watch import ENOUGH, LOOK, LOW, TELL, DiskWatch


async def test_little_room_is_told_now_and_then_and_servers_go_on_when_there_is_some() -> None:
    clock, bus, free = VirtualClock(), Bus(), [LOW]
    stopped: list[str] = []
    away = False
    seen: list[Event] = []
    bus.subscribe(seen.append)

    async def go_on() -> list[str]:
        if away:
            raise LabError("the hypervisor does not answer")
        gone, stopped[:] = list(stopped), []
        return gone

    watch = DiskWatch(lambda: free[0], go_on, clock, bus)

    async def life() -> None:
        nonlocal away
        watching = asyncio.create_task(watch.watch())
        await clock.sleep(LOOK + 1)
        assert watch.warnings == [] and not seen
        free[0] = ENOUGH - 1
        stopped.append("node-0")
        await clock.sleep(2 * TELL)
        assert watch.warnings == ["only 255 MiB are free for the disks"] and stopped == ["node-0"]
        assert len(seen) == 2
        free[0], away = 2 * LOW, True
        await clock.sleep(2 * LOOK)
        away = False
        await clock.sleep(2 * LOOK)
        assert watch.warnings == [] and not stopped
        watching.cancel()

    await clock.run(life())
    assert isinstance(seen[-1], Note) and (seen[-1].code, seen[-1].subject) == ("server-resumed", "server/node-0")
