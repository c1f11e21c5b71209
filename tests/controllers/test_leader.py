from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rackless.controllers.leader import Leader, LostLeadership
from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.resources import MemoryResources
from rackless.ports.api import ApiUnreachable
from rackless.ports.resources import Record


class Api(MemoryResources):
    away = False

    async def patch(self, *args: Any, **more: Any) -> Record:
        if self.away:
            raise ApiUnreachable("the API does not answer")
        return await super().patch(*args, **more)


class Site:
    def __init__(self) -> None:
        self.clock, self.api = VirtualClock(), Api()
        self.at_work: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str) -> None:
        leader = Leader(self.api, "lease", name, self.clock, now=lambda: str(self.clock.now()))

        async def work() -> None:
            self.at_work.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                self.at_work.remove(name)

        self.tasks[name] = asyncio.create_task(leader.lead(work))

    async def wait(self, seconds: float) -> None:
        await self.clock.run(self.clock.sleep(seconds))

    async def stop(self, name: str) -> None:
        self.tasks[name].cancel()
        await asyncio.gather(self.tasks[name], return_exceptions=True)

    async def end(self) -> None:
        for name in self.tasks:
            await self.stop(name)


async def test_one_of_several_leads_and_the_next_follows_at_once_when_it_ends() -> None:
    site = Site()
    for name in ("a", "b", "c"):
        site.start(name)
        await site.wait(0.1)
    await site.wait(100)
    assert site.at_work == ["a"]
    await site.stop("a")
    await site.wait(5)
    assert len(site.at_work) == 1 and site.at_work != ["a"]
    lease = await site.api.get("Lease", "lease")
    assert lease and lease["spec"]["leaseTransitions"] == 1
    await site.end()


async def test_a_leader_that_dies_without_a_word_is_followed_when_its_lease_expires() -> None:
    site = Site()
    dead = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "0", "leaseTransitions": 3}
    await site.api.apply(
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lease"}, "spec": dead}
    )
    site.start("b")
    await site.wait(14)
    assert site.at_work == []
    await site.wait(4)
    assert site.at_work == ["b"]
    await site.end()


async def test_a_leader_that_cannot_renew_gives_up_before_others_may_begin() -> None:
    site = Site()
    site.start("a")
    await site.wait(11)
    site.api.away = True
    await site.wait(8)
    assert site.at_work == ["a"]
    await site.wait(5)
    assert site.at_work == []
    with pytest.raises(LostLeadership, match="a no longer leads"):
        await site.tasks["a"]


async def test_a_leader_whose_lease_was_taken_ends() -> None:
    site = Site()
    site.start("a")
    await site.wait(10)
    await site.api.patch("Lease", "lease", {"spec": {"holderIdentity": "thief"}})
    await site.wait(3)
    assert site.at_work == []
    with pytest.raises(LostLeadership, match="somebody else"):
        await site.tasks["a"]
    lease = await site.api.get("Lease", "lease")
    assert lease and lease["spec"]["holderIdentity"] == "thief"


async def test_work_that_fails_lets_go_of_the_lease() -> None:
    site = Site()
    leader = Leader(site.api, "lease", "a", site.clock, now=lambda: "0")

    async def work() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await site.clock.run(leader.lead(work))
    lease = await site.api.get("Lease", "lease")
    assert lease and not lease["spec"].get("holderIdentity")
