"""Somebody at the computer of a fake world, who runs commands there."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from rackless.cluster.bootstrap.following import MACHINE_API
from rackless.codec import encode
from rackless.drivers.fake.world import FakeLab, LoopClock
from rackless.events import Bus, Event
from rackless.operations import hosts, servers
from rackless.operations import lab as operations
from rackless.operations.install.lab import install_lab
from rackless.operations.openshift.lab import install_openshift
from rackless.plan.actions import Action
from rackless.plan.addressing import plan_lab
from rackless.plan.model import LabPlan
from rackless.ports.api import Access, ApiConnection
from rackless.ports.resources import Record
from rackless.protocol.messages import HostVerb, HostWish, PowerAction
from rackless.run.paths import LabPaths, Roots
from rackless.simulation.api import Durable
from rackless.simulation.world import SimulatedWorld, make_world, stock
from rackless.spec.cluster import Method
from rackless.spec.lab import LabSpec, Role
from rackless.spec.load import parse

T = TypeVar("T")
LAB = "name: lab\nservers: {ctrl: {role: control-plane, count: 3}, worker: {count: 1}}"


@dataclass
class Person:
    folder: Path
    world: SimulatedWorld = field(default_factory=make_world)
    bus: Bus = field(default_factory=Bus)
    seen: list[Event] = field(default_factory=list)
    spec: LabSpec = field(default_factory=lambda: parse(LAB, "lab.yaml"))
    installed: Callable[[], Durable] | None = None
    """What is in the etcd of a cluster that installs itself: then its hosts are there."""

    def __post_init__(self) -> None:
        self.bus.subscribe(self.seen.append)

    @property
    def roots(self) -> Roots:
        return _roots(self.folder)

    @property
    def paths(self) -> LabPaths:
        return _paths(self.roots, self.spec.name)

    @property
    def described(self) -> LabPlan:
        return plan_lab(self.spec)

    @property
    def lab(self) -> FakeLab:
        return self.world.lab(str(self.paths.netns))

    def records(self, kind: str = "baremetalhosts") -> dict[str, Record]:
        """The objects of this kind in the API that has the hosts, by name, as they are on the disk."""
        file = self.durable()
        return file.records(kind) if file is not None else {}

    def durable(self) -> Durable | None:
        """What is in the store of that API."""
        if self.installed is not None:
            return self.installed()
        place = _store(self.paths)
        return self.world.files.get(place) if os.path.exists(place) else None

    def kubectl(self) -> ApiConnection:
        """Somebody else's way to the API that has the hosts."""
        address = self.described.gateway.ip if self.installed is None else self.described.api_vip
        access = Access(f"https://{address}:6443", self.paths.pki / "ca.crt")
        namespace = None if self.installed is None else MACHINE_API
        served = self.world.served
        return cast(ApiConnection, served.open(str(self.paths.netns), access, LoopClock(), 0.0, namespace=namespace))

    def servers(self) -> list[tuple[str, bool]]:
        """The servers that are described, and whether each is a spare."""
        return [(server.name, server.role is Role.SPARE) for server in self.described.servers]

    def live(self, story: Callable[[], Coroutine[Any, Any, T]], chance: random.Random | None = None) -> T:
        """Live through a story that begins on a computer where everything is prepared."""

        async def whole() -> T:
            await stock(self.roots, self.world)
            return await story()

        return self.world.run(whole(), chance)

    async def run(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        return await self.world.processes.as_process(name, work)

    async def up(self, goal: str = "cluster", *, replace: bool = False) -> None:
        drivers, spec = self.world.drivers(), self.spec

        async def whole() -> None:
            await operations.up(spec, self.roots, self.bus, goal=goal, replace=replace, drivers=drivers)
            if spec.cluster.method is Method.IPI and goal == "cluster":
                await install_lab(spec, self.roots, self.bus, drivers=drivers)
            elif spec.cluster.method is Method.OPENSHIFT and goal == "cluster":
                await install_openshift(spec, self.roots, self.bus, drivers=drivers)

        await self.run("up", whole())

    async def plan(self, goal: str = "cluster") -> list[Action]:
        work = operations.plan(self.spec, self.roots, goal=goal, drivers=self.world.drivers())
        return await self.run("plan", work)

    async def down(self) -> None:
        work = operations.down(self.spec.name, self.roots, self.bus, drivers=self.world.drivers())
        await self.run("down", work)

    async def destroy(self) -> bool:
        work = operations.destroy(self.spec.name, self.roots, self.bus, drivers=self.world.drivers())
        return await self.run("destroy", work)

    async def wish(self, verb: HostVerb, host: str) -> None:
        await self.run(verb, hosts.wish(self.spec.name, HostWish(verb, host, wait=True), self.roots, self.bus))

    async def power(self, action: PowerAction, server: str) -> None:
        await self.run("power", servers.power(self.spec.name, server, action, self.roots))

    async def status(self) -> dict[str, Any]:
        """As `rackless status --json` prints it."""
        found: dict[str, Any] = encode(await self.run("status", operations.status(self.spec.name, self.roots)))
        return found


@lru_cache(4)
def _roots(folder: Path) -> Roots:
    return Roots(folder / "state", folder / "run", folder / "cache")


@lru_cache(4)
def _store(paths: LabPaths) -> str:
    return str(paths.api / "objects.db")


@lru_cache(4)
def _paths(roots: Roots, name: str) -> LabPaths:
    return LabPaths(roots, name)


@lru_cache(64)
def described(text: str) -> LabSpec:
    """What a lab.yaml says; read once for all who say the same."""
    return parse(text, "lab.yaml")
