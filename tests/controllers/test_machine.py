from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from rackless.cluster.reference.machines import worker_set
from rackless.controllers.machines.choosing import unfit
from rackless.controllers.machines.living import node_change
from rackless.controllers.machines.records import DELETE_FIRST, WITHOUT_DRAIN, read
from rackless.drivers.fake.provisioner import Fault
from rackless.drivers.fake.resources import MemoryResources
from rackless.ports.api import ApiUnreachable
from rackless.ports.provisioner import Image
from rackless.ports.resources import Record, RecordEvent
from rackless.provisioning.baremetalhost import METAL, NOT_TAKEN, PAUSED
from tests.controllers.machine_site import MachineSite, condition, machine, machine_set


async def test_a_machine_gets_a_host_a_node_and_runs() -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.resources.apply(machine("m", metadata={"labels": {"node-role.kubernetes.io/worker": ""}}))
    async with site.running():
        found = await site.until_phase("m", "Provisioned")
        host = await site.get("BareMetalHost", "worker-0")
        assert found["spec"]["providerID"] == f"baremetalhost:///metal3/worker-0/{host['metadata']['uid']}"
        assert host["spec"]["consumerRef"]["name"] == "m" and host["spec"]["online"]
        assert host["spec"]["userData"] == {"name": "worker-user-data", "namespace": "metal3"}
        assert {(each["type"], each["address"]) for each in found["status"]["addresses"]} == {
            ("InternalIP", "192.0.2.10"),
            ("Hostname", "worker-0"),
            ("InternalDNS", "worker-0"),
        }
        await site.join("worker-0")
        found = await site.until_phase("m", "Running")
        await site.wait(1)
    assert found["status"]["nodeRef"]["name"] == "worker-0"
    node = await site.get("Node", "worker-0")
    assert node["spec"]["providerID"] == found["spec"]["providerID"]
    assert node["metadata"]["annotations"]["machine.openshift.io/machine"] == "metal3/m"
    assert node["metadata"]["labels"] == {"node-role.kubernetes.io/worker": ""}
    annotations = (await site.get("Machine", "m"))["metadata"]["annotations"]
    assert annotations["metal3.io/BareMetalHost"] == "metal3/worker-0"
    assert annotations["machine.openshift.io/instance-state"] == "provisioned"
    assert site.provisioner.hosts["worker-0"].config.user_data == '{"ignition": {}}'  # type: ignore[union-attr]


async def test_describe_says_which_host_and_why_not_the_others() -> None:
    site = MachineSite()
    await site.hosts("worker-2", "worker-10", labels={"rack": "a"})
    await site.hosts("worker-0", labels={"rack": "b"})
    await site.hosts("worker-1", labels={"rack": "a"})
    await site.patch("BareMetalHost", "worker-1", {"spec": {"consumerRef": {"kind": "Machine", "name": "other"}}})
    async with site.running():
        await site.wait(100)
        selector = {"matchLabels": {"rack": "a"}}
        await site.resources.apply(machine("m", provider={"hostSelector": selector}))
        found = await site.until_phase("m", "Provisioned")
        told = await site.events("Machine", "m")
        of_host = await site.reasons("BareMetalHost", "worker-2")
    why = condition(found, "HostClaimed")["message"]
    assert why == (
        "worker-2: the first by name of 2 that can be had; not worker-0: label rack is not a; worker-1: Machine other "
        "has it; worker-10: free, but later by name"
    )
    assert ("HostClaimed", why) in told
    assert {"Provisioning", "Provisioned", "HostClaimed"} <= {reason for reason, _ in told}
    assert "Claimed" in of_host


async def test_metal_is_claimed_by_machines_that_bring_their_own_user_data_and_by_none_before_it_was_taken() -> None:
    """Metal is a host of `hosts` in lab.yaml; the lab's own set is for servers that the lab makes first boots for."""
    site = MachineSite()
    await site.hosts("rack1-u7", labels={METAL: ""})
    await site.patch("BareMetalHost", "rack1-u7", {"metadata": {"annotations": {PAUSED: NOT_TAKEN}}})
    own = worker_set(1, Image("http://192.0.2.1/node.qcow2", "ab" * 32, "sha256", "qcow2"))
    async with site.running():
        await site.resources.apply(machine("theirs"))
        await site.wait(100)
        assert "rack1-u7: it is paused" in condition(await site.get("Machine", "theirs"), "HostClaimed")["message"]
        await site.patch("BareMetalHost", "rack1-u7", {"metadata": {"annotations": {PAUSED: None}}})
        await site.until_phase("theirs", "Provisioned")
        host = await site.get("BareMetalHost", "rack1-u7")
        assert host["spec"]["consumerRef"]["name"] == "theirs"
        assert host["status"]["provisioning"]["state"] == "provisioned"
        await site.hosts("rack1-u8", labels={METAL: ""})
        await site.resources.apply(own)
        await site.wait(300)
        assert "consumerRef" not in (await site.get("BareMetalHost", "rack1-u8"))["spec"], "the lab's own set leaves it"
        await site.resources.delete("Machine", "theirs")
        await site.until_gone("Machine", "theirs")
        assert "consumerRef" not in (await site.get("BareMetalHost", "rack1-u7"))["spec"], "and it is given back"


async def test_a_machine_without_a_host_says_why_and_gets_the_first_that_becomes_free() -> None:
    site = MachineSite()
    await site.resources.apply(machine("m"))
    async with site.running():
        await site.wait(1)
        found = await site.get("Machine", "m")
        assert (found["status"]["errorReason"], found["status"]["phase"]) == ("InsufficientResources", "Provisioning")
        assert condition(found, "HostClaimed")["message"] == "none of 0 hosts can be had"
        await site.hosts("worker-0")
        found = await site.until_phase("m", "Provisioned")
    assert "errorReason" not in found["status"] and "errorMessage" not in found["status"]
    assert site.clock.now() < 100


async def test_two_machines_never_get_one_host() -> None:
    site = MachineSite()
    await site.hosts(*(f"worker-{number}" for number in range(5)))
    async with site.running():
        await site.wait(100)
        for number in range(7):
            await site.resources.apply(machine(f"m-{number}"))
        await site.wait(200)
    consumers = [await site.consumer(f"worker-{number}") for number in range(5)]
    assert len(set(consumers)) == 5 and "" not in consumers
    waiting = [
        record["metadata"]["name"]
        for record in await site.resources.list("Machine")
        if record["status"].get("errorReason") == "InsufficientResources"
    ]
    assert len(waiting) == 2


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ({"image": None}, "providerSpec needs an image"),
        ({"image": {"url": "http://192.0.2.1/x"}}, "has no checksum"),
        ({"hostSelector": {"matchExpressions": [{"key": "a", "operator": "near"}]}}, "operator 'near' is unknown"),
    ],
)
async def test_a_spec_of_which_nothing_can_be_made_is_told_and_can_be_mended(provider: Any, said: str) -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.resources.apply(machine("m", provider=provider))
    async with site.running():
        found = await site.until("Machine", "m", lambda record: bool((record.get("status") or {}).get("errorMessage")))
        assert said in found["status"]["errorMessage"]
        assert found["status"]["errorReason"] == "InvalidConfiguration"
        await site.wait(100)
        assert await site.consumer("worker-0") == ""
        await site.patch("Machine", "m", {"spec": machine("m")["spec"]})
        await site.patch("Machine", "m", {"spec": {"providerSpec": {"value": {"hostSelector": None}}}})
        await site.until_phase("m", "Provisioned")
    assert "FailedCreate" in await site.reasons("Machine", "m")


async def test_a_deleted_machine_drains_gives_its_host_back_and_forgets_its_node() -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.resources.apply(machine("m"))
    async with site.running():
        await site.until_phase("m", "Provisioned")
        await site.join("worker-0")
        await site.until_phase("m", "Running")
        await site.resources.delete("Machine", "m")
        await site.until("Node", "worker-0", lambda node: bool(node["spec"].get("unschedulable")), nodes=True)
        deleting = await site.until_phase("m", "Deleting")
        assert condition(deleting, "Drained")["status"] == "True"
        await site.until_gone("Machine", "m")
        assert await site.state("worker-0") == "available"
        reasons = await site.reasons("Machine", "m")
        await site.wait(10)
    host = await site.get("BareMetalHost", "worker-0")
    assert not {"image", "userData", "consumerRef"} & set(host["spec"]) and host["spec"]["online"] is False
    assert await site.nodes.get("Node", "worker-0") is None
    assert {"Deleting", "DrainSucceeded", "Deprovisioning", "Deleted"} <= reasons


async def test_a_machine_deleted_before_it_had_a_host_is_gone_at_once() -> None:
    site = MachineSite()
    await site.resources.apply(machine("m"))
    async with site.running():
        await site.wait(1)
        await site.resources.delete("Machine", "m")
        await site.until_gone("Machine", "m")
    assert site.clock.now() < 2


@pytest.mark.parametrize(("hook", "type_"), [("preDrain", "Drainable"), ("preTerminate", "Terminable")])
async def test_hooks_hold_a_machine_until_they_are_taken_away(hook: str, type_: str) -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.resources.apply(machine("m", lifecycleHooks={hook: [{"name": "backup", "owner": "me"}]}))
    async with site.running():
        await site.until_phase("m", "Provisioned")
        await site.resources.delete("Machine", "m")
        await site.wait(300)
        held = await site.get("Machine", "m")
        assert condition(held, type_)["status"] == "False" and "backup of me" in condition(held, type_)["message"]
        assert await site.state("worker-0") == "provisioned"
        await site.patch("Machine", "m", {"spec": {"lifecycleHooks": {hook: []}}})
        await site.until_gone("Machine", "m")
    assert "HookPresent" in await site.reasons("Machine", "m")


async def test_a_control_plane_is_protected_until_its_hook_is_taken_away() -> None:
    site = MachineSite()
    await site.hosts("ctrl-0")
    await site.resources.apply(machine("m", labels={"machine.openshift.io/cluster-api-machine-role": "master"}))
    async with site.running():
        await site.until_phase("m", "Provisioned")
        await site.resources.delete("Machine", "m")
        await site.wait(600)
        assert await site.state("ctrl-0") == "provisioned"
        held = await site.get("Machine", "m")
        assert "EtcdQuorumOperator" in condition(held, "Drainable")["message"]
        await site.patch("Machine", "m", {"spec": {"lifecycleHooks": None}})
        await site.until_gone("Machine", "m")


async def test_nodes_that_cannot_be_asked_hold_up_a_drain_and_nothing_else() -> None:
    site = MachineSite()
    away = Away()
    await site.hosts("worker-0")
    await site.resources.apply(machine("m"))
    async with site.running(nodes=away):
        await site.until_phase("m", "Provisioned")
        await site.resources.delete("Machine", "m")
        await site.wait(300)
        held = await site.get("Machine", "m")
        assert condition(held, "Drained")["reason"] == "NodesUnknown"
        assert await site.state("worker-0") == "provisioned"
        await site.annotate("Machine", "m", **{WITHOUT_DRAIN: ""})
        await site.until_gone("Machine", "m")


class Away(MemoryResources):
    """An API that never answers."""

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[RecordEvent, None]:
        raise ApiUnreachable("the cluster's API does not answer")
        yield


async def test_a_deleted_host_marks_its_machine_which_has_then_failed() -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.resources.apply(machine("m"))
    async with site.running():
        await site.until_phase("m", "Provisioned")
        await site.resources.delete("BareMetalHost", "worker-0")
        marked = await site.until("Machine", "m", lambda record: DELETE_FIRST[0] in record["metadata"]["annotations"])
        assert marked["status"]["phase"] == "Provisioned"
        failed = await site.until_phase("m", "Failed")
        assert failed["status"]["errorMessage"] == "its host metal3/worker-0 is gone"
        await site.hosts("worker-0")
        await site.wait(300)
        assert (await site.get("Machine", "m"))["status"]["phase"] == "Failed"
        assert await site.consumer("worker-0") == ""
        await site.resources.delete("Machine", "m")
        await site.until_gone("Machine", "m")
    assert {"HostDeleted", "Failed", "FailedUpdate"} <= await site.reasons("Machine", "m")


async def test_a_host_that_fails_is_told_at_its_machine() -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    site.provisioner.faults.append(Fault("provision", "worker-0", "the disk is on fire"))
    await site.resources.apply(machine("m"))
    async with site.running():
        found = await site.until(
            "Machine", "m", lambda record: condition(record, "InstanceExists").get("reason") == "HostFailed"
        )
        assert "the disk is on fire" in condition(found, "InstanceExists")["message"]
        await site.until_phase("m", "Provisioned")
    assert "HostFailed" in await site.reasons("Machine", "m")


@pytest.mark.parametrize(
    ("annotation", "why"), [(PAUSED, "it is paused"), ("baremetalhost.metal3.io/detached", "it is detached")]
)
async def test_a_machine_says_when_it_waits_for_a_host_that_nobody_looks_after(annotation: str, why: str) -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.resources.apply(machine("m"))
    async with site.running():
        await site.until_phase("m", "Provisioned")
        await site.annotate("BareMetalHost", "worker-0", **{annotation: ""})
        await site.wait(60)
        await site.resources.delete("Machine", "m")
        await site.wait(60)
        held = condition(await site.get("Machine", "m"), "InstanceExists")
        assert held["reason"] == "HostLeftAlone" and held["message"].endswith(why)
        assert "HostLeftAlone" in await site.reasons("Machine", "m")
        await site.annotate("BareMetalHost", "worker-0", **{annotation: None})
        await site.until_gone("Machine", "m")


async def test_a_machine_that_is_installed_says_so_too() -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.resources.apply(machine("m"))
    async with site.running():
        await site.until("BareMetalHost", "worker-0", lambda host: bool(host["spec"].get("consumerRef")))
        await site.annotate("BareMetalHost", "worker-0", **{PAUSED: ""})
        await site.wait(60)
        held = condition(await site.get("Machine", "m"), "InstanceExists")
        assert (held["status"], held["reason"]) == ("False", "HostLeftAlone") and "it is paused" in held["message"]
        await site.annotate("BareMetalHost", "worker-0", **{PAUSED: None})
        await site.until_phase("m", "Provisioned")


async def test_a_host_on_which_installing_failed_comes_last() -> None:
    site = MachineSite()
    await site.hosts("worker-0", "worker-1")
    async with site.running():
        await site.until(
            "BareMetalHost",
            "worker-0",
            lambda r: (r.get("status") or {}).get("provisioning", {}).get("state") == "available",
        )
        record = await site.get("BareMetalHost", "worker-0")
        await site.resources.patch_status("BareMetalHost", "worker-0", {**record["status"], "provisioningFailCount": 2})
        await site.wait(100)
        await site.resources.apply(machine("m"))
        found = await site.until_phase("m", "Provisioned")
    assert "installing failed on it 2 times" in condition(found, "HostClaimed")["message"]
    assert await site.consumer("worker-1") == "m"


async def test_a_machine_that_names_a_running_host_adopts_it_as_it_is() -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    image = {"url": "http://192.0.2.1/mine.qcow2", "checksum": "cd" * 32}
    await site.patch("BareMetalHost", "worker-0", {"spec": {"image": image}})
    async with site.running():
        await site.wait(100)
        adopted = machine("m")
        adopted["metadata"]["annotations"] = {"metal3.io/BareMetalHost": "metal3/worker-0"}
        await site.resources.apply(adopted)
        await site.until_phase("m", "Provisioned")
        await site.wait(100)
    host = await site.get("BareMetalHost", "worker-0")
    assert host["spec"]["image"] == image and host["spec"]["consumerRef"]["name"] == "m"
    assert [work for _, work in site.provisioner.started].count("provision") == 1


async def test_a_host_with_user_data_of_its_own_keeps_to_it() -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.annotate("BareMetalHost", "worker-0", **{"rackless.test/user-data": "bmc"})
    await site.resources.apply(machine("m"))
    async with site.running():
        await site.until("BareMetalHost", "worker-0", lambda record: "userData" in record["spec"])
    assert (await site.get("BareMetalHost", "worker-0"))["spec"]["userData"]["name"] == "bmc"


async def test_a_node_that_goes_takes_the_machine_back_to_provisioned() -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.resources.apply(machine("m", taints=[{"key": "k", "effect": "NoSchedule"}]))
    async with site.running():
        await site.until_phase("m", "Provisioned")
        await site.join("worker-0", taints=[{"key": "mine", "effect": "NoSchedule"}])
        await site.until_phase("m", "Running")
        await site.wait(1)
        assert [taint["key"] for taint in (await site.get("Node", "worker-0"))["spec"]["taints"]] == ["mine", "k"]
        await site.nodes.delete("Node", "worker-0")
        found = await site.until_phase("m", "Provisioned")
    assert "nodeRef" not in found["status"]


async def test_a_node_of_another_machine_is_not_taken_over_by_its_address() -> None:
    site = MachineSite()
    await site.hosts("worker-0", "worker-1")  # both were seen at one address
    await site.resources.apply(machine("a"))
    async with site.running():
        await site.until_phase("a", "Provisioned")
        await site.join("worker-0")
        await site.until_phase("a", "Running")
        await site.resources.apply(machine("b"))
        await site.until_phase("b", "Provisioned")
        await site.wait(100)
        assert (await site.get("Machine", "b"))["status"]["phase"] == "Provisioned"


@pytest.mark.parametrize("seconds", [0.0, 5.0, 40.0, 60.0, 90.0])
async def test_controllers_that_start_anew_at_any_time_go_on(seconds: float) -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.resources.apply(machine_set("set", 1))
    async with site.running():
        await site.wait(seconds)
    async with site.running():
        await site.wait(300)
        [name] = await site.names("Machine")
        assert (await site.get("Machine", name))["status"]["phase"] == "Provisioned"
        await site.patch("MachineSet", "set", {"spec": {"replicas": 0}})
        await site.wait(seconds)
    async with site.running():
        await site.wait(300)
    assert await site.names("Machine") == [] and await site.consumer("worker-0") == ""
    assert await site.state("worker-0") == "available"


async def test_a_machine_with_a_deploy_step_of_its_own_is_installed_by_that_and_taken_off_again() -> None:
    site = MachineSite()
    await site.hosts("worker-0")
    await site.resources.apply(
        machine("m", provider={"image": {"url": ""}, "customDeploy": {"method": "install_coreos"}})
    )
    async with site.running():
        await site.until_phase("m", "Provisioned")
        host = await site.get("BareMetalHost", "worker-0")
        assert host["spec"]["customDeploy"] == {"method": "install_coreos"} and "image" not in host["spec"]
        assert host["status"]["provisioning"]["customDeploy"] == {"method": "install_coreos"}
        installed = site.provisioner.hosts["worker-0"].image
        assert installed and (installed.method, installed.url) == ("install_coreos", "")
        await site.resources.delete("Machine", "m")
        await site.until_gone("Machine", "m")
    assert "customDeploy" not in (await site.get("BareMetalHost", "worker-0"))["spec"]
    assert await site.state("worker-0") == "available"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "it is being deleted"),
        ({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}}, "it is paused"),
        ({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": ""}}}, "it is detached"),
        ({"metadata": {"annotations": {"capm3.metal3.io/unhealthy": ""}}}, "it is marked unhealthy"),
        ({"spec": {"externallyProvisioned": True}}, "it is externally provisioned"),
        ({"spec": {"consumerRef": {"kind": "Other", "name": "x"}}}, "Other x has it"),
        ({"spec": {"image": {"url": "http://192.0.2.1"}}}, "somebody wants a system on it"),
        ({"status": {"errorMessage": "no power\nat all", "errorType": "power"}}, "power: no power"),
        ({"status": {"provisioning": {"state": "inspecting"}}}, "it is inspecting"),
        ({"status": {"provisioning": {}}}, "it is new"),
        ({}, ""),
    ],
)
def test_why_a_host_cannot_be_had(change: dict[str, Any], said: str) -> None:
    host: dict[str, Any] = {
        "metadata": {"name": "h", "namespace": "n"},
        "spec": {},
        "status": {"provisioning": {"state": "available"}},
    }
    for part, values in change.items():
        host[part] = {**host[part], **values}
    assert unfit(host) == said


@pytest.mark.parametrize(("role", "label"), [("master", "control-plane"), ("worker", "worker"), ("infra", None)])
def test_a_node_is_labelled_with_its_machines_role_as_it_may_not_do_itself(role: str, label: str | None) -> None:
    record = machine("m", labels={"machine.openshift.io/cluster-api-machine-role": role})
    record["metadata"] |= {"uid": "u", "namespace": "n"}
    node: Record = {"metadata": {"name": "node"}}
    wanted = {f"node-role.kubernetes.io/{label}": ""} if label else {}
    assert node_change(read(record), node, "").get("metadata", {}).get("labels", {}) == wanted
    node["metadata"]["labels"] = wanted
    assert "labels" not in node_change(read(record), node, "").get("metadata", {})
