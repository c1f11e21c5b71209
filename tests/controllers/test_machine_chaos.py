"""Machines and sets over an API that loses watches, refuses every so many writes, and is away for a while."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from rackless.drivers.fake.resources import MemoryResources
from rackless.ports.api import ApiUnreachable
from rackless.ports.resources import Conflict, Record, RecordEvent
from tests.controllers.machine_site import MachineSite, machine_set

HOSTS = tuple(f"worker-{number}" for number in range(4))


class Unreliable:
    """The same records, told and taken as chance has it."""

    def __init__(self, behind: MemoryResources, seed: int) -> None:
        self.namespace = behind.namespace
        self.away = False
        self._behind = behind
        self._random = random.Random(seed)

    def _risk(self, *, conflict: bool = False) -> None:
        if self.away or self._random.random() < 0.1:
            raise ApiUnreachable("the API does not answer")
        if conflict and self._random.random() < 0.2:
            raise Conflict("somebody else wrote in between")

    async def get(self, *args: Any, **more: Any) -> Record | None:
        self._risk()
        return await self._behind.get(*args, **more)

    async def list(self, *args: Any, **more: Any) -> list[Record]:
        self._risk()
        return await self._behind.list(*args, **more)

    async def create(self, record: Record) -> Record:
        self._risk()
        return await self._behind.create(record)

    async def apply(self, record: Record) -> Record:
        self._risk()
        return await self._behind.apply(record)

    async def delete(self, *args: Any, **more: Any) -> None:
        self._risk()
        await self._behind.delete(*args, **more)
        if self._random.random() < 0.1:
            raise ApiUnreachable("the answer was lost")

    async def patch(self, *args: Any, **more: Any) -> Record:
        self._risk(conflict=True)
        made = await self._behind.patch(*args, **more)
        if self._random.random() < 0.1:
            raise ApiUnreachable("the answer was lost")
        return made

    async def patch_status(self, *args: Any, **more: Any) -> Record:
        self._risk(conflict=True)
        return await self._behind.patch_status(*args, **more)

    async def watch(self, kind: str, **more: Any) -> AsyncGenerator[RecordEvent, None]:
        async for event in self._behind.watch(kind, **more):
            if event.type != "BOOKMARK" and (self.away or self._random.random() < 0.05):
                raise ApiUnreachable("the watch ended")
            yield event


@pytest.mark.parametrize("seed", range(3))
async def test_an_unreliable_api_costs_time_and_nothing_else(seed: int) -> None:
    site = MachineSite()
    await site.hosts(*HOSTS)
    await site.resources.apply(machine_set("set", 3))
    shaken = Unreliable(site.resources, seed)
    async with site.running(resources=shaken):
        await site.wait(1500)
        consumers = [await site.consumer(host) for host in HOSTS]
        machines = await site.resources.list("Machine")
        assert sorted(filter(None, consumers)) == sorted(record["metadata"]["name"] for record in machines)
        assert len(machines) == 3 and {record["status"]["phase"] for record in machines} == {"Provisioned"}
        shaken.away = True
        await site.patch("MachineSet", "set", {"spec": {"replicas": 1}})
        await site.wait(600)
        shaken.away = False
        await site.wait(2500)
        consumers = [name for host in HOSTS if (name := await site.consumer(host))]
    assert not [record for record in await site.resources.list("Machine") if record["status"].get("errorMessage")]
    assert await site.names("Machine") == consumers and len(consumers) == 1
    states = sorted([await site.state(host) for host in HOSTS])
    assert states == ["available"] * 3 + ["provisioned"]
