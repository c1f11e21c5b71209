from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from rackless.controllers.nodes.life import LEASES, TAINTS, node_life_controller
from rackless.controllers.runtime.recorder import Recorder
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.resources import MemoryResources
from rackless.events import Bus
from rackless.ports.resources import Record


@dataclass
class Cluster:
    clock: VirtualClock = field(default_factory=VirtualClock)
    api: MemoryResources = field(default_factory=MemoryResources)

    async def node(self, name: str = "n", **spec: Any) -> None:
        await self.api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec})

    async def post(self, name: str = "n", **conditions: str) -> None:
        """The node writes its status."""
        told = {"Ready": "True", "MemoryPressure": "False", **conditions}
        found = [
            {"type": type_, "status": status, "lastHeartbeatTime": str(self.clock.now())}
            for type_, status in told.items()
        ]
        await self.api.patch_status("Node", name, {"conditions": found, "addresses": [{"address": "192.0.2.1"}]})

    async def renew(self, name: str = "n") -> None:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": LEASES},
            "spec": {"renewTime": str(self.clock.now()), "holderIdentity": name},
        }
        await self.api.apply(lease)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        runtime = Runtime(self.clock, Bus(), Recorder(now=lambda: "2026-01-01T00:00:00Z"))
        node_life_controller(runtime, self.api, now=lambda: f"{self.clock.now():.0f}")
        task = asyncio.create_task(runtime.run())
        try:
            await self.wait(0.01)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def wait(self, seconds: float) -> None:
        await self.clock.run(self.clock.sleep(seconds))

    async def alive(self, seconds: float, name: str = "n") -> None:
        """The node's agent renews its Lease every ten seconds."""
        for _ in range(int(seconds / 10)):
            await self.renew(name)
            await self.wait(10)

    async def ready(self, name: str = "n") -> tuple[str, str]:
        node = await self.get(name)
        found = {each["type"]: each for each in node["status"]["conditions"]}
        return found["Ready"]["status"], found["Ready"].get("reason", "")

    async def get(self, name: str = "n") -> Record:
        found = await self.api.get("Node", name)
        assert found
        return found

    async def taints(self, name: str = "n") -> set[tuple[str, str]]:
        spec = (await self.get(name))["spec"]
        return {(each["key"].partition("/")[2] or each["key"], each["effect"]) for each in spec.get("taints") or ()}


async def test_a_node_that_renews_its_lease_stays_ready_and_costs_nothing() -> None:
    site = Cluster()
    await site.node()
    async with site.watched():
        await site.post()
        before = site.api.calls.copy()
        await site.alive(600)
        assert await site.ready() == ("True", "")
        spent = site.api.calls - before
    assert not [call for call in spent if call.startswith(("patch", "get Lease"))]


async def test_a_node_that_falls_silent_is_unknown_after_the_grace_period_and_comes_back() -> None:
    site = Cluster()
    await site.node()
    async with site.watched():
        await site.post()
        await site.alive(100)
        await site.wait(29)
        assert await site.ready() == ("True", "")
        await site.wait(2)
        assert await site.ready() == ("Unknown", "NodeStatusUnknown")
        assert {each["status"] for each in (await site.get())["status"]["conditions"]} == {"Unknown"}
        assert (await site.get())["status"]["addresses"], "the rest of the status is the node's"
        assert await site.taints() == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
        await site.renew()
        await site.post()
        await site.wait(1)
        assert await site.ready() == ("True", "") and await site.taints() == set()
        await site.wait(1)
        events = {event["reason"] for event in await site.api.list("Event", namespace="default")}
    assert events == {"NodeNotReady", "NodeReady"}


async def test_a_node_that_never_spoke_says_so_after_the_grace_period() -> None:
    site = Cluster()
    await site.node()
    async with site.watched():
        await site.wait(39)
        assert "conditions" not in (await site.get()).get("status", {})
        await site.wait(2)
        assert await site.ready() == ("Unknown", "NodeStatusNeverUpdated")


async def test_a_controller_that_starts_anew_gives_every_node_its_grace_period() -> None:
    site = Cluster()
    await site.node()
    await site.post()
    await site.renew()
    await site.wait(1000)
    async with site.watched():
        await site.wait(30)
        assert await site.ready() == ("True", "")
        await site.wait(15)
        assert (await site.ready())[0] == "Unknown"


async def test_a_heartbeat_in_the_status_is_a_sign_of_life_too() -> None:
    site = Cluster()
    await site.node()
    async with site.watched():
        for _ in range(10):
            await site.post()
            await site.wait(30)
            assert await site.ready() == ("True", "")


async def test_a_lost_watch_of_leases_does_not_make_nodes_silent() -> None:
    class Deaf(MemoryResources):
        async def watch(self, kind: str, **more: Any) -> Any:
            async for event in super().watch(kind, **more):
                if kind == "Lease" and event.type == "MODIFIED":
                    continue
                yield event

    site = Cluster(api=Deaf())
    await site.node()
    await site.renew()
    async with site.watched():
        await site.post()
        await site.alive(300)
        assert await site.ready() == ("True", "")
        await site.wait(90)
        assert (await site.ready())[0] == "Unknown"


@pytest.mark.parametrize(("type_", "status"), [key for key in TAINTS if key != ("Ready", "Unknown")])
async def test_what_a_node_says_of_itself_keeps_work_away_while_it_lasts(type_: str, status: str) -> None:
    site = Cluster()
    mine = {"key": "mine", "effect": "NoSchedule"}
    await site.node(taints=[mine])
    async with site.watched():
        await site.post(**{type_: status})
        await site.wait(1)
        key, effects = TAINTS[type_, status]
        assert await site.taints() == {("mine", "NoSchedule"), *((key.partition("/")[2], each) for each in effects)}
        await site.post()
        await site.wait(1)
        assert await site.taints() == {("mine", "NoSchedule")}


async def test_a_cordoned_node_is_tainted_until_it_is_uncordoned() -> None:
    site = Cluster()
    await site.node(unschedulable=True)
    async with site.watched():
        await site.post()
        await site.wait(1)
        assert await site.taints() == {("unschedulable", "NoSchedule")}
        await site.api.patch("Node", "n", {"spec": {"unschedulable": None}})
        await site.wait(1)
        assert await site.taints() == set()
