"""Hosts and Machines from one API to another: nothing is touched, nobody acts at both places, and a kill loses nothing."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from rackless.controllers.host_annotations import DETACHED
from rackless.controllers.machines.records import MACHINE_OF, consumer_of
from rackless.controllers.pausing import is_paused
from rackless.controllers.pivot import journal
from rackless.controllers.pivot.copying import MOVE, ORDER
from rackless.controllers.pivot.journal import MovePhase
from rackless.controllers.pivot.moving import Pivot
from rackless.drivers.fake.provisioner import FakeProvisioner
from rackless.drivers.fake.resources import MemoryResources
from rackless.errors import InputError, LabError
from rackless.ports.provisioner import HostAccess, Result
from rackless.ports.resources import Record, Resources
from rackless.provisioning.baremetalhost import PAUSED, baremetalhost, secret
from tests.controllers.machine_site import MachineSite, machine_set

WORK = {"inspect", "prepare", "provision", "deprovision", "power"}
"""What touches a host."""


class Killed(BaseException):
    """As a kill: nothing of the move goes on."""


class Cut:
    """Records, and a kill before the n-th call; `look` looks at every call."""

    def __init__(self, inner: MemoryResources, count: Callable[[], None]) -> None:
        self._inner, self._count, self.namespace = inner, count, inner.namespace

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)

        async def counted(*args: Any, **more: Any) -> Any:
            self._count()
            return await found(*args, **more)

        return counted


@dataclass
class Engine(FakeProvisioner):
    """One that sees the power of a host it has not known before."""

    on: set[str] = field(default_factory=set)

    async def register(self, host: HostAccess, *, restart: bool = False) -> Result:
        new = host.name not in self.hosts
        result = await super().register(host, restart=restart)
        if new and host.name in self.hosts:
            self.hosts[host.name].powered_on = host.name in self.on
        return result


class Pair:
    """Two APIs with an engine and controllers each; the first has two workers of a set, and a spare host."""

    def __init__(self) -> None:
        self.here, self.there = MachineSite(), MachineSite()
        self.there.clock = self.here.clock
        self.here.provisioner, self.there.provisioner = (Engine(self.here.clock) for _ in range(2))
        self.there.nodes = self.here.nodes  # the cluster is one

    async def fill(self) -> None:
        here = self.here
        await here.hosts("one", "two", "three")
        await here.resources.apply(machine_set("workers", 2))
        async with here.running():
            await here.until("MachineSet", "workers", lambda record: (record.get("status") or {}).get("replicas") == 2)
            for name in await here.names("Machine"):
                await here.until_phase(name, "Provisioned")
            for host in ("one", "two", "three"):
                if machine := (await here.consumer(host)):
                    await here.join(host, "192.0.2.10")
                    await here.nodes.patch(
                        "Node", host, {"metadata": {"annotations": {MACHINE_OF: f"metal3/{machine}"}}}
                    )
            await here.wait(60)
        self._see_power()
        self.before = {kind: await here.resources.list(kind) for kind in ORDER}
        self.done_before = len(here.provisioner.started)

    def _see_power(self) -> None:
        for site in (self.here, self.there):
            site.provisioner.on = {"one", "two", "three"}  # type: ignore[attr-defined]

    def clone(self) -> Pair:
        """The same once more, without going the whole way again."""
        fresh = Pair()
        for name in ("here", "there"):
            old, new = getattr(self, name), getattr(fresh, name)
            new.resources._records = copy.deepcopy(old.resources._records)
            new.resources._version = old.resources._version
            new.provisioner.hosts = copy.deepcopy(old.provisioner.hosts)
            new.clock._now = old.clock._now
        fresh.here.nodes._records = copy.deepcopy(self.here.nodes._records)
        fresh.before, fresh.done_before = self.before, 0
        fresh._see_power()
        return fresh

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.here.running(), self.there.running():
            yield

    def pivot(self, kill_at: int | None = None, back: bool = False) -> Pivot:
        self.calls = 0

        def count() -> None:
            self.look()
            if self.calls == kill_at:
                raise Killed
            self.calls += 1

        ends: list[Resources] = [Cut(self.here.resources, count), Cut(self.there.resources, count)]
        source, target = reversed(ends) if back else ends
        return Pivot(source, target, self.here.clock, "https://192.0.2.9:6443", detach_within=30.0)

    async def move(self, **more: Any) -> Any:
        return await self.here.clock.run(self.pivot(**more).go(), within=10_000)

    def look(self) -> None:
        """Nobody acts on an object at both places."""
        for kind in ("BareMetalHost", "Machine", "MachineSet"):
            sides = []
            for site in (self.here, self.there):
                found = site.resources._records.values()
                sides.append({
                    record["metadata"]["name"] for record in found
                    if record["kind"] == kind and not is_paused(record)
                    and DETACHED not in (record["metadata"].get("annotations") or {})
                })  # fmt: skip
            assert not sides[0] & sides[1], f"{kind} {sides[0] & sides[1]} at both places"

    def touched(self) -> set[str]:
        done = [*self.here.provisioner.started[self.done_before :], *self.there.provisioner.started]
        return {work for _, work in done} & WORK

    async def require_moved(self) -> None:
        here, there = self.here.resources, self.there.resources
        await self.here.wait(130)
        for kind in ORDER:
            found = {record["metadata"]["name"]: record for record in await there.list(kind)}
            assert not await here.list(kind) and set(found) == {each["metadata"]["name"] for each in self.before[kind]}
            for old in self.before[kind]:
                new = found[old["metadata"]["name"]]
                assert MOVE not in (new["metadata"].get("annotations") or {}) and not is_paused(new)
                assert _told(new) == _told(old), kind
        hosts = {record["metadata"]["name"]: record for record in await there.list("BareMetalHost")}
        (owner,) = await there.list("MachineSet")
        for machine in await there.list("Machine"):
            host = next(each for each in hosts.values() if consumer_of(each) == f"metal3/{machine['metadata']['name']}")
            assert machine["spec"]["providerID"].endswith(host["metadata"]["uid"])
            assert machine["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
        assert not self.touched(), "no host is touched"

    async def require_as_before(self) -> None:
        await self.here.wait(130)
        for kind in ORDER:
            found = await self.here.resources.list(kind)
            assert [_wanted(each) for each in found] == [_wanted(each) for each in self.before[kind]]
            assert [_told(each) for each in found] == [_told(each) for each in self.before[kind]]
            assert not await self.there.resources.list(kind)
        assert await journal.load(self.here.resources) is None
        assert not self.touched(), "no host is touched"


def _told(record: Record) -> Any:
    status = copy.deepcopy(record.get("status") or {})
    for name in ("lastUpdated", "goodCredentials", "observedGeneration"):
        status.pop(name, None)
    (status.get("provisioning") or {}).pop("ID", None)  # the other engine's
    return status


def _wanted(record: Record) -> Any:
    metadata = {name: record["metadata"].get(name) for name in ("name", "uid", "labels", "finalizers")}
    return metadata, record["metadata"].get("annotations") or {}, record.get("spec")


@pytest.fixture
async def pair() -> Pair:
    found = Pair()
    await found.fill()
    return found


async def test_everything_goes_and_nothing_is_touched(pair: Pair) -> None:
    async with pair.running():
        done = await pair.move()
        await pair.require_moved()
    assert done.counts == {"Secret": 2, "BareMetalHost": 3, "HardwareData": 3, "MachineSet": 1, "Machine": 2}
    assert not done.remembered and not pair.here.provisioner.hosts, "the engine it left has forgotten the hosts"
    adopted = {host for host, work in pair.there.provisioner.started if work == "adopt"}
    assert len(adopted) == 2
    found = await journal.load(pair.here.resources)
    assert found and found.phase is MovePhase.MOVED and await journal.elsewhere(pair.here.resources) == found.to


async def test_what_stands_beside_hosts_goes_along_with_the_secrets_it_names(pair: Pair) -> None:
    here, there = pair.here.resources, pair.there.resources
    await here.apply(secret("headers", {"X-Token": "word"}))
    host = (await here.list("BareMetalHost"))[0]["metadata"]["name"]
    wanted = {
        "HostFirmwareSettings": {"settings": {"ProcTurboMode": "Disabled"}},
        "DataImage": {"url": "http://192.0.2.1/x.iso"},
        "BMCEventSubscription": {
            "hostName": host,
            "destination": "http://192.0.2.1/",
            "httpHeadersRef": {"name": "headers"},
        },
    }
    for kind, spec in wanted.items():
        await here.apply({"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": {"name": host}, "spec": spec})
    async with pair.running():
        done = await pair.move()
        await pair.here.wait(130)
    for kind, spec in wanted.items():
        found = await there.get(kind, host)
        assert found and found["spec"] == spec and done.counts[kind] == 1
        assert await here.get(kind, host) is None
    assert await there.get("Secret", "headers") is not None


async def test_and_back_again(pair: Pair) -> None:
    async with pair.running():
        await pair.move()
        await pair.here.wait(130)
        assert not pair.touched()
        await pair.move(back=True)
        await pair.here.wait(130)
        assert not pair.touched()
        pair.here, pair.there, pair.done_before = pair.there, pair.here, len(pair.there.provisioner.started)
        pair.there.provisioner.started.clear()
        await pair.require_moved()
        assert await journal.elsewhere(pair.there.resources) == ""
        with pytest.raises(LabError, match="nothing to move"):
            await pair.move()


async def test_what_moved_is_looked_after_there(pair: Pair) -> None:
    async with pair.running():
        await pair.move()
        await pair.there.patch("MachineSet", "workers", {"spec": {"replicas": 3}})
        names = await pair.there.names("Machine")
        await pair.there.until("MachineSet", "workers", lambda record: record["status"].get("replicas") == 3)
        (new,) = set(await pair.there.names("Machine")) - set(names)
        await pair.there.until_phase(new, "Provisioned")
        assert not await pair.here.names("Machine"), "nobody makes Machines where they were"


@pytest.mark.slow
async def test_killed_at_every_call_it_goes_on(pair: Pair) -> None:
    at, phases = 0, set()
    while True:
        fresh = pair.clone()
        async with fresh.running():
            try:
                await fresh.move(kill_at=at)
            except Killed:
                found = await journal.load(fresh.here.resources)
                phases.add(found.phase if found else None)
                await fresh.here.wait(5)
                await fresh.move()
                await fresh.require_moved()
            else:
                break
        at += 1
    assert phases >= {None, MovePhase.PAUSING, MovePhase.COPYING, MovePhase.LEAVING, MovePhase.RESUMING}


@pytest.mark.slow
async def test_killed_at_every_call_before_it_leaves_it_can_be_undone(pair: Pair) -> None:
    for at in range(1000):
        fresh = pair.clone()
        async with fresh.running():
            with pytest.raises(Killed):
                await fresh.move(kill_at=at)
            found = await journal.load(fresh.here.resources)
            if found is None:
                continue
            if found.phase is MovePhase.LEAVING:
                with pytest.raises(LabError, match="too far"):
                    await fresh.here.clock.run(fresh.pivot().undo())
                return
            await fresh.here.clock.run(fresh.pivot().undo())
            await fresh.require_as_before()


@pytest.mark.slow
async def test_an_undoing_that_is_killed_is_ended_by_the_next_move(pair: Pair) -> None:
    for at in range(3, 1000, 3):
        fresh = pair.clone()
        async with fresh.running():
            with pytest.raises(Killed):
                await fresh.move(kill_at=60)
            try:
                await fresh.here.clock.run(fresh.pivot(kill_at=at).undo())
            except Killed:
                await fresh.move()
                await fresh.require_moved()
            else:
                return


async def test_hosts_that_are_worked_on_do_not_move(pair: Pair) -> None:
    (spare,) = [host for host in ("one", "two", "three") if not await pair.here.consumer(host)]
    await pair.here.annotate("BareMetalHost", spare, **{"inspect.metal3.io": ""})
    async with pair.running():
        await pair.here.until(
            "BareMetalHost", spare, lambda record: record["status"]["provisioning"]["state"] == "inspecting"
        )
        with pytest.raises(LabError, match=f"{spare} is inspecting"):
            await pair.move()
        await pair.here.until(
            "BareMetalHost", spare, lambda record: record["status"]["provisioning"]["state"] == "available"
        )
        assert not any(map(is_paused, await pair.here.resources.list("Machine")))
    assert await journal.load(pair.here.resources) is None and not await pair.there.names("BareMetalHost")


async def test_what_somebody_else_paused_stays_paused(pair: Pair) -> None:
    await pair.here.annotate("BareMetalHost", "three", **{PAUSED: "by hand"})
    async with pair.running():
        await pair.move()
        await pair.here.wait(60)
    moved = await pair.there.get("BareMetalHost", "three")
    assert moved["metadata"]["annotations"] == {PAUSED: "by hand"}
    assert "three" not in pair.there.provisioner.hosts


async def test_names_that_are_taken_there_are_told_before_anything_is_changed(pair: Pair) -> None:
    await pair.there.resources.apply(baremetalhost("two", "", "", "02:00:00:00:00:99"))
    with pytest.raises(LabError, match="BareMetalHost two"):
        await Pivot(pair.here.resources, pair.there.resources, pair.here.clock, "there").go()
    assert not any(map(is_paused, await pair.here.resources.list("BareMetalHost")))


async def test_hosts_go_also_when_nobody_looks_after_them_any_more(pair: Pair) -> None:
    async with pair.there.running():
        done = await pair.move()
        await pair.require_moved()
    assert done.remembered == ("one", "three", "two")


async def test_a_move_is_not_ended_somewhere_else(pair: Pair) -> None:
    for site, uid in ((pair.here, "a"), (pair.there, "b")):
        space = await site.resources.apply({"kind": "Namespace", "metadata": {"name": "kube-system"}})
        next(r for r in site.resources._records.values() if r["kind"] == "Namespace")["metadata"]["uid"] = uid
        assert space
    with pytest.raises(Killed):
        await pair.move(kill_at=40)
    next(r for r in pair.there.resources._records.values() if r["kind"] == "Namespace")["metadata"]["uid"] = "c"
    with pytest.raises(InputError, match="another API"):
        await pair.move()
    next(r for r in pair.there.resources._records.values() if r["kind"] == "Namespace")["metadata"]["uid"] = "a"
    await asyncio.sleep(0)
    with pytest.raises(InputError):
        await pair.move()


async def test_a_paused_machine_and_set_are_left_alone(pair: Pair) -> None:
    await pair.here.annotate("MachineSet", "workers", **{"cluster.x-k8s.io/paused": ""})
    name = (await pair.here.names("Machine"))[0]
    await pair.here.annotate("Machine", name, **{"cluster.x-k8s.io/paused": ""})
    await pair.here.patch("MachineSet", "workers", {"spec": {"replicas": 0}})
    await pair.here.resources.delete("Machine", name)
    async with pair.here.running():
        await pair.here.wait(300)
        assert len(await pair.here.names("Machine")) == 2 and not pair.touched()
        await pair.here.annotate("MachineSet", "workers", **{"cluster.x-k8s.io/paused": None})
        await pair.here.annotate("Machine", name, **{"cluster.x-k8s.io/paused": None})
        await pair.here.until_gone("Machine", name)
