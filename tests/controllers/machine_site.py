"""Hosts, Machines, sets and Nodes without metal, in virtual time: the real controllers over records in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rackless.controllers.host import host_controller
from rackless.controllers.machines.controller import machine_controller
from rackless.controllers.machines.sets import machineset_controller
from rackless.controllers.runtime.recorder import Recorder
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.provisioner import FakeProvisioner
from rackless.drivers.fake.resources import MemoryResources
from rackless.events import Bus
from rackless.ports.pods import Pods
from rackless.ports.resources import Record, Resources
from rackless.provisioning.baremetalhost import baremetalhost, secret

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PROVIDER_SPEC: dict[str, Any] = {
    "apiVersion": "baremetal.cluster.k8s.io/v1alpha1",
    "kind": "BareMetalMachineProviderSpec",
    "image": {"url": "http://192.0.2.1/node.qcow2", "checksum": "ab" * 32},
    "userData": {"name": "worker-user-data"},
}
API = "machine.openshift.io/v1beta1"


def machine(name: str, *, labels: Mapping[str, str] | None = None, **spec: Any) -> Record:
    value = {**PROVIDER_SPEC, **spec.pop("provider", {})}
    return {
        "apiVersion": API,
        "kind": "Machine",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"providerSpec": {"value": value}, **spec},
    }


def machine_set(name: str, replicas: int, **spec: Any) -> Record:
    value = {**PROVIDER_SPEC, **spec.pop("provider", {})}
    labels = {"machine.openshift.io/cluster-api-machineset": name}
    node = {"labels": {"node-role.kubernetes.io/worker": ""}}
    return {
        "apiVersion": API,
        "kind": "MachineSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"metadata": node, "providerSpec": {"value": value}},
            },
            **spec,
        },
    }


@dataclass
class MachineSite:
    clock: VirtualClock = field(default_factory=VirtualClock)
    resources: MemoryResources = field(default_factory=MemoryResources)
    nodes: MemoryResources = field(default_factory=MemoryResources)
    bus: Bus = field(default_factory=Bus)
    pods: Pods | None = None
    provisioner: FakeProvisioner = field(init=False)

    def __post_init__(self) -> None:
        self.provisioner = FakeProvisioner(self.clock)
        self._number = 0

    def moment(self) -> datetime:
        return BEGIN + timedelta(seconds=self.clock.now())

    def now(self) -> str:
        return self.moment().strftime("%Y-%m-%dT%H:%M:%SZ")

    async def hosts(self, *names: str, labels: Mapping[str, str] | None = None) -> None:
        await self.resources.apply(secret("bmc", {"username": "admin", "password": "secret"}))
        await self.resources.apply(secret("worker-user-data", {"userData": '{"ignition": {}}'}))
        for name in names:
            self._number += 1
            address = f"redfish-virtualmedia://192.0.2.{self._number}/redfish/v1/Systems/1"
            record = baremetalhost(name, address, "bmc", f"02:00:00:00:00:{self._number:02x}")
            record["metadata"]["labels"] = dict(labels or {})
            await self.resources.apply(record)

    async def join(self, name: str, address: str = "192.0.2.10", *, ready: bool = True, **spec: Any) -> None:
        """A node agent has done its work."""
        await self.nodes.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec})
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": self.now()}
        await self.nodes.patch_status(
            "Node",
            name,
            {"conditions": [condition], "addresses": [{"type": "InternalIP", "address": address}]},
        )

    def runtime(self, resources: Resources | None = None, nodes: Resources | None = None) -> Runtime:
        runtime = Runtime(self.clock, self.bus, Recorder(now=self.now))
        resources, nodes = resources or self.resources, nodes or self.nodes
        host_controller(runtime, resources, self.provisioner, now=self.now, chance=lambda: 1.0)
        machine_controller(runtime, resources, nodes, now=self.now, pods=self.pods)
        machineset_controller(runtime, resources, nodes, now=self.moment)
        for loop in runtime.loops:
            loop.chance = lambda: 1.0
        return runtime

    @asynccontextmanager
    async def running(self, **connections: Resources) -> AsyncIterator[Runtime]:
        runtime = self.runtime(**connections)
        task = asyncio.create_task(runtime.run())
        try:
            yield runtime
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def wait(self, seconds: float = 300.0) -> None:
        await self.clock.run(self.clock.sleep(seconds))

    async def until(self, kind: str, name: str, true: Callable[[Record], bool], *, nodes: bool = False) -> Record:
        async def look() -> Record:
            async for event in (self.nodes if nodes else self.resources).watch(kind):
                if event.record["metadata"]["name"] == name and event.type != "DELETED" and true(event.record):
                    return event.record
            raise AssertionError

        return await self.clock.run(look(), within=100_000)

    async def until_phase(self, name: str, phase: str) -> Record:
        return await self.until("Machine", name, lambda record: (record.get("status") or {}).get("phase") == phase)

    async def until_gone(self, kind: str, name: str) -> None:
        async def look() -> None:
            if await self.resources.get(kind, name) is None:
                return
            async for event in self.resources.watch(kind):
                if event.type == "DELETED" and event.record["metadata"]["name"] == name:
                    return

        await self.clock.run(look(), within=100_000)

    async def get(self, kind: str, name: str) -> Record:
        found = await (self.nodes if kind == "Node" else self.resources).get(kind, name)
        assert found, f"no {kind} {name}"
        return found

    async def names(self, kind: str) -> list[str]:
        return [record["metadata"]["name"] for record in await self.resources.list(kind)]

    async def state(self, host: str) -> str:
        return str(((await self.get("BareMetalHost", host)).get("status") or {})["provisioning"]["state"])

    async def consumer(self, host: str) -> str:
        return str(((await self.get("BareMetalHost", host))["spec"].get("consumerRef") or {}).get("name") or "")

    async def events(self, kind: str, name: str = "") -> list[tuple[str, str]]:
        await self.wait(0.01)
        found = await self.resources.list("Event")
        return [
            (event["reason"], event["message"])
            for event in found
            if event["involvedObject"]["kind"] == kind and name in ("", event["involvedObject"]["name"])
        ]

    async def reasons(self, kind: str, name: str = "") -> set[str]:
        return {reason for reason, _ in await self.events(kind, name)}

    async def patch(self, kind: str, name: str, change: Mapping[str, Any]) -> None:
        await self.resources.patch(kind, name, change)

    async def annotate(self, kind: str, name: str, **annotations: str | None) -> None:
        await self.patch(kind, name, {"metadata": {"annotations": annotations}})


def condition(record: Record, type_: str) -> Mapping[str, str]:
    conditions = (record.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == type_), {})
