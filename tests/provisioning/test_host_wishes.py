"""What people ask of hosts, against the real controller and an engine that only pretends, in virtual time."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from rackless.drivers.fake.provisioner import Fault
from rackless.errors import LabError, ProvisioningFailed
from rackless.ports.provisioner import Image
from rackless.provisioning.baremetalhost import (
    BY_HAND,
    KIND,
    METAL,
    NOT_TAKEN,
    PAUSED,
    State,
    System,
    secret,
    strange_host,
    strangers_secret,
)
from rackless.provisioning.wishes import Granted, HostWishes
from tests.provisioning.site import IMAGE, Site

OTHER = Image("http://192.0.2.1/other.raw", "cd" * 32, "sha256", "raw")
LIVE = Image("http://192.0.2.1/rescue.iso", "", "auto", "live-iso")


async def spare(site: Site) -> HostWishes:
    await site.add("spare", image=None)
    await site.until_state("spare", state=State.AVAILABLE)
    return HostWishes(site.resources)


async def test_inspection_and_cleaning_end_when_they_are_done() -> None:
    site = Site()
    async with site.controlled():
        wishes = await spare(site)
        for work, ask in (("inspect", wishes.inspect), ("prepare", wishes.clean)):
            before = site.work("spare").count(work)
            assert (await site.clock.run(ask("spare", wait=True))).state == "available"
            assert site.work("spare").count(work) == before + 1


async def test_without_waiting_a_wish_is_only_written_down() -> None:
    site = Site()
    async with site.controlled():
        wishes = await spare(site)
        before = site.clock.now()
        assert (await wishes.inspect("spare", wait=False)).changed
        assert site.clock.now() == before
        await site.until("spare", lambda host: host.status.state is State.INSPECTING)


@pytest.mark.parametrize("image", [OTHER, LIVE])
async def test_a_host_gets_the_image_and_its_user_data_and_up_knows_whose_it_is(image: Image) -> None:
    site = Site()
    async with site.controlled():
        wishes = await spare(site)
        done = await site.clock.run(
            wishes.provision("spare", System(image, "#ignition"), replace=False, wait=True), within=9999
        )
        assert (done.state, done.changed) == ("provisioned", True)
        assert site.provisioner.hosts["spare"].image == image
        config = site.provisioner.hosts["spare"].config
        assert config and config.user_data == "#ignition"
        assert BY_HAND in (await site.host("spare")).annotations

        again = await wishes.provision("spare", System(image, "#ignition"), replace=False, wait=False)
        assert not again.changed


async def test_a_system_is_replaced_only_when_that_is_said() -> None:
    site = Site()
    await site.add("a")
    async with site.controlled():
        await site.until_state("a")
        wishes = HostWishes(site.resources)
        with pytest.raises(LabError, match="would lose what is on it"):
            await wishes.provision("a", System(OTHER), replace=False, wait=True)
        await site.clock.run(wishes.provision("a", System(OTHER), replace=True, wait=True))
        assert (await site.host("a")).status.image == OTHER
    assert site.work("a")[-2:] == ["deprovision", "provision"]
    assert (await site.host("a")).spec.user_data_name == ""


async def test_the_image_that_is_there_is_not_written_again_for_another_checksum() -> None:
    site = Site()
    await site.add("a")
    async with site.controlled():
        await site.until_state("a")
        mended = System(replace(IMAGE, checksum="cd" * 32))
        with pytest.raises(LabError, match="has the image of that URL on it") as refused:
            await site.clock.run(HostWishes(site.resources).provision("a", mended, replace=True, wait=True))
    assert "host deprovision a" in refused.value.hint and "deprovision" not in site.work("a")


async def test_an_installation_that_fails_is_told_at_once_with_the_reason() -> None:
    site = Site()
    async with site.controlled():
        wishes = await spare(site)
        site.provisioner.faults.append(Fault("provision", "spare", "the image is not the one its checksum says"))
        with pytest.raises(ProvisioningFailed) as failure:
            await site.clock.run(wishes.provision("spare", System(OTHER), replace=False, wait=True))
    assert "not the one its checksum says" in failure.value.why


async def test_a_retry_waits_for_where_the_host_should_be_and_fails_with_the_next_failure() -> None:
    site = Site()
    await site.add("a")
    site.provisioner.faults.append(Fault("inspect", "a", times=2))
    async with site.controlled():
        wishes = HostWishes(site.resources)
        await site.until("a", lambda host: host.status.error_count == 1)
        failed_at = site.clock.now()
        with pytest.raises(ProvisioningFailed):
            await site.clock.run(wishes.retry("a", wait=True))
        assert site.clock.now() - failed_at < 60
        assert (await site.clock.run(wishes.retry("a", wait=True))).state == "provisioned"
        with pytest.raises(LabError, match="has not failed"):
            await wishes.retry("a", wait=True)


async def test_a_host_is_taken_as_it_is_and_given_back_cleaned() -> None:
    site = Site()
    async with site.controlled():
        wishes = await spare(site)
        before = len(site.work("spare"))
        assert (await site.clock.run(wishes.adopt("spare", None, wait=True))).state == "externally provisioned"
        assert set(site.work("spare")[before:]) <= {"power"}
        with pytest.raises(LabError, match="is externally provisioned"):
            await wishes.provision("spare", System(OTHER), replace=True, wait=False)
        assert (await site.clock.run(wishes.deprovision("spare", wait=True))).state == "available"
    assert site.work("spare")[before:].count("prepare") == 1
    assert not (await site.host("spare")).annotations


async def test_a_host_is_adopted_with_the_image_that_is_on_it_and_nothing_is_written() -> None:
    site = Site()
    async with site.controlled():
        wishes = await spare(site)
        before = len(site.work("spare"))
        assert (await site.clock.run(wishes.adopt("spare", OTHER, wait=True))).state == "provisioned"
        await site.until("spare", lambda host: host.status.powered_on)
        assert set(site.work("spare")[before:]) <= {"power", "adopt"}
        assert not (await wishes.adopt("spare", OTHER, wait=True)).changed
        await site.clock.run(wishes.deprovision("spare", wait=True))
    assert "deprovision" in site.work("spare")


Ask = Callable[[HostWishes], Awaitable[Granted]]
ASKS: dict[str, Ask] = {
    "inspect": lambda wishes: wishes.inspect("a", wait=True),
    "clean": lambda wishes: wishes.clean("a", wait=True),
    "adopt": lambda wishes: wishes.adopt("a", None, wait=True),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=list(ASKS))
async def test_what_a_running_system_would_lose_is_refused_with_the_way_out(ask: Ask) -> None:
    site = Site()
    await site.add("a")
    async with site.controlled():
        await site.until_state("a")
        with pytest.raises(LabError, match="provisioned"):
            await ask(HostWishes(site.resources))
    assert (await site.host("a")).status.state is State.PROVISIONED


@pytest.mark.parametrize("ask", ASKS.values(), ids=list(ASKS))
async def test_an_unknown_host_is_named(ask: Ask) -> None:
    with pytest.raises(LabError, match="there is no host a"):
        await ask(HostWishes(Site().resources))


async def test_a_host_that_is_being_deleted_takes_no_wishes() -> None:
    site = Site()
    async with site.controlled():
        wishes = await spare(site)
        await site.resources.delete(KIND, "spare")
        with pytest.raises(LabError, match="is being deleted"):
            await wishes.inspect("spare", wait=True)


async def test_taking_off_what_is_not_there_changes_nothing() -> None:
    site = Site()
    async with site.controlled():
        wishes = await spare(site)
        await wishes.deprovision("spare", wait=True)
        assert not (await wishes.deprovision("spare", wait=True)).changed


async def metal(site: Site) -> HostWishes:
    """A host that somebody may be using, as lab.yaml describes it."""
    address = "redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1"
    await site.resources.apply(secret(strangers_secret("rack1"), {"username": "root", "password": "secret"}))
    await site.resources.apply(strange_host("rack1", address, "02:00:00:00:07:07", verify=False))
    return HostWishes(site.resources)


async def test_nothing_is_asked_of_metal_until_it_was_given_to_the_lab() -> None:
    site = Site()
    async with site.controlled():
        wishes = await metal(site)
        await site.clock.run(site.clock.sleep(600))
        assert not site.work("rack1")
        for ask in (wishes.inspect, wishes.clean, wishes.retry, wishes.deprovision):
            with pytest.raises(LabError, match="nobody has said that the lab may have rack1"):
                await ask("rack1", wait=False)
        done = await site.clock.run(wishes.take("rack1", wait=True), within=9999)
        assert (done.changed, done.state) == (True, "available") and "inspect" in site.work("rack1")
        again = await wishes.take("rack1", wait=False)
        assert not again.changed, "it is the lab's already"


async def test_metal_is_written_as_what_it_is() -> None:
    site = Site()
    await metal(site)
    host = await site.host("rack1")
    assert host.annotations == {PAUSED: NOT_TAKEN} and not host.spec.online and not host.spec.verify_certificate
    record = strange_host("x", "ipmi://192.0.2.8", "02:00:00:00:07:08", "legacy")
    assert record["spec"]["bootMode"] == "legacy" and "disableCertificateVerification" not in record["spec"]["bmc"]
    assert record["metadata"]["labels"] == {METAL: ""}


async def test_a_pause_of_somebody_else_is_not_lifted_by_taking_a_host() -> None:
    site = Site()
    await site.add("spare", image=None)
    await site.annotate("spare", {PAUSED: ""})
    assert not (await HostWishes(site.resources).take("spare", wait=False)).changed
    assert PAUSED in (await site.host("spare")).annotations
