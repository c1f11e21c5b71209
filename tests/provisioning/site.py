"""A lab without metal, for tests of the hosts' way in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from rackless.controllers.host import host_controller
from rackless.controllers.runtime.recorder import Recorder
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.provisioner import FakeProvisioner
from rackless.drivers.fake.resources import MemoryResources
from rackless.events import Bus, Event, StepFinished, StepStarted
from rackless.ports.provisioner import Image
from rackless.provisioning.baremetalhost import KIND, Host, State, baremetalhost, read, secret
from rackless.provisioning.settle import BackOff
from rackless.provisioning.waiting import until_state

IMAGE = Image("http://192.0.2.1/node.qcow2", "ab" * 32)


@dataclass
class Site:
    """A lab without metal: records, a clock and a provisioner that only pretends."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    resources: MemoryResources = field(default_factory=MemoryResources)
    bus: Bus = field(default_factory=Bus)
    seen: list[Event] = field(default_factory=list)
    provisioner: FakeProvisioner = field(init=False)

    def __post_init__(self) -> None:
        self.provisioner = FakeProvisioner(self.clock)
        self.bus.subscribe(self.seen.append)

    async def add(self, *names: str, image: Image | None = IMAGE, online: bool = True) -> None:
        await self.resources.apply(secret("bmc", {"username": "admin\n", "password": "secret"}))
        await self.resources.apply(secret("ignition", {"userData": '{"ignition": {}}'}))
        for number, name in enumerate(names):
            address = f"redfish-virtualmedia://192.0.2.{number}/redfish/v1/Systems/1"
            mac = f"02:00:00:00:00:{number:02x}"
            await self.resources.apply(baremetalhost(name, address, "bmc", mac, image, "ignition", online))

    async def change(self, name: str, **spec: Any) -> None:
        record = await self.resources.get(KIND, name)
        assert record
        del record["metadata"]["resourceVersion"]
        record["spec"].update(spec)
        await self.resources.apply(record)

    async def host(self, name: str) -> Host:
        record = await self.resources.get(KIND, name)
        assert record
        return read(record)

    async def annotate(self, name: str, annotations: dict[str, str]) -> None:
        record = await self.resources.get(KIND, name)
        assert record
        del record["metadata"]["resourceVersion"]
        record["metadata"]["annotations"] = annotations
        await self.resources.apply(record)

    @asynccontextmanager
    async def controlled(
        self,
        evidence: Callable[[str], str] = lambda _: "",
        lost: Callable[[str], str] = lambda _: "",
        **more: Any,
    ) -> AsyncIterator[None]:
        runtime = Runtime(self.clock, self.bus, Recorder(now=lambda: "2026-01-01T00:00:00Z"))
        host_controller(
            runtime,
            self.resources,
            self.provisioner,
            evidence=evidence,
            lost=lost,
            back_off=BackOff(unit=60.0),
            now=lambda: f"{self.clock.now():.1f}",
            chance=lambda: 1.0,
            **more,
        )
        running = asyncio.create_task(runtime.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def until(self, name: str, true: Callable[[Host], bool]) -> Host:
        async def look() -> Host:
            async for event in self.resources.watch(KIND):
                host = read(event.record)
                if host.name == name and true(host):
                    return host
            raise AssertionError

        return await self.clock.run(look(), within=100_000)

    async def until_state(self, *names: str, state: State = State.PROVISIONED, retries: int = 9) -> None:
        await self.clock.run(until_state(self.resources, names, state, retries=retries))

    async def until_gone(self, name: str) -> None:
        async def look() -> None:
            async for event in self.resources.watch(KIND):
                if event.type == "DELETED" and event.record["metadata"]["name"] == name:
                    return

        await self.clock.run(look())

    def work(self, name: str) -> list[str]:
        return [work for host, work in self.provisioner.started if host == name]

    def steps(self, name: str) -> list[tuple[str, str]]:
        phases = {
            event.step: event.phase
            for event in self.seen
            if isinstance(event, StepStarted) and event.subject == f"host/{name}"
        }
        finished = [event for event in self.seen if isinstance(event, StepFinished)]
        return [(phases[event.step], event.outcome) for event in finished if event.step in phases]
