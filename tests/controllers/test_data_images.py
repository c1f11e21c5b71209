"""DataImages in virtual time: put in and taken out while the host is off, and never under a system that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rackless.drivers.fake.provisioner import Fault
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import PAUSED, REBOOT, State
from rackless.provisioning.data_image import KIND, attached
from tests.controllers.test_host_firmware import events_of
from tests.provisioning.site import Site

ISO, OTHER = "http://192.0.2.1/data.iso", "http://192.0.2.1/other.iso"


async def image(at: Site, url: str = ISO) -> None:
    await at.resources.apply(
        {"apiVersion": "metal3.io/v1alpha1", "kind": KIND, "metadata": {"name": "a"}, "spec": {"url": url}}
    )


async def until_image(at: Site, true: Callable[[Record], bool]) -> Record:
    async def look() -> Record:
        async for event in at.resources.watch(KIND):
            if event.type != "DELETED" and true(event.record):
                return event.record
        raise AssertionError

    return await at.clock.run(look(), within=100_000)


async def reboot(at: Site) -> None:
    await at.annotate("a", {REBOOT: '{"mode": "hard"}'})
    await at.until("a", lambda host: REBOOT not in host.annotations)
    await at.until("a", lambda host: host.status.powered_on)


def drive(at: Site) -> str | None:
    return at.provisioner.hosts["a"].media


async def gone(at: Site) -> None:
    async def look() -> None:
        while await at.resources.get(KIND, "a") is not None:
            await at.clock.sleep(1)

    await at.clock.run(look(), within=100_000)


async def test_an_image_is_put_in_at_the_next_reboot_exchanged_and_taken_out() -> None:
    at = Site()
    await at.add("a")
    async with at.controlled():
        await at.until_state("a")
        await image(at)
        await at.clock.run(at.clock.sleep(900))
        assert drive(at) is None, "a system that runs finds nothing changed"
        order: list[Any] = at.provisioner.started
        begun = len(order)
        await reboot(at)
        assert drive(at) == ISO
        assert [work for _, work in order[begun:]] == ["power", "media", "power"], "off, in, on"
        record = await until_image(at, lambda found: attached(found) == ISO)
        assert "error" not in record["status"]
        await image(at, OTHER)
        await reboot(at)
        assert drive(at) == OTHER
        await at.resources.delete(KIND, "a")
        await at.clock.run(at.clock.sleep(900))
        assert drive(at) == OTHER and await at.resources.get(KIND, "a")
        await reboot(at)
        await gone(at)
    assert drive(at) is None
    told = await events_of(at, KIND)
    assert ("Normal", "Attached") in told and ("Normal", "Detached") in told


async def test_a_host_that_was_off_has_its_image_when_it_is_switched_on() -> None:
    at = Site()
    await at.add("a")
    async with at.controlled():
        await at.until_state("a")
        await at.change("a", online=False)
        await at.until("a", lambda host: not host.status.powered_on)
        await image(at)
        await until_image(at, lambda found: attached(found) == ISO)
        await at.change("a", online=True)
        await at.until("a", lambda host: host.status.powered_on)
    assert drive(at) == ISO


async def test_an_image_that_cannot_be_had_is_told_and_holds_nobody_up() -> None:
    at = Site()
    at.provisioner.faults.append(Fault("media", "a", "404"))
    await at.add("a")
    async with at.controlled():
        await at.until_state("a")
        await image(at)
        await reboot(at)
        record = await until_image(at, lambda found: "error" in (found.get("status") or {}))
        assert record["status"]["error"] == {"count": 1, "message": "404"} and drive(at) is None
        assert (await at.host("a")).status.error_type is None
        await reboot(at)
        await at.change("a", online=False)
        record = await until_image(at, lambda found: attached(found) == ISO)
        assert "error" not in record["status"]
    assert ("Warning", "DataImageFailed") in await events_of(at, KIND)


async def test_a_host_that_is_given_back_has_an_empty_drive_and_gets_its_image_again_with_its_next_system() -> None:
    at = Site()
    await at.add("a")
    async with at.controlled():
        await at.until_state("a")
        await image(at)
        await reboot(at)
        spec = (await at.resources.get("BareMetalHost", "a") or {})["spec"]["image"]
        await at.change("a", image=None)
        await at.until_state("a", state=State.AVAILABLE)
        await until_image(at, lambda found: attached(found) is None)
        at.provisioner.hosts["a"].media = None  # as whoever takes a system off leaves it
        await at.change("a", image=spec)
        await at.until_state("a")
        await reboot(at)
    assert drive(at) == ISO


async def test_an_image_of_no_host_waits_and_goes_at_once() -> None:
    at = Site()
    async with at.controlled():
        await image(at)
        await at.clock.run(at.clock.sleep(60))
        await at.resources.delete(KIND, "a")
        await gone(at)


async def test_nothing_is_put_into_a_paused_host() -> None:
    at = Site()
    await at.add("a")
    async with at.controlled():
        await at.until_state("a")
        await at.change("a", online=False)
        await at.until("a", lambda host: not host.status.powered_on)
        await at.annotate("a", {PAUSED: ""})
        await image(at)
        await at.clock.run(at.clock.sleep(900))
        assert drive(at) is None
        await at.annotate("a", {})
        await until_image(at, lambda found: attached(found) == ISO)
