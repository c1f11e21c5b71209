"""What stands beside a host, while writes conflict, watches are lost and the controllers are killed: it comes out the same."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from rackless.controllers.event_subscriptions import KIND as SUBSCRIPTION
from rackless.drivers.fake.resources import MemoryResources
from rackless.errors import LabError
from rackless.ports.resources import Conflict, Record, RecordEvent
from rackless.provisioning.baremetalhost import REBOOT
from rackless.provisioning.data_image import KIND as DATA_IMAGE
from rackless.provisioning.firmware import SETTINGS, condition
from tests.controllers.test_host_firmware import BIOS
from tests.provisioning.site import Site

ISO = "http://192.0.2.1/data.iso"


class Flaky(MemoryResources):
    """Every now and then somebody else was faster, or a watch ends."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.well = False

    async def patch(self, *args: Any, **more: Any) -> Record:
        self._conflict()
        return await super().patch(*args, **more)

    async def patch_status(self, *args: Any, **more: Any) -> Record:
        self._conflict()
        return await super().patch_status(*args, **more)

    async def watch(self, kind: str, **more: Any) -> AsyncGenerator[RecordEvent, None]:
        lives = self.chance.randint(2, 8)
        async for event in super().watch(kind, **more):
            yield event
            lives -= 1
            if more.get("bookmarks") and lives <= 0 and event.type != "BOOKMARK" and not self.well:
                raise LabError("the connection was lost")

    def _conflict(self) -> None:
        if not self.well and self.chance.random() < 0.25:
            raise Conflict("somebody else was faster")


def record(kind: str, name: str, **spec: Any) -> Record:
    return {"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("seed", range(5))
async def test_it_comes_out_the_same_however_it_went(seed: int) -> None:
    resources = Flaky(seed)
    at = Site(resources=resources)
    at.provisioner.bios = BIOS
    await resources.apply(record(SETTINGS, "a", settings={"ProcTurboMode": "Disabled"}))
    await resources.apply(record(DATA_IMAGE, "a", url=ISO))
    await resources.apply(record(SUBSCRIPTION, "told", hostName="a", destination="http://192.0.2.1/events"))
    await at.add("a")
    for _ in range(40):  # killed again and again
        async with at.controlled():
            await at.clock.run(at.clock.sleep(resources.chance.uniform(1, 20)))
    resources.well = True
    async with at.controlled():
        await at.until_state("a")
        await at.annotate("a", {REBOOT: ""})
        await at.until("a", lambda host: REBOOT not in host.annotations)
        await at.until("a", lambda host: host.status.powered_on)
        await at.clock.run(at.clock.sleep(120))
    engine = at.provisioner.hosts["a"]
    assert engine.settings == {"ProcTurboMode": "Disabled"} and engine.media == ISO
    assert len(engine.subscriptions) >= 1, (
        "the answer to a write may be lost: then the BMC is asked twice, never not at all"
    )
    settings = await resources.get(SETTINGS, "a")
    assert settings and condition(settings, "ChangeDetected")["status"] == "False"
    image, told = await resources.get(DATA_IMAGE, "a"), await resources.get(SUBSCRIPTION, "told")
    assert image and image["status"]["attachedImage"] == {"url": ISO}
    assert told and told["status"]["subscriptionID"] in engine.subscriptions
    assert at.work("a").count("configure") == 1
