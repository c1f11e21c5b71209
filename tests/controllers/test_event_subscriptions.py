"""BMCEventSubscriptions in virtual time: made once, told when they fail, ended with their object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rackless.controllers.event_subscriptions import KIND
from rackless.ports.provisioner import EventReceiver
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import KIND as HOST
from rackless.provisioning.baremetalhost import State, secret
from tests.controllers.test_host_firmware import events_of
from tests.provisioning.site import Site

TO = "http://192.0.2.1/events"


async def subscribe(at: Site, **more: Any) -> None:
    spec = {"hostName": "a", "destination": TO, "context": "lab", **more}
    await at.resources.apply(
        {"apiVersion": "metal3.io/v1alpha1", "kind": KIND, "metadata": {"name": "told"}, "spec": spec}
    )


async def until_told(at: Site, true: Callable[[Record], bool]) -> Record:
    async def look() -> Record:
        async for event in at.resources.watch(KIND):
            if event.type != "DELETED" and true(event.record.get("status") or {}):
                return event.record
        raise AssertionError

    return await at.clock.run(look(), within=100_000)


async def gone(at: Site) -> None:
    async def look() -> None:
        while await at.resources.get(KIND, "told") is not None:
            await at.clock.sleep(1)

    await at.clock.run(look(), within=100_000)


async def test_a_bmc_is_subscribed_to_when_its_host_is_known_and_once() -> None:
    at = Site()
    await at.resources.apply(secret("headers", {"X-Token": "a word\n"}))
    await subscribe(at, httpHeadersRef={"name": "headers"})
    await at.add("a", image=None)
    async with at.controlled():
        await until_told(at, lambda status: status.get("subscriptionID") == "1")
        await at.until_state("a", state=State.AVAILABLE)
        made = at.provisioner.hosts["a"].subscriptions
        assert made == {"1": EventReceiver(TO, "lab", {"X-Token": "a word"})}
        await at.resources.delete(KIND, "told")
        await gone(at)
        assert made == {}
    assert at.provisioner.subscribed == ["1"]
    assert ("Normal", "Subscribed") in await events_of(at, KIND)


async def test_what_is_missing_is_told_and_waited_for() -> None:
    at = Site()
    await subscribe(at, httpHeadersRef={"name": "headers"})
    async with at.controlled():
        await until_told(at, lambda status: status.get("error") == "there is no host a")
        await at.add("a", image=None)
        await until_told(at, lambda status: "secret headers" in status.get("error", ""))
        await at.resources.apply(secret("headers", {"X-Token": "word"}))
        record = await until_told(at, lambda status: "subscriptionID" in status)
    assert "error" not in record["status"]
    assert ("Warning", "SubscriptionFailed") in await events_of(at, KIND)


async def test_a_bmc_that_refuses_is_asked_again() -> None:
    at = Site()
    at.provisioner.refusal = "too many"
    await at.add("a", image=None)
    await subscribe(at)
    async with at.controlled():
        await until_told(at, lambda status: status.get("error") == "too many")
        at.provisioner.refusal = ""
        await until_told(at, lambda status: "subscriptionID" in status and "error" not in status)
        at.provisioner.refusal = "not now"
        await at.resources.delete(KIND, "told")
        await until_told(at, lambda status: status.get("error") == "not now")
        at.provisioner.refusal = ""
        await gone(at)
    assert at.provisioner.hosts["a"].subscriptions == {}


async def test_an_engine_that_is_busy_is_asked_again_both_times() -> None:
    at = Site()
    await at.add("a", image=None)
    async with at.controlled():
        await at.until_state("a", state=State.AVAILABLE)
        at.provisioner.busy = 3
        await subscribe(at)
        await until_told(at, lambda status: "subscriptionID" in status)
        at.provisioner.busy = 3
        await at.resources.delete(KIND, "told")
        await gone(at)
    assert at.provisioner.subscribed == ["1"]


async def test_a_subscription_of_a_host_that_is_gone_goes() -> None:
    at = Site()
    await at.add("a", image=None)
    await subscribe(at)
    async with at.controlled():
        await until_told(at, lambda status: "subscriptionID" in status)
        await at.resources.delete(HOST, "a")
        await at.until_gone("a")
        await at.resources.delete(KIND, "told")
        await gone(at)


async def test_a_controller_that_starts_again_subscribes_to_nothing_twice() -> None:
    at = Site()
    await at.add("a", image=None)
    await subscribe(at)
    async with at.controlled():
        await until_told(at, lambda status: "subscriptionID" in status)
    async with at.controlled():
        await at.until_state("a", state=State.AVAILABLE)
        await at.clock.run(at.clock.sleep(900))
    assert at.provisioner.subscribed == ["1"]
