"""Which servers are made on demand, and which go: decided from what is seen."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from rackless.controllers.pivot import journal
from rackless.controllers.pivot.journal import MoveJournal, MovePhase
from rackless.controllers.runtime.cache import Cache
from rackless.drivers.fake.resources import MemoryResources
from rackless.labd.growth import IDLE_SECONDS, LEAVING, WHOLE, Decision, GrowthController, decide
from rackless.ports.resources import Conflict, Record
from rackless.provisioning.baremetalhost import PAUSED

POSSIBLE = ["worker-1", "worker-2", "worker-3"]
IMAGE = {"url": "http://files/node", "checksum": "abc"}


def machine(name: str, host: str = "", **spec: Any) -> Record:
    annotations = {"metal3.io/BareMetalHost": f"ns/{host}"} if host else {}
    value = {"image": IMAGE, **spec}
    return {
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "Machine",
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": annotations},
        "spec": {"providerSpec": {"value": value}},
    }


def host(name: str, state: str = "available", **spec: Any) -> Record:
    return {
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"online": False, **spec},
        "status": {"provisioning": {"state": state}},
    }


def by_name(*hosts: Record) -> dict[str, Record]:
    return {each["metadata"]["name"]: each for each in hosts}


def taken(by: str, kind: str = "Machine") -> dict[str, Any]:
    return {"consumerRef": {"kind": kind, "name": by, "namespace": "ns"}}


def test_as_many_are_made_as_machines_find_no_host_and_no_more_than_there_may_be() -> None:
    machines = [machine(name) for name in ("a", "b")]
    assert decide(machines, {}, POSSIBLE, ()).grow == ("worker-1", "worker-2")
    assert decide([machine(str(n)) for n in range(9)], {}, POSSIBLE, ("worker-2",)).grow == (
        "worker-2",
        "worker-1",
        "worker-3",
    ), "one that was begun is gone on with first"


@pytest.mark.parametrize("state", ["registering", "inspecting", "preparing", "available"])
def test_a_host_that_comes_is_waited_for(state: str) -> None:
    assert decide([machine("a")], by_name(host("spare-0", state)), POSSIBLE, ()) == Decision()


def test_a_host_that_cannot_be_had_is_not_waited_for() -> None:
    failed = host("spare-0", "inspecting")
    failed["status"]["errorMessage"] = "no answer"
    others = by_name(failed, host("spare-1", **taken("b")), host("spare-2", "provisioned", image=IMAGE))
    assert decide([machine("a")], others, POSSIBLE, ()).grow == ("worker-1",)


def test_nothing_is_made_for_a_machine_that_it_would_not_help() -> None:
    deleted = machine("a")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    failed = machine("b")
    failed["status"] = {"phase": "Failed"}
    labelled = machine("c", hostSelector={"matchLabels": {"rack": "7"}})
    unreadable = machine("d", hostSelector={"matchExpressions": [{"key": "rack", "operator": "near"}]})
    housed, claiming, imageless = machine("e", "spare-0"), machine("f"), machine("g", image=None)
    hosts = by_name(host("spare-0", "provisioned", **taken("e")), host("spare-1", "provisioning", **taken("f")))
    machines = [deleted, failed, labelled, unreadable, housed, claiming, imageless]
    assert decide(machines, hosts, POSSIBLE, ()) == Decision()


def test_who_nobody_has_is_idle_only_while_nobody_waits() -> None:
    hosts = by_name(host("worker-1"), host("worker-2", "provisioned", **taken("a")), host("spare-0"))
    assert decide([], hosts, POSSIBLE, ("worker-1", "worker-2")).idle == ("worker-1",), "spare-0 was not made on demand"
    assert decide([machine("b")], hosts, POSSIBLE, ("worker-1", "worker-2")).idle == ()


def test_one_that_was_being_taken_away_or_whose_host_is_gone_goes() -> None:
    hosts = by_name(host("worker-1", **taken("worker-1", LEAVING)))
    assert decide([], hosts, POSSIBLE, ("worker-1", "worker-3")).leaving == ("worker-1", "worker-3")


def test_one_that_is_paused_is_not_taken_away_even_when_it_failed() -> None:
    failed = host("worker-1")
    failed["status"]["errorMessage"] = "no answer"
    assert decide([], by_name(failed), POSSIBLE, ("worker-1",)).idle == ("worker-1",)
    failed["metadata"]["annotations"] = {PAUSED: "by a move"}
    assert decide([], by_name(failed), POSSIBLE, ("worker-1",)) == Decision()


@dataclass
class Recorded:
    """Servers that are only spoken of."""

    grown: list[str] = field(default_factory=list)

    def elastic(self) -> tuple[Sequence[str], Collection[str]]:
        return POSSIBLE, self.grown

    async def grow(self, name: str) -> None:
        self.grown.append(name)

    async def shrink(self, name: str) -> None:
        self.grown.remove(name)


async def test_servers_whose_hosts_were_moved_to_another_api_are_kept() -> None:
    resources, servers = MemoryResources(), Recorded(["worker-1"])
    controller = GrowthController(Cache(resources, "Machine"), Cache(resources, "BareMetalHost"), servers, lambda: 0.0)
    moved = await journal.store(resources, MoveJournal("1", MovePhase.LEAVING, "https://192.0.2.1:6443", ""))
    await controller.reconcile(WHOLE, None)
    await journal.reach(resources, moved, MovePhase.MOVED)
    await controller.reconcile(WHOLE, None)
    assert servers.grown == ["worker-1"]
    await journal.strike(resources)
    await controller.reconcile(WHOLE, None)
    assert servers.grown == [], "nobody has it, here or elsewhere"


async def test_a_server_goes_after_it_was_idle_for_a_while_and_not_when_a_machine_was_faster() -> None:
    resources, time, servers = MemoryResources(), [0.0], Recorded(["worker-1"])
    machines, hosts = Cache(resources, "Machine"), Cache(resources, "BareMetalHost")
    controller = GrowthController(machines, hosts, servers, lambda: time[0])
    given = host("worker-1")
    given["metadata"] = {"name": "worker-1"}
    seen = await resources.apply(given)
    hosts.put(await resources.patch_status("BareMetalHost", "worker-1", given["status"]))

    assert (await controller.reconcile(WHOLE, None)).after == IDLE_SECONDS
    time[0] = IDLE_SECONDS - 1
    assert (await controller.reconcile(WHOLE, None)).after == 1
    assert servers.grown == ["worker-1"]

    time[0] = IDLE_SECONDS
    mine = {"spec": taken("a")}
    await resources.patch("BareMetalHost", "worker-1", mine)  # which the cache has not heard of yet
    with pytest.raises(Conflict):
        await controller.reconcile(WHOLE, None)
    assert servers.grown == ["worker-1"], "a Machine was faster"

    hosts.put(await resources.patch("BareMetalHost", "worker-1", {"spec": {"consumerRef": None}}))
    await controller.reconcile(WHOLE, None)
    assert servers.grown == []
    left = await resources.get("BareMetalHost", "worker-1")
    assert left is not None and left["spec"]["consumerRef"]["kind"] == LEAVING, "no Machine gets it from now on"
    assert seen["metadata"]["uid"] == left["metadata"]["uid"]
