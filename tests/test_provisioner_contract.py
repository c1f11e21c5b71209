"""What every provisioner does with a host, be it one that speaks to Ironic's API or a fake."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from rackless.drivers.fake.provisioner import INVENTORY, FakeProvisioner, Fault
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.ports.provisioner import (
    Again,
    BmcLogin,
    ConfigDrive,
    Done,
    ErrorKind,
    EventReceiver,
    Failed,
    HostAccess,
    Image,
    Provisioner,
    Result,
)
from tests.drivers.ironic.ironic_standin import IronicStandIn

BMC = BmcLogin("redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1", "admin", "secret")
HOST = HostAccess("ctrl-0", "uid-1", BMC, "02:00:00:00:00:01")
IMAGE = Image("http://192.0.2.1/node.qcow2", "ab" * 32)
CONFIG = ConfigDrive('{"ignition": {}}')
Call = Callable[[], Awaitable[Result]]

ROADS = {
    "manage": ("verifying", "manageable", ""),
    "inspect": ("inspecting", "manageable", "inspect failed"),
    "provide": ("cleaning", "available", "clean failed"),
    "active": ("deploying", "active", "deploy failed"),
    "deleted": ("deleting", "available", ""),
    "adopt": ("adopting", "active", "adopt failed"),
    "clean": ("cleaning", "manageable", "clean failed"),
}
"""What Ironic goes through for each verb: on the way, there, and where it gets stuck."""


@dataclass
class LivingIronic(IronicStandIn):
    """Ironic's API with a node that goes on by itself: it is on its way for one look, and there at the next."""

    failing: set[str] = field(default_factory=set)
    """Verbs that fail, once."""
    _ahead: dict[str, Any] = field(default_factory=dict)

    async def _provision(self, request: web.Request) -> web.Response:
        body = await request.json()
        verb = body["target"]
        way, there, stuck = ROADS[verb]
        assert self.node is not None
        self.node |= {"provision_state": way, "last_error": None}
        self._ahead = {"provision_state": there}
        if verb in self.failing:
            self.failing.discard(verb)
            self._ahead = {"provision_state": stuck, "last_error": "it was told to fail"}
        elif verb == "clean":
            given = {each["name"]: each["value"] for each in body["clean_steps"][0]["args"]["settings"]}
            self.bios = [{**each, "value": given.get(each["name"], each["value"])} for each in self.bios]
            self._ahead |= {"power_state": "power on"}
        elif verb == "inspect":
            self.inventory = dict(INVENTORY)
        elif verb == "deleted":
            self._ahead |= {"instance_info": {}, "instance_uuid": None}
        return web.Response(status=202)

    async def _power(self, request: web.Request) -> web.Response:
        self._ahead = {"power_state": (await request.json())["target"].removeprefix("soft ")}
        return web.Response(status=202)

    async def _insert(self, request: web.Request) -> web.Response:
        self.drive = (await request.json())["image_url"]
        return web.Response(status=204)

    async def _eject(self, request: web.Request) -> web.Response:
        self.drive = None
        return web.Response(status=204)

    async def _get_node(self, request: web.Request) -> web.Response:
        found = await super()._get_node(request)
        if self.node is not None:
            self.node |= self._ahead
            self._ahead = {}
        return found

    def forget(self) -> None:
        self.node, self.ports, self.inventory = None, [], None


@dataclass
class StepClock:
    """Time passes whenever somebody asks again."""

    time: float = 0.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


@dataclass
class Site:
    provisioner: Provisioner
    fail: Callable[[str], None]
    """The next inspection, cleaning … of the host fails."""
    forget: Callable[[], None]
    clock: StepClock = field(default_factory=StepClock)

    async def finish(self, call: Call) -> Done | Failed:
        for _ in range(50):
            result = await call()
            if not isinstance(result, Again):
                return result
            await self.clock.sleep(max(result.after, 1.0))
        raise AssertionError(f"it never ends: {result}")


@pytest.fixture(params=["ironic", "fake"])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    if request.param == "fake":
        clock = StepClock()
        fake = FakeProvisioner(clock, bios={"Turbo": {"value": "On", "attribute_type": "String"}})
        words = {"inspect": "inspect", "provide": "prepare", "active": "provision", "clean": "configure"}
        yield Site(fake, lambda verb: fake.faults.append(Fault(words[verb], HOST.name)), fake.forget, clock)
        return
    api = LivingIronic(bios=[{"name": "Turbo", "value": "On", "attribute_type": "String"}])
    async with api.serving() as url, IronicProvisioner(url, "admin", "secret", None) as ironic:
        yield Site(ironic, api.failing.add, api.forget)


async def test_a_host_goes_all_the_way_and_back(site: Site) -> None:
    engine = site.provisioner
    assert isinstance(await site.finish(lambda: engine.register(HOST)), Done)
    inspected = await site.finish(lambda: engine.inspect(HOST))
    assert isinstance(inspected, Done) and inspected.detail["cpu"]["count"] == 2
    assert isinstance(await site.finish(lambda: engine.prepare(HOST)), Done)
    assert isinstance(await engine.provision(HOST, IMAGE, CONFIG), Again), "it is begun, and not waited for"
    assert isinstance(await site.finish(lambda: engine.provision(HOST, IMAGE, CONFIG)), Done)
    assert isinstance(await engine.provision(HOST, IMAGE, CONFIG), Done), "what is so stays so"
    for on in (False, True):
        switched = await site.finish(lambda on=on: engine.power(HOST, on, hard=True))  # type: ignore[misc]
        assert isinstance(switched, Done) and switched.detail["powered_on"] is on
        assert isinstance(await engine.power(HOST, on), Done)
    assert isinstance(await site.finish(lambda: engine.deprovision(HOST)), Done)
    assert isinstance(await engine.deprovision(HOST), Done)
    assert isinstance(await site.finish(lambda: engine.provision(HOST, IMAGE, CONFIG)), Done), "and once more"
    for _ in range(2):
        assert isinstance(await site.finish(lambda: engine.delete(HOST)), Done)


@pytest.mark.parametrize(
    ("verb", "kind"),
    [
        ("inspect", ErrorKind.INSPECTION),
        ("provide", ErrorKind.PREPARATION),
        ("active", ErrorKind.PROVISIONING),
    ],
)
async def test_what_has_failed_fails_until_it_is_to_begin_anew(site: Site, verb: str, kind: ErrorKind) -> None:
    engine = site.provisioner
    call: Callable[[bool], Awaitable[Result]] = {
        "inspect": lambda restart: engine.inspect(HOST, restart=restart),
        "provide": lambda restart: engine.prepare(HOST, restart=restart),
        "active": lambda restart: engine.provision(HOST, IMAGE, CONFIG, restart=restart),
    }[verb]
    await site.finish(lambda: engine.register(HOST))
    if verb == "active":
        await site.finish(lambda: engine.prepare(HOST))
    site.fail(verb)
    failed = await site.finish(lambda: call(False))
    assert failed == Failed(kind, "it was told to fail") == await call(False)
    assert isinstance(await call(True), Again)
    assert isinstance(await site.finish(lambda: call(False)), Done)


async def test_an_engine_that_has_lost_everything_is_told_of_the_host_again(site: Site) -> None:
    engine = site.provisioner
    await site.finish(lambda: engine.register(HOST))
    await site.finish(lambda: engine.inspect(HOST))
    site.forget()
    first = await engine.inspect(HOST)
    assert isinstance(first, Again) and first.busy
    assert isinstance(await site.finish(lambda: engine.inspect(HOST)), Done)


async def test_a_host_that_is_clean_is_cleaned_once_more_when_that_is_asked_for(site: Site) -> None:
    engine = site.provisioner
    await site.finish(lambda: engine.register(HOST))
    await site.finish(lambda: engine.prepare(HOST))
    assert isinstance(await engine.prepare(HOST), Done)
    assert isinstance(await engine.prepare(HOST, restart=True), Again)
    assert isinstance(await site.finish(lambda: engine.prepare(HOST)), Done)


async def test_a_host_that_has_its_system_is_adopted_without_writing_it(site: Site) -> None:
    engine = site.provisioner
    await site.finish(lambda: engine.register(HOST))
    assert isinstance(await site.finish(lambda: engine.adopt(HOST, IMAGE)), Done)
    assert isinstance(await engine.adopt(HOST, IMAGE), Done)
    assert isinstance(await site.finish(lambda: engine.deprovision(HOST)), Done)


async def test_a_firmware_is_given_settings_and_tells_them(site: Site) -> None:
    engine = site.provisioner
    await site.finish(lambda: engine.register(HOST))
    assert await engine.firmware(HOST) == Done({"Turbo": {"value": "On", "attribute_type": "String"}})
    site.fail("clean")
    failed = await site.finish(lambda: engine.prepare(HOST, {"Turbo": "Off"}))
    assert failed == Failed(ErrorKind.PREPARATION, "it was told to fail")
    assert isinstance(await engine.prepare(HOST, {"Turbo": "Off"}, restart=True), Again)
    assert isinstance(await site.finish(lambda: engine.prepare(HOST, {"Turbo": "Off"})), Done)
    assert isinstance(await engine.prepare(HOST, {"Turbo": "Off"}), Done), "what is so stays so"
    assert await engine.firmware(HOST) == Done({"Turbo": {"value": "Off", "attribute_type": "String"}})


async def test_an_image_is_in_the_drive_of_a_provisioned_host_and_out_of_it(site: Site) -> None:
    engine, url = site.provisioner, "http://192.0.2.1/data.iso"
    await site.finish(lambda: engine.register(HOST))
    await site.finish(lambda: engine.adopt(HOST, IMAGE))
    for wanted in (url, url, "http://192.0.2.1/other.iso", None, None):
        assert await site.finish(lambda wanted=wanted: engine.media(HOST, wanted)) == Done()  # type: ignore[misc]


async def test_a_bmc_is_subscribed_to_and_no_longer(site: Site) -> None:
    engine = site.provisioner
    await site.finish(lambda: engine.register(HOST))
    made = await site.finish(lambda: engine.subscribe(HOST, EventReceiver("http://192.0.2.1/events")))
    assert isinstance(made, Done) and made.detail["id"]
    for _ in range(2):
        assert isinstance(await site.finish(lambda: engine.unsubscribe(HOST, made.detail["id"])), Done)


async def test_who_asks_beside_the_way_of_a_host_that_is_not_known_waits(site: Site) -> None:
    engine = site.provisioner
    for answer in (await engine.firmware(HOST), await engine.media(HOST, None), await engine.unsubscribe(HOST, "1")):
        assert isinstance(answer, Again) and answer.busy
