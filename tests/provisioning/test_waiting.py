"""Waiting for hosts, one record at a time; and what a phase looks like on the bus."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from rackless.cli.words import message
from rackless.drivers.fake.resources import MemoryResources
from rackless.errors import GaveUp, LabError, ProvisioningFailed
from rackless.events import Bus, Event, Note, StepFinished, StepStarted
from rackless.ports.provisioner import ErrorKind
from rackless.provisioning.baremetalhost import KIND, RETRY, Host, State, Status, baremetalhost, status_record
from rackless.provisioning.progress import Progress, worded
from rackless.provisioning.waiting import until_host, until_state

SOON = 0.05


async def put(resources: MemoryResources, name: str, annotations: dict[str, str] | None = None, **status: Any) -> None:
    record = baremetalhost(name, "ipmi://1", "bmc", "02:00:00:00:00:01")
    record["metadata"]["annotations"] = annotations or {}
    await resources.apply(record)
    await resources.patch_status(KIND, name, status_record(Status(**status)))


async def meanwhile(waiting: Awaitable[Any], *steps: Awaitable[Any]) -> Any:
    task = asyncio.ensure_future(waiting)
    for step in steps:
        await asyncio.sleep(0)
        assert not task.done()
        await step
    return await asyncio.wait_for(task, 20)


async def test_all_the_named_hosts_are_waited_for_and_no_other() -> None:
    resources = MemoryResources()
    await put(resources, "stranger", state=State.AVAILABLE, error_type=ErrorKind.POWER, error_count=9)
    await put(resources, "a", state=State.PROVISIONED)
    await meanwhile(
        until_state(resources, ("a", "b")),
        put(resources, "b", state=State.PROVISIONING),
        put(resources, "b", state=State.PROVISIONED, error_type=ErrorKind.POWER, error_count=1),
        put(resources, "b", state=State.PROVISIONED),
    )
    await until_state(resources, ())


@pytest.mark.parametrize(("status", "retries", "enough"), [
    ({"error_count": 1}, 0, True), ({"error_count": 1}, 1, False), ({"error_count": 2}, 1, True),
    ({"error_count": 1, "provisioning_fail_count": 1}, 1, True),
    ({"error_count": 1, "provisioning_fail_count": 0}, 1, False),
])  # fmt: skip
async def test_a_host_may_fail_so_often_in_a_row_and_an_installation_too(
    status: dict[str, Any], retries: int, enough: bool
) -> None:
    resources = MemoryResources()
    await put(resources, "a", state=State.INSPECTING, error_type=ErrorKind.INSPECTION, error_message="dark", **status)
    with pytest.raises(ProvisioningFailed if enough else GaveUp) as error:
        await until_state(resources, ("a",), retries=retries, within=SOON)
    if enough:
        assert (error.value.what, error.value.why) == ("host a failed while inspecting", "inspection error: dark")


async def test_a_count_without_an_error_is_no_failure_and_one_failure_is_forgiven_unasked() -> None:
    resources = MemoryResources()
    await put(resources, "a", state=State.INSPECTING, error_count=5)
    await put(resources, "b", state=State.INSPECTING, error_type=ErrorKind.INSPECTION, error_count=1)
    with pytest.raises(GaveUp, match="hosts to be provisioned") as error:
        await until_state(resources, ("a", "b", "c"), within=0.51)
    assert "after 1 s" in error.value.what
    assert "a is inspecting, b is inspecting, c is not there yet" in str(error.value)


async def test_an_unreadable_record_and_a_new_one_are_told_as_such() -> None:
    resources = MemoryResources()
    await put(resources, "a")
    await put(resources, "b")
    await resources.patch_status(KIND, "b", {"provisioning": {"state": "flying"}})
    with pytest.raises(GaveUp) as error:
        await until_state(resources, ("a", "b"), within=SOON)
    assert "a is new, b is unreadable (" in str(error.value)


def is_available(host: Host) -> bool:
    return host.status.state is State.AVAILABLE


async def test_one_host_is_waited_for_whatever_others_do() -> None:
    resources = MemoryResources()
    await put(resources, "b", state=State.AVAILABLE)
    await put(resources, "a", state=State.PREPARING)
    waiting = until_host(resources, "a", is_available, what="free", within=20)
    assert (await meanwhile(waiting, put(resources, "a", state=State.AVAILABLE))).name == "a"
    with pytest.raises(GaveUp, match="host c to be free") as error:
        await until_host(resources, "c", is_available, what="free", within=SOON)
    assert "not there" in str(error.value)
    await put(resources, "d")
    with pytest.raises(GaveUp) as error:
        await until_host(resources, "d", is_available, what="free", within=SOON)
    assert error.value.why == "last seen: new"
    await put(resources, "a", state=State.PREPARING)
    with pytest.raises(GaveUp, match="preparing"):
        await until_host(resources, "a", is_available, what="free", within=SOON)


async def test_nobody_waits_for_what_a_record_does_not_ask_for_any_more() -> None:
    resources = MemoryResources()
    await put(resources, "a", state=State.PREPARING)
    waiting = until_host(
        resources, "a", is_available, what="free", within=20, wanted=lambda host: host.status.state is State.PREPARING
    )
    with pytest.raises(LabError, match="host a is not to be free any more") as error:
        await meanwhile(waiting, put(resources, "a", state=State.DEPROVISIONING))
    assert "it is deprovisioning" in str(error.value)


async def test_a_failure_from_before_counts_only_once_the_retry_was_taken_up() -> None:
    resources = MemoryResources()
    failed: dict[str, Any] = {"state": State.PREPARING, "error_type": ErrorKind.PREPARATION, "error_count": 1}
    await put(resources, "a", {RETRY: ""}, **failed)
    with pytest.raises(GaveUp):
        await until_host(resources, "a", is_available, what="free", within=SOON)
    await put(resources, "a", **{**failed, "error_count": 0})
    with pytest.raises(GaveUp):
        await until_host(resources, "a", is_available, what="free", within=SOON)
    await put(resources, "a", **failed)
    with pytest.raises(ProvisioningFailed):
        await until_host(resources, "a", is_available, what="free", within=20)


async def test_a_host_that_is_deleted_meanwhile_is_waited_for_no_longer() -> None:
    resources = MemoryResources()
    await put(resources, "a", state=State.PREPARING)
    with pytest.raises(LabError, match="host a was deleted"):
        await meanwhile(
            until_host(resources, "a", is_available, what="free", within=20), resources.delete(KIND, "a")
        )  # fmt: skip


def seen_of() -> tuple[Progress, list[Event]]:
    bus, seen = Bus(), list[Event]()
    bus.subscribe(seen.append)
    return Progress(bus, "a"), seen


def test_a_phase_is_one_step_however_often_it_is_looked_at() -> None:
    progress, seen = seen_of()
    for _ in range(3):
        progress.at(State.INSPECTING)
        progress.doing("booting")
    progress.doing("")
    progress.at(State.AVAILABLE)
    assert [type(event) for event in seen] == [StepStarted, Note, StepFinished]
    progress.doing("resting")
    assert len(seen) == 3
    progress.at(State.INSPECTING)
    progress.doing("booting")
    assert [type(event) for event in seen[3:]] == [StepStarted, Note]


@pytest.mark.parametrize("state", State)
def test_work_is_a_step_and_rest_is_none(state: State) -> None:
    progress, seen = seen_of()
    progress.at(state)
    rest = (State.NONE, State.UNMANAGED, State.AVAILABLE, State.PROVISIONED, State.EXTERNALLY_PROVISIONED)
    assert bool(seen) is (state not in rest)
    if seen:
        assert isinstance(seen[0], StepStarted) and (seen[0].subject, seen[0].phase) == ("host/a", state.value)
    progress.close()


def test_a_failed_phase_ends_as_failed_and_a_failure_at_rest_is_a_warning() -> None:
    progress, seen = seen_of()
    progress.at(State.INSPECTING)
    progress.failed("inspection error", "dark\nmore")
    finished = seen[-1]
    assert isinstance(finished, StepFinished)
    assert (finished.outcome, finished.cause, finished.detail) == (
        "failed", "inspection error", "inspection error: dark",
    )  # fmt: skip
    progress.at(State.INSPECTING)
    assert isinstance(seen[-1], StepStarted), "tried again is a new step"
    progress.abandon()
    assert isinstance(seen[-1], StepFinished) and seen[-1].outcome == "cancelled"
    progress.abandon()
    progress.failed("power management error", "no")
    assert (
        isinstance(seen[-1], Note)
        and seen[-1].level == "warning"
        and "a: power management error: no" in message(seen[-1])
    )


def test_what_is_done_is_told_with_how_much_of_its_phase_lies_behind_it() -> None:
    since = "2026-11-19T03:04:05Z"
    for doing, told in (
        ("starting inspection", "0 %: starting inspection, since 03:04:05Z"),
        ("inspecting", "66 %: inspecting, since 03:04:05Z"),
        ("something new", "something new, since 03:04:05Z"),
    ):
        assert worded(State.INSPECTING, doing, since) == told
    assert worded(State.AVAILABLE, "resting", since) == "resting, since 03:04:05Z"
