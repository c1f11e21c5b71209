"""What a person can ask of a host by a word on its record: try again, clean, inspect, take over."""

import pytest

from rackless.drivers.fake.provisioner import Fault
from rackless.ports.provisioner import ErrorKind
from rackless.provisioning.baremetalhost import CLEAN, HARDWARE_DATA, INSPECT, KIND, RETRY, State

from .site import IMAGE, Site

IMAGE_RECORD = {"url": IMAGE.url, "checksum": IMAGE.checksum, "checksumType": "sha256", "format": "qcow2"}


async def test_a_retry_begins_at_once_and_counts_from_the_start() -> None:
    site = Site()
    await site.add("ctrl-0")
    site.provisioner.faults.append(Fault("inspect", "ctrl-0", times=3))
    async with site.controlled():
        await site.until("ctrl-0", lambda host: host.status.error_count == 3)
        failed_at = site.clock.now()
        await site.annotate("ctrl-0", {RETRY: ""})
        begun = await site.until("ctrl-0", lambda host: host.status.error_type is None)
        assert site.clock.now() - failed_at < 5.0
        assert (begun.status.error_count, begun.annotations) == (0, {})
        await site.until_state("ctrl-0")


async def test_a_retry_that_fails_waits_as_after_the_first_failure() -> None:
    site = Site()
    await site.add("ctrl-0")
    site.provisioner.faults.append(Fault("inspect", "ctrl-0", times=4))
    async with site.controlled():
        await site.until("ctrl-0", lambda host: host.status.error_count == 3)
        await site.annotate("ctrl-0", {RETRY: ""})
        await site.until("ctrl-0", lambda host: host.status.error_count == 1 and host.status.error_type is not None)
        at = site.clock.now()
        await site.until("ctrl-0", lambda host: host.status.error_type is None)
        assert site.clock.now() == at + 120.0


async def test_a_retry_takes_up_an_installation_that_was_given_up() -> None:
    site = Site()
    await site.add("ctrl-0")
    site.provisioner.faults.append(Fault("provision", "ctrl-0", "the disk is on fire", times=5))
    async with site.controlled():
        with pytest.raises(TimeoutError, match="nobody for time"):
            await site.until_state("ctrl-0", retries=99)
        await site.annotate("ctrl-0", {RETRY: ""})
        await site.until_state("ctrl-0")
    assert (await site.host("ctrl-0")).status.provisioning_fail_count == 0


async def test_a_retry_of_a_host_that_is_well_changes_nothing() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.annotate("ctrl-0", {RETRY: ""})
        host = await site.until("ctrl-0", lambda host: not host.annotations)
    assert host.status.state is State.PROVISIONED
    assert site.work("ctrl-0") == ["register", "inspect", "prepare", "provision"]


async def test_an_available_host_is_cleaned_again_on_demand_and_once() -> None:
    site = Site()
    await site.add("spare", image=None)
    async with site.controlled():
        await site.until_state("spare", state=State.AVAILABLE)
        await site.annotate("spare", {CLEAN: ""})
        await site.until("spare", lambda host: host.status.state is State.PREPARING)
        await site.until_state("spare", state=State.AVAILABLE)
        await site.clock.run(site.clock.sleep(300))
    assert site.work("spare").count("prepare") == 2
    assert not (await site.host("spare")).annotations


async def test_a_cleaning_on_demand_that_fails_is_a_preparation_error() -> None:
    site = Site()
    await site.add("spare", image=None)
    async with site.controlled():
        await site.until_state("spare", state=State.AVAILABLE)
        site.provisioner.faults.append(Fault("prepare", "spare", "the disk refuses"))
        await site.annotate("spare", {CLEAN: ""})
        failed = await site.until("spare", lambda host: host.status.error_type is not None)
        assert (failed.status.state, failed.status.error_type) == (State.PREPARING, ErrorKind.PREPARATION)
        await site.until_state("spare", state=State.AVAILABLE)


async def test_what_inspection_found_is_kept_in_a_record_of_its_own_which_goes_with_the_host() -> None:
    site = Site()
    await site.add("spare", image=None)
    async with site.controlled():
        await site.until_state("spare", state=State.AVAILABLE)
        host, kept = await site.host("spare"), await site.resources.get(HARDWARE_DATA, "spare")
        assert kept and kept["spec"]["hardware"] == host.status.hardware
        assert kept["metadata"]["ownerReferences"][0]["uid"] == host.uid

        site.provisioner.inventory = {**site.provisioner.inventory, "memory": {"physical_mb": 4096}}
        await site.annotate("spare", {INSPECT: ""})
        await site.until("spare", lambda host: host.status.state is State.INSPECTING)
        await site.until_state("spare", state=State.AVAILABLE)
        kept = await site.resources.get(HARDWARE_DATA, "spare")
        assert kept and kept["spec"]["hardware"]["ramMebibytes"] == 4096

        await site.resources.delete(KIND, "spare")
        await site.until_gone("spare")
        assert await site.resources.get(HARDWARE_DATA, "spare") is None


async def test_a_host_that_somebody_else_installed_is_only_switched() -> None:
    site = Site()
    await site.add("spare", image=None, online=False)
    async with site.controlled():
        await site.until_state("spare", state=State.AVAILABLE)
        before = site.work("spare")
        await site.change("spare", externallyProvisioned=True, online=True)
        await site.until("spare", lambda host: host.status.powered_on)
    assert (await site.host("spare")).status.state is State.EXTERNALLY_PROVISIONED
    assert set(site.work("spare")[len(before) :]) <= {"power"}


async def test_a_host_whose_image_is_told_afterwards_is_adopted_and_nothing_is_written() -> None:
    site = Site()
    await site.add("spare", image=None)
    async with site.controlled():
        await site.until_state("spare", state=State.AVAILABLE)
        before = len(site.work("spare"))
        await site.change("spare", externallyProvisioned=True, online=True)
        await site.until_state("spare", state=State.EXTERNALLY_PROVISIONED)
        await site.change("spare", externallyProvisioned=False, image=IMAGE_RECORD)
        await site.until_state("spare")
        await site.until("spare", lambda host: host.status.powered_on)
    assert set(site.work("spare")[before:]) <= {"adopt", "power"}
    assert (await site.host("spare")).status.image == IMAGE


async def test_a_host_that_registers_as_somebody_elses_is_never_inspected_or_cleaned() -> None:
    site = Site()
    await site.add("theirs", image=None)
    await site.change("theirs", externallyProvisioned=True)
    async with site.controlled():
        await site.until_state("theirs", state=State.EXTERNALLY_PROVISIONED)
    assert not {"inspect", "prepare"} & set(site.work("theirs"))
