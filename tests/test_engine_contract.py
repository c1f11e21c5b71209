"""What every provisioning engine does as a service, be it Ironic or a fake: its environment, its start and end, its memory.

What it does with a host is in `test_provisioner_contract.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.fake.environment import FakeEnvironment
from rackless.drivers.fake.script import Script
from rackless.drivers.ironic.environment import IronicEnvironment
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.drivers import Drivers
from rackless.ports.ironic import EngineEnvironment, ForeignAccess, Guest, IronicSite, OpenProvisioner
from rackless.ports.provisioner import Again, BmcLogin, Done, HostAccess, Result
from rackless.run.paths import Roots
from rackless.simulation.world import make_world
from tests.drivers.ironic.certificates import write_certificates
from tests.drivers.ironic.redfish_standin import StandIn
from tests.drivers.ironic.test_environment import Builder
from tests.own_network import own_network

ADDRESS = "192.0.2.1"
NOBODY = f"https://{ADDRESS}:1"


@pytest.fixture(params=["ironic", "fake"])
def environment(request: pytest.FixtureRequest) -> EngineEnvironment:
    return FakeEnvironment(Script()) if request.param == "fake" else IronicEnvironment(Builder())


async def test_an_environment_is_made_once_and_made_again_when_it_was_retired(
    environment: EngineEnvironment, tmp_path: Path
) -> None:
    place = await environment.current(tmp_path)
    assert not environment.complete(place) and not place.exists()
    assert await environment.ensure(tmp_path, Bus()) == place and environment.complete(place)
    made = place.stat().st_ino
    assert await environment.ensure(tmp_path, Bus()) == place and place.stat().st_ino == made
    assert environment.retire(place) and not place.exists() and not environment.complete(place)
    assert await environment.ensure(tmp_path, Bus()) == place and environment.complete(place)


async def test_half_an_environment_is_none(environment: EngineEnvironment, tmp_path: Path) -> None:
    place = await environment.current(tmp_path)
    place.mkdir(parents=True)
    assert not environment.complete(place)
    await environment.ensure(tmp_path, Bus())
    assert environment.complete(place)


async def test_an_environment_that_somebody_makes_is_not_taken_away(
    environment: EngineEnvironment, tmp_path: Path
) -> None:
    if isinstance(environment, FakeEnvironment):
        environment.takes = 0.1
    making = asyncio.create_task(environment.ensure(tmp_path, Bus()))
    place = await environment.current(tmp_path)
    for _ in range(10_000):
        if place.exists():
            break
        await asyncio.sleep(0.001)
    assert not environment.retire(place) and place.exists()
    assert await making == place and environment.complete(place)
    assert environment.retire(place)


@dataclass(frozen=True)
class Engines:
    """The drivers by which engines are started and reached, and a site for one."""

    drivers: Drivers
    site: IronicSite
    environment: Path
    host: HostAccess

    @property
    def access(self) -> ForeignAccess:
        site = self.site
        return ForeignAccess(f"https://{ADDRESS}:6385", site.username, site.password, site.ca)

    async def start(self) -> Any:
        log = self.site.state.parent / "engine.log"
        return await self.drivers.start_provisioning(self.site, self.environment, self.drivers.processes, log=log)


Story = Callable[[Engines], Coroutine[Any, Any, None]]
Told = Callable[[Story], None]


@pytest.fixture(params=[pytest.param("ironic", marks=pytest.mark.real), "fake"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Told:
    """A story is given drivers, and a host whose BMC answers."""
    ca, certificate, key = write_certificates(tmp_path, ADDRESS)
    boot = tmp_path / "kernel", tmp_path / "ramdisk", tmp_path / "esp"
    for path in boot:
        path.write_bytes(os.urandom(4096))
    site = IronicSite(tmp_path / "state", IPv4Address(ADDRESS), certificate, key, ca, "rackless", "a password",
                      f"http://{ADDRESS}:8080", tmp_path / "http", *boot)  # fmt: skip
    bmc = BmcLogin(f"redfish-virtualmedia://{ADDRESS}:8443/redfish/v1/Systems/1", "admin", "secret", ca)
    host = HostAccess("box", "00000000-0000-4000-8000-000000000001", bmc, "02:00:00:00:01:01")

    def tell(story: Story) -> None:
        if request.param == "fake":
            world = make_world()
            world.lab("None").provisioner.unreachable.add(NOBODY)
            engines = Engines(world.drivers(), site, tmp_path / "environment", host)
            world.run(world.processes.as_process("labd", story(engines)))
            return
        from rackless.drivers import open_drivers

        drivers = open_drivers()
        venv = asyncio.run(drivers.open_environment().ensure(Roots.from_environment().cache, Bus()))

        async def whole() -> None:
            for words in ("link set lo up", f"address add {ADDRESS}/24 dev lo"):
                await drivers.processes.run(["ip", *words.split()])
            async with StandIn().serving(ADDRESS, 8443, certificate, key):
                await story(Engines(drivers, site, venv, host))

        with own_network() as live:
            live(whole)

    return tell


async def until_not_again(step: Callable[[], Awaitable[Result]]) -> Result:
    for _ in range(300):
        result = await step()
        if not isinstance(result, Again):
            return result
        await asyncio.sleep(result.after)
    raise AssertionError("it does not end")


async def is_known(engine: OpenProvisioner, host: HostAccess) -> bool:
    """An engine has something to do for a host that it has not seen, and nothing for one that it knows."""
    for _ in range(60):
        found = await engine.register(host)
        if not (isinstance(found, Again) and found.busy):
            return isinstance(found, Done)
        await asyncio.sleep(found.after)
    raise AssertionError("it is always busy")


def test_an_engine_remembers_its_hosts_over_its_end_and_nothing_without_its_database(told: Told) -> None:
    async def story(engines: Engines) -> None:
        host = engines.host
        service = await engines.start()
        assert not service.forgetful
        engine = service.open(network_boot=False)
        assert not await is_known(engine, host)
        assert isinstance(await until_not_again(lambda: engine.register(host)), Done)
        await service.stop()
        away = await engine.register(replace(host, name="other", uid="00000000-0000-4000-8000-000000000002"))
        assert isinstance(away, Again) and away.busy, "who wants something of an engine that has ended is to ask again"
        await engine.close()

        service = await engines.start()
        engine = service.open(network_boot=False)
        assert await is_known(engine, host) and not service.forgetful
        await engine.close()
        await service.stop()
        for database in engines.site.state.glob("*.sqlite*"):
            database.unlink()
        assert service.forgetful

        service = await engines.start()
        engine = service.open(network_boot=False)
        assert not service.forgetful and not await is_known(engine, host)
        await engine.close()
        await service.stop()

    told(story)


def test_a_foreign_engine_is_looked_at_before_it_is_used_and_forgets_what_is_ours(told: Told) -> None:
    async def story(engines: Engines) -> None:
        service = await engines.start()
        try:
            foreign = engines.drivers.reach_provisioning(engines.access)
            await foreign.check()
            engine = foreign.open(Guest("lab."))
            assert isinstance(await until_not_again(lambda: engine.register(engines.host)), Done)
            await engine.close()
            assert await foreign.forget_all(Guest("other.")) == [], "others' are not ours to forget"
            assert await foreign.forget_all(Guest("lab.")) == [f"lab.{engines.host.name}"]
            assert await foreign.forget_all(Guest("lab.")) == []
        finally:
            await service.stop()
        with pytest.raises(RacklessError):
            await engines.drivers.reach_provisioning(replace(engines.access, url=NOBODY)).check()

    told(story)
