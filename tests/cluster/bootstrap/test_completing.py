"""An install after its bootstrap machine: what is still missing, as the cluster's own API tells it."""

from __future__ import annotations

from typing import Any

import pytest

from rackless.cluster.bootstrap.completing import ClusterFollowing, describe_lacking_workers
from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.resources import MemoryResources
from rackless.events import Bus
from rackless.provisioning.baremetalhost import PAUSED

NAMESPACE = "openshift-machine-api"


def machine(name: str, node: str = "", owner: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "ownerReferences": [{"uid": owner}] if owner else []}
    return {"metadata": metadata, "status": {"nodeRef": {"name": node}} if node else {}}


def host(name: str, consumer: str, state: str, error: str = "") -> dict[str, Any]:
    status = {"provisioning": {"state": state}, "errorMessage": error}
    return {"metadata": {"name": name}, "spec": {"consumerRef": {"name": consumer}, "online": True}, "status": status}


def node(name: str, ready: str = "True") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


SET = {"metadata": {"name": "workers", "uid": "s"}, "spec": {"replicas": 1}}
MASTER = machine("lab-master-0", "ctrl-0")


@pytest.mark.parametrize(
    ("machines", "hosts", "nodes", "lacking"),
    [
        ([MASTER], [], [node("ctrl-0")], "workers has 0 of 1 Machines"),
        ([MASTER, machine("w", owner="other")], [], [node("ctrl-0")], "workers has 0 of 1 Machines"),
        ([MASTER, machine("w", owner="s")], [], [node("ctrl-0")], "w has no host"),
        ([MASTER, machine("w", owner="s")], [host("ctrl-0", "c", "provisioned"), host("worker-0", "", "preparing", "no RAID"),
         host("worker-1", "", "available")], [node("ctrl-0")], "w has no host: worker-0 is preparing: no RAID"),
        ([MASTER, machine("w", owner="s")], [host("worker-0", "w", "inspecting")], [node("ctrl-0")], "worker-0 is inspecting"),
        ([MASTER, machine("w", owner="s")], [host("worker-0", "w", "provisioned")], [node("ctrl-0")],
         "worker-0 is provisioned, and its node has not joined"),
        (
            [MASTER, machine("w", owner="s")],
            [host("worker-0", "w", "provisioning", "no disk")],
            [node("ctrl-0")],
            "worker-0 is provisioning: no disk",
        ),
        ([MASTER, machine("w", "worker-0", "s")], [], [node("ctrl-0"), node("worker-0", "Unknown")], "node worker-0 is not ready"),
        ([MASTER, machine("w", "worker-0", "s")], [], [node("ctrl-0", "False"), node("worker-0")], "node ctrl-0 is not ready"),
        ([MASTER, machine("w", "worker-0", "s")], [], [node("ctrl-0"), node("worker-0")], ""),
    ],
)  # fmt: skip
def test_the_first_thing_that_is_missing_is_named(
    machines: list[dict[str, Any]], hosts: list[dict[str, Any]], nodes: list[dict[str, Any]], lacking: str
) -> None:
    assert describe_lacking_workers([SET], machines, hosts, nodes) == lacking


async def test_it_has_bootstrapped_once_the_cluster_says_so() -> None:
    api = MemoryResources()
    following = ClusterFollowing(api, VirtualClock(), Bus())
    assert not await following.has_bootstrapped()
    metadata = {"name": "bootstrap", "namespace": "kube-system"}
    await api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"status": "complete"}})
    assert await following.has_bootstrapped()


async def test_the_host_of_the_server_that_the_bootstrap_ran_on_is_let_go() -> None:
    api = MemoryResources()
    paused = {"name": "worker-0", "namespace": NAMESPACE, "annotations": {PAUSED: "", "other": "stays"}}
    await api.create({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": paused, "spec": {}})
    following = ClusterFollowing(api, VirtualClock(), Bus())
    for _ in range(2):  # again, as when the same command is run once more
        await following.release_host("worker-0")
        found = await api.get("BareMetalHost", "worker-0", namespace=NAMESPACE)
        assert found is not None and found["metadata"]["annotations"] == {"other": "stays"}
