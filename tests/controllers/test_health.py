from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rackless.controllers.health.controller import KIND, POWER_CYCLE, STRATEGY, health_controller
from rackless.controllers.health.judging import allowed, seconds
from rackless.controllers.machines.records import REMEDIATE
from rackless.controllers.machines.remediating import OFF, POWER_OFF
from rackless.controllers.runtime.runtime import Runtime
from rackless.ports.resources import Record, Resources
from tests.controllers.machine_site import API, MachineSite, machine, machine_set


def check(*, power: bool = True, **spec: Any) -> Record:
    return {
        "apiVersion": API,
        "kind": KIND,
        "metadata": {"name": "check", "annotations": {STRATEGY: POWER_CYCLE} if power else {}},
        "spec": {
            "selector": {"matchLabels": {"machine.openshift.io/cluster-api-machineset": "set"}},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "5m"}],
            **spec,
        },
    }


class Site(MachineSite):
    def runtime(self, resources: Resources | None = None, nodes: Resources | None = None) -> Runtime:
        runtime = super().runtime(resources, nodes)
        health_controller(runtime, self.resources, self.nodes, now=self.moment)
        return runtime

    @asynccontextmanager
    async def cluster(self, workers: int, *, grown: int = 0) -> AsyncIterator[list[str]]:
        """So many Nodes of a set, all ready, each with a label of its own."""
        names = [f"worker-{number}" for number in range(workers + grown)]
        self.provisioner.inventory = {**self.provisioner.inventory, "interfaces": []}  # else all had one address
        await self.hosts(*names)
        await self.resources.apply(machine_set("set", workers))
        async with self.running():
            await self.wait(200)
            for name in names[:workers]:
                await self.join(name)
                await self.nodes.patch("Node", name, {"metadata": {"labels": {"mine": name}}})
            await self.wait(10)
            yield names

    async def silence(self, name: str) -> None:
        condition = {"type": "Ready", "status": "Unknown", "lastTransitionTime": self.now()}
        await self.nodes.patch("Node", name, {"status": {"conditions": [condition]}}, status=True)

    async def status(self) -> dict[str, Any]:
        return dict((await self.get(KIND, "check"))["status"])


async def test_a_silent_node_is_power_cycled_and_comes_back_with_its_labels() -> None:
    site = Site()
    async with site.cluster(2) as names:
        await site.resources.apply(check())
        await site.wait(10)
        assert (await site.status())["currentHealthy"] == 2
        name = await site.consumer(names[0])
        await site.silence(names[0])
        await site.wait(290)
        assert REMEDIATE not in (await site.get("Machine", name))["metadata"]["annotations"]
        await site.wait(30)
        cycled = await site.get("Machine", name)
        assert {REMEDIATE, OFF} <= set(cycled["metadata"]["annotations"])
        assert await site.nodes.get("Node", names[0]) is None
        assert site.provisioner.hard == [names[0]], "switched off without asking a system that does not answer"
        host = await site.get("BareMetalHost", names[0])
        assert POWER_OFF not in host["metadata"]["annotations"] and host["status"]["poweredOn"]
        assert (await site.status())["currentHealthy"] >= 1
        await site.join(names[0])
        await site.wait(10)
        back = await site.get("Machine", name)
        assert back["status"]["phase"] == "Running"
        assert not [found for found in back["metadata"]["annotations"] if "remediation" in found]
        assert (await site.get("Node", names[0]))["metadata"]["labels"]["mine"] == names[0]
        assert (await site.status())["currentHealthy"] == 2
        reasons = await site.reasons("Machine", name)
    assert {"Unhealthy", "RemediationStarted", "PoweredOff", "RemediationSucceeded"} <= reasons
    assert site.provisioner.started.count((names[0], "provision")) == 1


async def test_a_node_that_does_not_come_back_costs_its_machine_and_the_set_makes_another() -> None:
    site = Site()
    async with site.cluster(1, grown=1) as names:
        await site.resources.apply(check())
        first = await site.consumer(names[0])
        await site.silence(names[0])
        await site.wait(330 + 1200)
        await site.wait(300)
        assert first not in await site.names("Machine") and len(await site.names("Machine")) == 1
    assert "RemediationFailed" in await site.reasons("Machine", first)


@pytest.mark.parametrize(("limit", "minutes"), [("5m", 5), ("45m", 45), ("0", 20)])
async def test_how_long_a_node_may_take_to_come_back_is_for_the_check_to_say(limit: str, minutes: int) -> None:
    site = Site()
    async with site.cluster(1, grown=1) as names:
        await site.resources.apply(check(nodeStartupTimeout=limit))
        first = await site.consumer(names[0])
        await site.silence(names[0])
        await site.wait(330 + 60 * (minutes - 1))
        assert not (await site.get("Machine", first))["metadata"].get("deletionTimestamp")
        await site.wait(200)
        assert first not in await site.names("Machine") and len(await site.names("Machine")) == 1


async def test_without_the_strategy_the_machine_is_deleted_and_made_anew() -> None:
    site = Site()
    async with site.cluster(1, grown=1) as names:
        await site.resources.apply(check(power=False))
        first = await site.consumer(names[0])
        await site.silence(names[0])
        await site.wait(305)
        await site.wait(200)
        assert first not in await site.names("Machine") and len(await site.names("Machine")) == 1


@pytest.mark.parametrize(("limit", "cycled"), [("40%", 0), (1, 0), (2, 2), ("50%", 2)])
async def test_when_too_many_are_unwell_nothing_is_done(limit: Any, cycled: int) -> None:
    site = Site()
    async with site.cluster(4) as names:
        await site.resources.apply(check(maxUnhealthy=limit))
        for name in names[:2]:
            await site.silence(name)
        await site.wait(400)
        machines = await site.resources.list("Machine")
        marked = [record for record in machines if REMEDIATE in record["metadata"]["annotations"]]
        assert len(marked) == cycled
        status = await site.status()
        assert status["conditions"][0]["status"] == ("False" if not cycled else "True")
        assert status["expectedMachines"] == 4
        reasons = await site.reasons(KIND)
    assert ("RemediationRestricted" in reasons) is (not cycled)


async def test_a_check_with_a_remedy_of_another_controller_does_nothing_by_itself() -> None:
    """An API that is not ours takes a remediationTemplate; the Machine must not be deleted for want of somebody who reads it."""
    site = Site()
    async with site.cluster(2) as names:
        template = {"apiVersion": "x/v1", "kind": "Template", "name": "t"}
        await site.resources.apply(check(power=False, remediationTemplate=template))
        machines = await site.names("Machine")
        await site.silence(names[0])
        await site.wait(400)
        assert await site.names("Machine") == machines
        [condition] = (await site.status())["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "RemediationTemplate")
        assert "RemediationRestricted" in await site.reasons(KIND)


async def test_a_system_that_never_becomes_a_node_is_unwell_after_its_time() -> None:
    site = Site()
    await site.hosts("worker-0")
    await site.resources.apply(machine_set("set", 1))
    await site.resources.apply(check(nodeStartupTimeout="20m"))
    async with site.running():
        await site.wait(100)
        [name] = await site.names("Machine")
        await site.wait(1100)
        assert REMEDIATE not in (await site.get("Machine", name))["metadata"]["annotations"]
        await site.wait(300)
        assert REMEDIATE in (await site.get("Machine", name))["metadata"]["annotations"]


async def test_a_machine_that_nobody_would_replace_is_not_deleted() -> None:
    site = Site()
    await site.hosts("worker-0")
    labels = {"machine.openshift.io/cluster-api-machineset": "set"}
    await site.resources.apply(machine("alone", labels=labels))
    await site.resources.apply(check(power=False))
    async with site.running():
        await site.wait(3600)
    assert await site.names("Machine") == ["alone"]


@pytest.mark.parametrize(
    ("limit", "machines", "many"), [(None, 5, 5), ("40%", 4, 1), ("0%", 9, 0), (3, 9, 3), ("3", 9, 3), ("100%", 0, 0)]
)
def test_how_many_may_be_unwell(limit: Any, machines: int, many: int) -> None:
    assert allowed(limit, machines) == many


@pytest.mark.parametrize(("text", "many"), [("5m", 300), ("1h30m", 5400), ("1.5s", 1.5), ("", 7), (None, 7), ("0", 7)])
def test_durations_as_people_write_them(text: Any, many: float) -> None:
    assert seconds(text, 7) == many
