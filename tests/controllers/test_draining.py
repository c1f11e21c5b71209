"""A Node is emptied before its Machine's host is taken: which pods go, which are waited for, and what is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rackless.controllers.machines.draining import MIRROR
from rackless.controllers.machines.records import WITHOUT_DRAIN
from rackless.ports.resources import Record
from tests.controllers.machine_site import MachineSite, condition, machine

MASTER = {"machine.openshift.io/cluster-api-machine-role": "master"}


@dataclass
class FakePods:
    """Pods that end `ends_after` looks after they were asked to."""

    pods: dict[str, Record] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    """Those whose disruption budget keeps them, and its words."""
    stuck: set[str] = field(default_factory=set)
    """Those that are asked to end and do not."""
    asked: list[tuple[str, int | None]] = field(default_factory=list)
    looks: int = 0

    def add(self, name: str, owner: str = "ReplicaSet", phase: str = "Running", **annotations: str) -> None:
        metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations}
        owners = [{"kind": owner, "name": "x", "uid": "x", "controller": True}] if owner else []
        self.pods[name] = {"metadata": {**metadata, "ownerReferences": owners}, "status": {"phase": phase}}

    async def on(self, node: str) -> list[Record]:
        self.looks += 1
        here = list(self.pods.values())
        for name in [name for name in self.pods if self.pods[name]["metadata"].get("deletionTimestamp")]:
            if name not in self.stuck:
                del self.pods[name]
        return here

    async def evict(self, pod: Mapping[str, Any], *, grace: int | None = None) -> str:
        name = pod["metadata"]["name"]
        self.asked.append((name, grace))
        if name in self.kept:
            return self.kept[name]
        self.pods[name]["metadata"] = {**self.pods[name]["metadata"], "deletionTimestamp": "now"}
        return ""


async def _running(site: MachineSite, name: str = "m", host: str = "worker-0", *, number: int = 10) -> None:
    await site.until_phase(name, "Provisioned")
    await site.join(host, f"192.0.2.{number}")
    await site.until_phase(name, "Running")


async def test_pods_are_evicted_and_the_host_is_taken_when_they_are_gone() -> None:
    pods = FakePods()
    for name in ("web-1", "web-2"):
        pods.add(name)
    pods.add("agent", owner="DaemonSet")
    pods.add("etcd", owner="Node", **{MIRROR: "x"})
    pods.add("alone", owner="")
    pods.add("done", owner="DaemonSet", phase="Succeeded")
    pods.stuck = {"web-2"}
    site = MachineSite(pods=pods)
    await site.hosts("worker-0")
    await site.resources.apply(machine("m"))
    async with site.running():
        await _running(site)
        assert not pods.looks, "a Node that is not drained is not looked at"
        await site.resources.delete("Machine", "m")
        await site.wait(120)
        held = condition(await site.get("Machine", "m"), "Drained")
        assert (held["status"], held["reason"]) == ("False", "Draining")
        assert held["message"] == "it waits for 1 pod: default/web-2"
        assert (await site.get("Node", "worker-0"))["spec"]["unschedulable"]
        assert await site.state("worker-0") == "provisioned"
        pods.stuck.clear()
        await site.until_gone("Machine", "m")
        reasons = await site.reasons("Machine", "m")
    assert sorted(pods.asked) == [("alone", None), ("done", None), ("web-1", None), ("web-2", None)], "each once"
    assert set(pods.pods) == {"agent", "etcd"}
    assert {"Draining", "DrainSucceeded"} <= reasons and await site.state("worker-0") == "available"


async def test_a_pod_that_its_budget_keeps_is_asked_again_and_named() -> None:
    pods = FakePods(kept={"web": "Cannot evict pod as it would violate the pod's disruption budget."})
    pods.add("web")
    site = MachineSite(pods=pods)
    await site.hosts("worker-0")
    await site.resources.apply(machine("m"))
    async with site.running():
        await _running(site)
        await site.resources.delete("Machine", "m")
        await site.wait(60)
        assert await site.state("worker-0") == "provisioned" and len(pods.asked) > 2
        told = await site.events("Machine", "m")
        assert any(reason == "DrainRequeued" and "default/web" in said and "budget" in said for reason, said in told)
        pods.kept.clear()
        await site.until_gone("Machine", "m")


async def test_pods_of_a_node_that_is_not_heard_of_get_a_second_and_are_not_waited_for() -> None:
    pods = FakePods(stuck={"web"})
    pods.add("web")
    site = MachineSite(pods=pods)
    await site.hosts("worker-0")
    await site.resources.apply(machine("m"))
    async with site.running():
        await _running(site)
        silent = {"type": "Ready", "status": "Unknown", "lastTransitionTime": site.now()}
        await site.nodes.patch("Node", "worker-0", {"status": {"conditions": [silent]}}, status=True)
        await site.resources.delete("Machine", "m")
        await site.until_gone("Machine", "m")
    assert pods.asked == [("web", 1)]


async def test_without_a_drain_nobody_is_asked_to_go_and_hooks_come_before_it() -> None:
    pods = FakePods()
    pods.add("web")
    site = MachineSite(pods=pods)
    await site.hosts("worker-0")
    await site.resources.apply(machine("m", lifecycleHooks={"preDrain": [{"name": "wait", "owner": "me"}]}))
    async with site.running():
        await _running(site)
        await site.annotate("Machine", "m", **{WITHOUT_DRAIN: ""})
        await site.resources.delete("Machine", "m")
        await site.wait(60)
        assert await site.state("worker-0") == "provisioned"
        await site.patch("Machine", "m", {"spec": {"lifecycleHooks": None}})
        await site.until_gone("Machine", "m")
    assert not pods.asked and not pods.looks


async def test_a_node_that_was_empty_once_is_not_looked_at_again() -> None:
    pods = FakePods()
    site = MachineSite(pods=pods)
    await site.hosts("worker-0")
    await site.resources.apply(machine("m", lifecycleHooks={"preTerminate": [{"name": "wait", "owner": "me"}]}))
    async with site.running():
        await _running(site)
        await site.resources.delete("Machine", "m")
        await site.wait(60)
        looks = pods.looks
        pods.add("late")
        await site.patch("Machine", "m", {"spec": {"lifecycleHooks": None}})
        await site.until_gone("Machine", "m")
    assert looks and pods.looks == looks and not pods.asked


async def test_control_planes_are_drained_one_after_the_other() -> None:
    pods = FakePods(stuck={"web"})
    pods.add("web")
    site = MachineSite(pods=pods)
    await site.hosts("ctrl-0", "ctrl-1")
    for number in range(2):
        await site.resources.apply(machine(f"m{number}", labels=MASTER))
    async with site.running():
        for number in range(2):
            await site.until_phase(f"m{number}", "Provisioned")
        hosts = {await site.consumer(name): name for name in ("ctrl-0", "ctrl-1")}
        for number in range(2):
            await _running(site, f"m{number}", hosts[f"m{number}"], number=20 + number)
        for number in range(2):
            await site.resources.delete("Machine", f"m{number}")
            await site.patch("Machine", f"m{number}", {"spec": {"lifecycleHooks": None}})
            await site.wait(30)
        first, second = [condition(await site.get("Machine", f"m{number}"), "Drained") for number in range(2)]
        assert first["reason"] == "Draining" and second["reason"] == "OtherControlPlane"
        assert "takes nothing new" in second["message"]
        pods.pods.clear()
        for number in range(2):
            await site.until_gone("Machine", f"m{number}")


async def test_of_two_control_planes_that_are_deleted_at_the_same_time_one_is_drained_first() -> None:
    """Neither may wait for the other because both were cordoned at once."""
    pods = FakePods(stuck={"web"})
    pods.add("web")
    site = MachineSite(pods=pods)
    patch = site.nodes.patch

    async def slow(kind: str, name: str, change: Mapping[str, Any], **more: Any) -> Record:
        await site.clock.sleep(3)
        return await patch(kind, name, change, **more)

    site.nodes.patch = slow  # type: ignore[method-assign]
    await site.hosts("ctrl-0", "ctrl-1")
    for number in range(2):
        await site.resources.apply(machine(f"m{number}", labels=MASTER))
    async with site.running():
        for number in range(2):
            await site.until_phase(f"m{number}", "Provisioned")
        hosts = {await site.consumer(name): name for name in ("ctrl-0", "ctrl-1")}
        for number in range(2):
            await _running(site, f"m{number}", hosts[f"m{number}"], number=20 + number)
        await site.wait(60)
        for number in range(2):
            await site.patch("Machine", f"m{number}", {"spec": {"lifecycleHooks": None}})
            await site.resources.delete("Machine", f"m{number}")
        for number in range(2):
            await site.patch("Machine", f"m{number}", {"spec": {"lifecycleHooks": None}})
        await site.wait(120)
        found = [await site.get("Machine", f"m{number}") for number in range(2)]
        assert sorted(condition(each, "Drained").get("reason", "") for each in found) == [
            "Draining",
            "OtherControlPlane",
        ]
        for name in hosts.values():  # a person cordons the other one: who has begun goes on
            await patch("Node", name, {"spec": {"unschedulable": True}})
        pods.stuck.clear()
        for number in range(2):
            await site.until_gone("Machine", f"m{number}")
