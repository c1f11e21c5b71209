"""Workers come and go by a number: on a spare server, on a made one, without DHCP; firmware is set, a silent one is mended."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.real.conftest import PretendHost, pretend_host
from tests.real.test_cluster import ask

pytestmark = [
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

LAB = """\
servers:
  ctrl: {role: control-plane, count: 1}
  spare: {role: spare, count: 1}
  worker: {count: 0, elastic: {max: 1}}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PretendHost]:
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    with pretend_host(tmp_path_factory.mktemp("scaling")) as host:
        (host.folder / "lab.yaml").write_text(LAB)
        host.rackless("up", timeout=1800)
        host.rackless("kubeconfig", "--cluster", "-o", "kubeconfig")
        yield host


def objects(host: PretendHost, kind: str) -> dict[str, Any]:
    found = json.loads(host.rackless("exec", "--", "kubectl", "get", kind, "-o", "json").stdout)
    return {each["metadata"]["name"]: each for each in found["items"]}


def ready(host: PretendHost) -> set[str]:
    return {
        node["metadata"]["name"]
        for node in ask(host, "/api/v1/nodes")["items"]
        if any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])
    }


def phases(host: PretendHost) -> set[str]:
    return {(machine.get("status") or {}).get("phase", "") for machine in objects(host, "machine").values()}


def servers(host: PretendHost) -> list[str]:
    return [server["name"] for server in host.status()["servers"]]


def until(true: Callable[[], bool], seen: Callable[[], object], within: float = 1200) -> None:
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, seen()
        time.sleep(2)


def test_a_worker_joins_on_a_spare_server_and_one_on_a_server_that_is_made_and_both_go(lab: PretendHost) -> None:
    assert servers(lab) == ["ctrl-0", "spare-0"] and ready(lab) == {"ctrl-0"}
    lab.rackless("scale", "workers", "2")
    until(lambda: ready(lab) == {"ctrl-0", "spare-0", "worker-0"}, lambda: objects(lab, "bmh"))
    assert servers(lab) == ["ctrl-0", "spare-0", "worker-0"]
    until(lambda: phases(lab) == {"Running"}, lambda: objects(lab, "machine"))
    # how long each agent took is told by itself; under emulation and load it is a figure to read, not to judge
    took = [event for event in ask(lab, "/api/v1/namespaces/default/events")["items"] if event["reason"] == "NodeReady"]
    print([event["message"] for event in took])  # noqa: T201
    assert {event["involvedObject"]["name"] for event in took} >= {"spare-0", "worker-0"}, took
    planned = json.loads(lab.rackless("plan", "--json").stdout)
    assert {action["verb"] for action in planned["actions"]} == {"keep"}

    lab.rackless("scale", "workers", "0")
    until(lambda: servers(lab) == ["ctrl-0", "spare-0"], lambda: objects(lab, "bmh"))
    assert {node["metadata"]["name"] for node in ask(lab, "/api/v1/nodes")["items"]} == {"ctrl-0"}
    assert "worker-0" not in lab.rackless("exec", "--", "virsh", "list", "--all").stdout
    assert not list((lab.folder / "state/lab/disks").glob("worker-0*"))


def test_settings_of_a_firmware_are_given_while_an_available_host_is_prepared(lab: PretendHost) -> None:
    """Ironic boots its agent on the server for it, and our BMC takes the settings at that start."""
    assert objects(lab, "hostfirmwaresettings")["spare-0"]["status"]["settings"]["ProcTurboMode"] == "Enabled"
    wish = json.dumps({"spec": {"settings": {"ProcTurboMode": "Disabled"}}})
    lab.rackless("exec", "--", "kubectl", "patch", "hostfirmwaresettings", "spare-0", "--type", "merge", "-p", wish)

    def given() -> bool:
        status = objects(lab, "bmh")["spare-0"]["status"]
        assert not status.get("errorMessage"), status
        found = objects(lab, "hostfirmwaresettings")["spare-0"]["status"]
        conditions = {each["type"]: each["status"] for each in found["conditions"]}
        done = found["settings"]["ProcTurboMode"] == "Disabled" and conditions["ChangeDetected"] == "False"
        return bool(done and status["provisioning"]["state"] == "available")

    until(given, lambda: (objects(lab, "hostfirmwaresettings"), objects(lab, "bmh")["spare-0"]))
    events = objects(lab, "events").values()
    told = {(each["involvedObject"]["kind"], each["reason"]) for each in events}
    wanted = {("HostFirmwareSettings", "ChangeDetected"), ("HostFirmwareSettings", "SettingsApplied")}
    assert told >= {*wanted, ("BareMetalHost", "Preparing")}, told


def test_a_host_that_nobody_answers_dhcp_is_inspected_and_installed_by_addresses_of_its_own(lab: PretendHost) -> None:
    network = lab.rackless("exec", "--", "virsh", "net-dumpxml", "cluster").stdout
    [entry] = [line.strip() for line in network.splitlines() if "<host mac=" in line and "name='spare-0'" in line]
    mac, address = (entry.partition(f"{name}='")[2].partition("'")[0] for name in ("mac", "ip"))
    known = f"<host mac='{mac}' name='spare-0' ip='{address}'/>"
    lab.rackless("exec", "--", "virsh", "net-update", "cluster", "delete", "ip-dhcp-host", known, "--live")
    data = {
        "links": [{"id": "nic0", "type": "phy", "ethernet_mac_address": mac}],
        "networks": [
            {
                "id": "net0",
                "type": "ipv4",
                "link": "nic0",
                "ip_address": address,
                "netmask": "255.255.255.0",
                "gateway": "192.168.111.1",
            }
        ],
        "services": [{"type": "dns", "address": "192.168.111.1"}],
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "net"}}
    (lab.folder / "net.yaml").write_text(yaml.safe_dump({**secret, "stringData": {"networkData": json.dumps(data)}}))
    lab.rackless("exec", "--", "kubectl", "apply", "-f", str(lab.folder / "net.yaml"))
    wish = {
        "spec": {"preprovisioningNetworkDataName": "net"},
        "metadata": {"annotations": {"inspect.metal3.io": ""}},
    }
    before = objects(lab, "bmh")["spare-0"]["status"]["operationHistory"]["inspect"]["end"]
    lab.rackless("exec", "--", "kubectl", "patch", "bmh", "spare-0", "--type", "merge", "-p", json.dumps(wish))

    def inspected() -> bool:
        status = objects(lab, "bmh")["spare-0"]["status"]
        assert not status.get("errorMessage"), status
        anew = status["operationHistory"]["inspect"]["end"] != before
        return bool(status["provisioning"]["state"] == "available" and anew)

    until(inspected, lambda: objects(lab, "bmh")["spare-0"])
    lab.rackless("scale", "workers", "1")
    until(lambda: "spare-0" in ready(lab), lambda: objects(lab, "bmh"))
    kept = lab.rackless("ssh", "spare-0", "--", "cat /etc/systemd/network/10-static-0.network").stdout
    assert f"Address={address}/24" in kept


def test_an_agent_that_falls_silent_costs_its_server_a_power_cycle_and_its_node_comes_back(lab: PretendHost) -> None:
    """`kubectl` asks for it: a MachineHealthCheck whose remedy is the power button."""
    [machine] = [each for each in objects(lab, "machine").values() if _host_of(each) == "spare-0"]
    selector = {"machine.openshift.io/cluster-api-machineset": "workers"}
    assert selector.items() <= machine["metadata"]["labels"].items()
    check = {
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "MachineHealthCheck",
        "metadata": {
            "name": "workers",
            "annotations": {"machine.openshift.io/remediation-strategy": "external-baremetal"},
        },
        "spec": {
            "selector": {"matchLabels": selector},
            "maxUnhealthy": 1,
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "10s"}],
        },
    }
    (lab.folder / "check.yaml").write_text(yaml.safe_dump(check))
    lab.rackless("exec", "--", "kubectl", "apply", "-f", str(lab.folder / "check.yaml"))
    cluster = ("--kubeconfig", str(lab.folder / "kubeconfig"))  # for who is on the hypervisor
    lab.run("kubectl", *cluster, "label", "node", "spare-0", "site=berlin")
    before = ask(lab, "/api/v1/nodes/spare-0")
    lab.rackless("ssh", "spare-0", "--", "sudo systemctl stop rackless-node")

    def back() -> bool:
        found = {node["metadata"]["name"]: node for node in ask(lab, "/api/v1/nodes")["items"]}.get("spare-0")
        if found is None or "spare-0" not in ready(lab):
            return False
        booted = found["status"]["nodeInfo"]["bootID"] != before["status"]["nodeInfo"]["bootID"]
        return bool(booted and found["metadata"]["labels"].get("site") == "berlin")

    until(back, lambda: (objects(lab, "machine"), objects(lab, "bmh")["spare-0"]))
    assert ask(lab, "/api/v1/nodes/spare-0")["metadata"]["uid"] != before["metadata"]["uid"]
    until(lambda: phases(lab) == {"Running"}, lambda: objects(lab, "machine"))
    events = objects(lab, "events").values()
    told = {each["reason"] for each in events if each["involvedObject"]["name"] == machine["metadata"]["name"]}
    assert told >= {"Unhealthy", "RemediationStarted", "PoweredOff", "RemediationSucceeded"}, told


def _host_of(machine: dict[str, Any]) -> str:
    annotation = (machine["metadata"].get("annotations") or {}).get("metal3.io/BareMetalHost") or ""
    return str(annotation).rpartition("/")[2]
