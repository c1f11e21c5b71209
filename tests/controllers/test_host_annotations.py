from __future__ import annotations

import json
from typing import Any

import pytest

from rackless.controllers.host_annotations import DETACHED, HARDWARE, STATUS
from rackless.ports.provisioner import ErrorKind, Failed, HostAccess, Result
from rackless.ports.resources import Refused
from rackless.provisioning.baremetalhost import KIND, Operational, State, image_record
from tests.provisioning.site import IMAGE, Site


async def reasons(site: Site) -> set[str]:
    await site.clock.run(site.clock.sleep(0.01))
    return {event["reason"] for event in await site.resources.list("Event")}


async def test_a_detached_host_is_forgotten_runs_on_and_is_adopted_when_it_comes_back() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.annotate("ctrl-0", {DETACHED: ""})
        host = await site.until("ctrl-0", lambda host: host.status.operational is Operational.DETACHED)
        assert host.status.state is State.PROVISIONED and "ctrl-0" not in site.provisioner.hosts
        await site.change("ctrl-0", online=False)
        await site.clock.run(site.clock.sleep(2000))
        assert "ctrl-0" not in site.provisioner.hosts, "nobody switches it"
        await site.change("ctrl-0", online=True)
        await site.annotate("ctrl-0", {})
        await site.until("ctrl-0", lambda host: host.status.operational is Operational.OK)
        await site.clock.run(site.clock.sleep(60))
        told = await reasons(site)
    assert site.work("ctrl-0").count("provision") == 1 and site.work("ctrl-0")[-1] == "adopt"
    assert {"Detached", "Attached"} <= told


async def test_a_detached_host_that_is_deleted_goes_without_being_touched() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.annotate("ctrl-0", {DETACHED: ""})
        await site.until("ctrl-0", lambda host: host.status.operational is Operational.DETACHED)
        await site.resources.delete(KIND, "ctrl-0")
        await site.until_gone("ctrl-0")
    assert "deprovision" not in site.work("ctrl-0") and "power" not in site.work("ctrl-0")


async def test_a_host_that_is_detached_and_deleted_at_once_is_forgotten_without_being_touched() -> None:
    """Deleted before anybody looked: an engine that still knew it would go on switching it, and keep its MAC address."""
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
        before = site.work("ctrl-0")
        await site.annotate("ctrl-0", {DETACHED: ""})
        await site.resources.delete(KIND, "ctrl-0")
        await site.until_gone("ctrl-0")
    assert "ctrl-0" not in site.provisioner.hosts
    assert set(site.work("ctrl-0")[len(before) :]) <= {"delete"}


async def test_a_detached_host_may_wait_with_its_end() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.annotate("ctrl-0", {DETACHED: '{"deleteAction": "delay"}'})
        await site.until("ctrl-0", lambda host: host.status.operational is Operational.DETACHED)
        await site.resources.delete(KIND, "ctrl-0")
        await site.clock.run(site.clock.sleep(2000))
        assert (await site.host("ctrl-0")).deleting
        await site.annotate("ctrl-0", {})
        await site.until_gone("ctrl-0")


async def test_a_host_is_not_detached_while_it_is_worked_on() -> None:
    site = Site()
    await site.add("ctrl-0")
    await site.annotate("ctrl-0", {DETACHED: ""})
    async with site.controlled():
        host = await site.until("ctrl-0", lambda host: host.status.operational is Operational.DETACHED)
    assert host.status.state is State.AVAILABLE


async def test_an_engine_that_does_not_let_go_of_a_host_is_told_and_asked_again() -> None:
    site = Site()
    await site.add("ctrl-0")
    delete, kept = site.provisioner.delete, [Failed(ErrorKind.REGISTRATION, "the node is locked")]

    async def keeping(host: HostAccess) -> Result:
        return kept.pop() if kept else await delete(host)

    site.provisioner.delete = keeping  # type: ignore[method-assign]
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.annotate("ctrl-0", {DETACHED: ""})
        await site.until("ctrl-0", lambda host: host.status.operational is Operational.DETACHED)
        await site.clock.run(site.clock.sleep(0.01))
        [event] = [each for each in await site.resources.list("Event") if each["reason"] == "DetachError"]
    assert (event["type"], event["message"]) == ("Warning", "the node is locked")


async def test_a_host_that_is_moved_goes_on_from_the_status_it_brings() -> None:
    old = Site()
    await old.add("ctrl-0")
    async with old.controlled():
        await old.until_state("ctrl-0")
    record = await old.resources.get(KIND, "ctrl-0")
    assert record
    new = Site()
    new.provisioner = old.provisioner
    await new.add("ctrl-0")
    await new.annotate("ctrl-0", {STATUS: json.dumps(record["status"])})
    async with new.controlled():
        await new.until_state("ctrl-0")
        await new.clock.run(new.clock.sleep(60))
        told = await reasons(new)
    moved = await new.host("ctrl-0")
    assert STATUS not in moved.annotations and moved.status.hardware == record["status"]["hardware"]
    assert [work for work in new.work("ctrl-0") if work in ("inspect", "provision")] == ["inspect", "provision"]
    assert "StatusRestored" in told


@pytest.mark.parametrize("value", ["{", "[]", '{"provisioning": {"state": "dancing"}}'])
async def test_nothing_is_done_with_a_host_whose_status_cannot_be_read_until_that_is_mended(value: str) -> None:
    """It may be running something: a host without a status would be inspected and cleaned."""
    site = Site()
    await site.add("ctrl-0")
    await site.annotate("ctrl-0", {STATUS: value})
    async with site.controlled():
        host = await site.until("ctrl-0", lambda host: host.status.error_type is not None)
        await site.clock.run(site.clock.sleep(4000))
        assert host.status.error_message.startswith(f"the annotation {STATUS} cannot be read")
        assert not site.work("ctrl-0") and "InvalidAnnotationValue" in await reasons(site)
        running = {"provisioning": {"state": "provisioned", "image": image_record(IMAGE)}, "poweredOn": True}
        await site.annotate("ctrl-0", {STATUS: json.dumps(running)})
        host = await site.until("ctrl-0", lambda host: host.status.state is State.PROVISIONED)
        await site.clock.run(site.clock.sleep(300))
    assert host.status.error_type is None
    assert not {"inspect", "prepare", "provision", "power"} & set(site.work("ctrl-0"))


async def test_a_status_that_the_api_does_not_take_is_told_and_nothing_is_done_meanwhile() -> None:
    site = Site()
    await site.add("ctrl-0")
    running = {"provisioning": {"state": "provisioned", "image": image_record(IMAGE)}, "poweredOn": True}
    await site.annotate("ctrl-0", {STATUS: json.dumps(running)})
    patch_status, refused = site.resources.patch_status, [Refused("not so"), Refused("not so")]

    async def fussy(kind: str, name: str, status: Any, **more: Any) -> Any:
        if status.get("poweredOn") and refused:
            raise refused.pop()
        return await patch_status(kind, name, status, **more)

    site.resources.patch_status = fussy  # type: ignore[method-assign]
    async with site.controlled():
        host = await site.until("ctrl-0", lambda host: host.status.error_type is not None)
        assert "not so" in host.status.error_message and not host.status.last_updated
        host = await site.until("ctrl-0", lambda host: host.status.state is State.PROVISIONED)
        await site.clock.run(site.clock.sleep(300))
        host = await site.host("ctrl-0")
    assert host.status.error_type is None and STATUS not in host.annotations
    assert not {"inspect", "prepare", "provision", "power"} & set(site.work("ctrl-0"))


async def test_a_host_whose_status_cannot_be_read_may_be_deleted() -> None:
    site = Site()
    await site.add("ctrl-0")
    await site.annotate("ctrl-0", {STATUS: "{"})
    async with site.controlled():
        await site.until("ctrl-0", lambda host: host.status.error_type is not None)
        await site.resources.delete(KIND, "ctrl-0")
        await site.until_gone("ctrl-0")
    assert not {"inspect", "prepare", "deprovision", "power"} & set(site.work("ctrl-0"))


async def test_hardware_that_is_told_need_not_be_looked_for() -> None:
    site = Site()
    await site.add("ctrl-0", image=None)
    await site.change("ctrl-0", inspectionMode="disabled")
    await site.annotate("ctrl-0", {HARDWARE: '{"ramMebibytes": 7}'})
    async with site.controlled():
        await site.until_state("ctrl-0", state=State.AVAILABLE)
    host = await site.host("ctrl-0")
    assert host.status.hardware == {"ramMebibytes": 7} and HARDWARE not in host.annotations
    assert "inspect" not in site.work("ctrl-0")


async def test_the_older_way_to_leave_inspection_out() -> None:
    site = Site()
    await site.add("ctrl-0", image=None)
    await site.annotate("ctrl-0", {"inspect.metal3.io": "disabled"})
    async with site.controlled():
        await site.until_state("ctrl-0", state=State.AVAILABLE)
    assert "inspect" not in site.work("ctrl-0")


async def test_a_host_that_is_worked_on_is_detached_by_force() -> None:
    site = Site()
    await site.add("a")
    async with site.controlled():
        await site.until("a", lambda host: host.status.state is State.INSPECTING)
        await site.annotate("a", {DETACHED: '{"force": true}'})
        await site.until("a", lambda host: host.status.operational is Operational.DETACHED)
    assert "a" not in site.provisioner.hosts


async def test_a_status_is_not_taken_by_a_host_that_has_one() -> None:
    site = Site()
    await site.add("a", image=None)
    async with site.controlled():
        await site.until_state("a", state=State.AVAILABLE)
        await site.annotate("a", {STATUS: '{"provisioning": {"state": "provisioned", "ID": "x"}}'})
        host = await site.until("a", lambda host: STATUS not in host.annotations)
    assert host.status.state is State.AVAILABLE


async def test_hardware_that_is_no_json_is_told_and_what_was_looked_at_is_kept() -> None:
    site = Site()
    await site.add("a", image=None)
    await site.annotate("a", {HARDWARE: "[1"})
    async with site.controlled():
        await site.until("a", lambda host: HARDWARE not in host.annotations)
        await site.until_state("a", state=State.AVAILABLE)
        found = (await site.host("a")).status.hardware
        await site.annotate("a", {HARDWARE: '{"hostname": "other"}'})
        host = await site.until("a", lambda host: HARDWARE not in host.annotations)
    assert host.status.hardware == found
    assert "InvalidAnnotationValue" in {event["reason"] for event in await site.resources.list("Event")}
