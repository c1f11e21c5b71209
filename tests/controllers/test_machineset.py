from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rackless.controllers.machines.choosing import by_name
from rackless.controllers.machines.counting import leaving
from rackless.controllers.machines.records import AUTOSCALE, DELETE_FIRST
from rackless.controllers.machines.selectors import BadSelector, matches, mismatch, text
from rackless.ports.resources import Record
from tests.controllers.machine_site import BEGIN, MachineSite, machine, machine_set

WORKERS = tuple(f"worker-{number}" for number in range(4))


async def test_a_set_grows_and_shrinks_and_leaves_the_hosts_behind() -> None:
    site = MachineSite()
    await site.hosts(*WORKERS)
    await site.resources.apply(machine_set("set", 2))
    async with site.running():
        await site.wait(200)
        assert [await site.consumer(host) != "" for host in WORKERS] == [True, True, False, False]
        for host in WORKERS[:2]:
            await site.join(host)
        await site.wait(10)
        status = (await site.get("MachineSet", "set"))["status"]
        assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (2, 2, 2)
        assert status["fullyLabeledReplicas"] == 2
        assert status["labelSelector"] == "machine.openshift.io/cluster-api-machineset=set"
        await site.patch("MachineSet", "set", {"spec": {"replicas": 4}})
        await site.wait(200)
        assert "" not in [await site.consumer(host) for host in WORKERS]
        await site.patch("MachineSet", "set", {"spec": {"replicas": 0}})
        await site.wait(300)
    assert [await site.consumer(host) for host in WORKERS] == [""] * 4
    assert await site.names("Machine") == []
    assert {await site.state(host) for host in WORKERS} == {"available"}
    assert (await site.get("MachineSet", "set"))["status"]["replicas"] == 0
    assert {"SuccessfulCreate", "SuccessfulDelete"} <= await site.reasons("MachineSet", "set")


async def test_a_machine_of_a_set_that_is_deleted_is_replaced() -> None:
    site = MachineSite()
    await site.hosts("worker-0", "worker-1")
    await site.resources.apply(machine_set("set", 1))
    async with site.running():
        await site.wait(150)
        [first] = await site.names("Machine")
        await site.resources.delete("Machine", first)
        await site.wait(300)
        [second] = await site.names("Machine")
    assert first != second


async def test_ready_and_available_follow_the_nodes() -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.resources.apply(machine_set("set", 1, minReadySeconds=60))

    async def counted() -> tuple[int, int]:
        status = (await site.get("MachineSet", "set"))["status"]
        return status["readyReplicas"], status["availableReplicas"]

    async with site.running():
        await site.wait(200)
        await site.join("worker-0", ready=False)
        await site.wait(10)
        assert await counted() == (0, 0)
        await site.join("worker-0")
        await site.wait(10)
        assert await counted() == (1, 0)
        await site.wait(60)
        assert await counted() == (1, 1)
        await site.join("worker-0", ready=False)
        await site.wait(10)
        assert await counted() == (0, 0)


async def test_a_marked_machine_goes_first() -> None:
    site = MachineSite()
    await site.hosts(*WORKERS)
    await site.resources.apply(machine_set("set", 4))
    async with site.running():
        await site.wait(200)
        names = await site.names("Machine")
        await site.annotate("Machine", names[2], **{DELETE_FIRST[0]: "true"})
        await site.patch("MachineSet", "set", {"spec": {"replicas": 3}})
        await site.wait(300)
    assert await site.names("Machine") == [name for name in names if name != names[2]]
    told = [message for reason, message in await site.events("MachineSet", "set") if reason == "SuccessfulDelete"]
    assert told == [f"{names[2]} goes, for 3 are wanted: it is marked to go first"]


def _aged(name: str, days: float, **more: Any) -> Record:
    created = (BEGIN.timestamp() - days * 86400) // 1
    moment = type(BEGIN).fromtimestamp(created, BEGIN.tzinfo).strftime("%Y-%m-%dT%H:%M:%SZ")
    record = machine(name)
    record["metadata"] |= {"uid": name, "namespace": "metal3", "creationTimestamp": moment} | more.pop("metadata", {})
    record["status"] = {"nodeRef": {"name": name}, **more}
    return record


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("Random", ["going", "failed", "marked", "alone", "young", "middle", "old"]),
        ("Newest", ["going", "failed", "marked", "young", "alone", "middle", "old"]),
        ("Oldest", ["going", "failed", "marked", "old", "middle", "alone", "young"]),
    ],
)
def test_the_order_in_which_machines_go(policy: str, order: list[str]) -> None:
    machines = [
        _aged("old", 90),
        _aged("middle", 40),
        _aged("young", 1),
        _aged("alone", 2, nodeRef=None),
        _aged("marked", 60, metadata={"annotations": {DELETE_FIRST[1]: ""}}),
        _aged("failed", 50, errorMessage="no host"),
        _aged("going", 30, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ]
    assert [record["metadata"]["name"] for record, _ in leaving(policy, machines, 7, BEGIN)] == order
    assert leaving(policy, list(reversed(machines)), 7, BEGIN) == leaving(policy, machines, 7, BEGIN)


async def test_a_set_that_follows_its_hosts_grows_and_shrinks_with_them() -> None:
    site = MachineSite()
    await site.hosts("worker-0", labels={"rack": "a"})
    await site.hosts("other", labels={"rack": "b"})
    grown = machine_set("set", 0, provider={"hostSelector": {"matchLabels": {"rack": "a"}}})
    grown["metadata"]["annotations"] = {AUTOSCALE: ""}
    await site.resources.apply(grown)

    async def replicas() -> int:
        return int((await site.get("MachineSet", "set"))["spec"]["replicas"])

    async with site.running():
        await site.wait(200)
        assert await replicas() == 1
        await site.hosts("worker-1", labels={"rack": "a"})
        await site.wait(200)
        assert await replicas() == 2 and len(await site.names("Machine")) == 2
        gone = await site.consumer("worker-0")
        await site.resources.delete("BareMetalHost", "worker-0")
        await site.wait(300)
        assert await replicas() == 1
    assert gone not in await site.names("Machine") and await site.consumer("worker-1") != ""
    assert "AutoscaledToHosts" in await site.reasons("MachineSet", "set")


async def test_a_set_takes_in_machines_of_nobody_that_it_would_count() -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    labels = {"machine.openshift.io/cluster-api-machineset": "set"}
    async with site.running():
        await site.resources.apply(machine("mine", labels=labels))
        await site.resources.apply(machine("stranger"))
        await site.wait(100)
        await site.resources.apply(machine_set("set", 1))
        await site.wait(100)
    assert await site.names("Machine") == ["mine", "stranger"]
    adopted = await site.get("Machine", "mine")
    assert [owner["name"] for owner in adopted["metadata"]["ownerReferences"]] == ["set"]
    assert "ownerReferences" not in (await site.get("Machine", "stranger"))["metadata"]
    assert "Adopted" in await site.reasons("Machine", "mine")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"selector": {}}, "spec.selector is empty"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "do not fulfil spec.selector (a=b)"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, "operator 'near' is unknown"),
    ],
)
async def test_a_set_of_which_no_machines_can_be_made_says_so(change: Mapping[str, Any], said: str) -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.resources.apply(machine_set("set", 1, **change))
    async with site.running():
        await site.wait(10)
        assert said in (await site.get("MachineSet", "set"))["status"]["errorMessage"]
        assert await site.names("Machine") == []
        await site.patch("MachineSet", "set", {"spec": {"selector": None}})
        await site.patch("MachineSet", "set", {"spec": machine_set("set", 1)["spec"]})
        await site.wait(10)
    assert "errorMessage" not in (await site.get("MachineSet", "set"))["status"]
    assert len(await site.names("Machine")) == 1


@pytest.mark.parametrize(
    ("expression", "labels", "fits"),
    [
        ({"operator": "In", "values": ["a", "b"]}, {"k": "b"}, True),
        ({"operator": "in", "values": ["a", "b"]}, {"k": "c"}, False),
        ({"operator": "in", "values": ["a", "b"]}, {}, False),
        ({"operator": "NotIn", "values": ["a"]}, {}, True),
        ({"operator": "notin", "values": ["a"]}, {"k": "a"}, False),
        ({"operator": "Exists"}, {"k": ""}, True),
        ({"operator": "exists"}, {}, False),
        ({"operator": "DoesNotExist"}, {}, True),
        ({"operator": "!"}, {"k": "a"}, False),
        ({"operator": "=", "values": ["a"]}, {"k": "a"}, True),
        ({"operator": "==", "values": ["a"]}, {"k": "b"}, False),
        ({"operator": "!=", "values": ["a"]}, {"k": "b"}, True),
        ({"operator": "!=", "values": ["a"]}, {"k": "a"}, False),
        ({"operator": "gt", "values": ["4"]}, {"k": "5"}, True),
        ({"operator": "gt", "values": ["5"]}, {"k": "5"}, False),
        ({"operator": "Lt", "values": ["6"]}, {"k": "5"}, True),
        ({"operator": "lt", "values": ["5"]}, {"k": "5"}, False),
        ({"operator": "lt", "values": ["5"]}, {"k": "x"}, False),
    ],
)
def test_selectors_know_the_operators_of_kubernetes_and_of_hosts(expression: Any, labels: Any, fits: bool) -> None:
    selector = {"matchExpressions": [{"key": "k", **expression}]}
    assert matches(selector, labels) is fits
    assert bool(mismatch(selector, labels)) is not fits


@pytest.mark.parametrize(
    "expression",
    [{"operator": "In"}, {"key": "k", "operator": "gt", "values": ["x"]}, {"key": "k", "operator": "=", "values": []}],
)
def test_a_selector_that_says_nothing_is_refused(expression: Any) -> None:
    with pytest.raises(BadSelector):
        matches({"matchExpressions": [expression]}, {"k": "1"})


def test_a_selector_in_words_and_names_in_their_order() -> None:
    expressions = [
        {"key": "b", "operator": "In", "values": ["x", "y"]},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
        {"key": "e", "operator": "gt", "values": ["3"]},
    ]
    assert text({"matchLabels": {"a": "1"}, "matchExpressions": expressions}) == "a=1,b in (x,y),c,!d,e > 3"
    assert sorted(["w-10", "w-2", "a", "w-2-b"], key=by_name) == ["a", "w-2", "w-2-b", "w-10"]
