"""A cluster that installs itself, in a lab that has nothing but servers and BMCs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rackless.cluster.bootstrap.phases import is_ready
from tests.real.conftest import PretendHost

pytestmark = [pytest.mark.real, pytest.mark.long]

LAB = """\
name: ipi
servers:
  ctrl: {role: control-plane, count: 1, memory: 2GiB}
  worker: {role: worker, count: 1}
cluster: {method: ipi}
"""
BOOTSTRAP, MASTER = "192.168.111.9", "192.168.111.20"


def test_a_cluster_installs_itself_and_looks_after_its_hosts(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text(LAB)
    host.rackless("up", "--no-install", timeout=5400)

    host.rackless("kubeconfig", "--cluster", "-o", "cluster.kubeconfig")

    def ask(kind: str) -> list[dict[str, Any]]:
        found = host.run("kubectl", "--kubeconfig", "cluster.kubeconfig", "get", "-A", "-o", "json", kind)
        items: list[dict[str, Any]] = json.loads(found.stdout)["items"]
        return items

    hosts = ask("bmh")
    states = {each["metadata"]["name"]: each["status"]["provisioning"]["state"] for each in hosts}
    assert states == {"ctrl-0": "provisioned", "worker-0": "provisioned"}
    assert all(each["spec"]["consumerRef"]["kind"] == "Machine" for each in hosts)
    nodes = {each["metadata"]["name"]: each for each in ask("nodes")}
    assert sorted(nodes) == ["ctrl-0", "worker-0"] and all(is_ready(each) for each in nodes.values())
    assert "node-role.kubernetes.io/worker" in nodes["worker-0"]["metadata"]["labels"]
    assert sorted(each["status"]["nodeRef"]["name"] for each in ask("machines")) == ["ctrl-0", "worker-0"]
    (machine_set,) = ask("machinesets")
    assert machine_set["status"]["availableReplicas"] == 1
    (lease,) = (each for each in ask("leases") if each["metadata"]["name"] == "metal3")
    assert lease["spec"]["holderIdentity"] == "ctrl-0"
    assert "bootstrap" in [each["metadata"]["name"] for each in ask("configmaps")]

    audit = [json.loads(line) for line in (host.folder / "state/ipi/logs/bmc-audit.jsonl").read_text().splitlines()]
    callers = {(each["client"], each["server"]) for each in audit}
    assert {client for client, _ in callers} == {BOOTSTRAP, MASTER}
    assert (BOOTSTRAP, "worker-0") not in callers  # the bootstrap installs the control plane and nothing else

    servers = host.rackless("exec", "--", "virsh", "list", "--all", "--name").stdout.split()
    assert sorted(servers) == ["ctrl-0", "worker-0"]
    assert sorted(path.name for path in (host.folder / "state/ipi/disks").glob("*bootstrap*")) == []
    host.rackless("up", "--no-install", timeout=300)  # nothing is left to do
    host.rackless("destroy", "--yes")
    assert host.inhabitants("ipi") == []
    assert [str(path) for place in ("state", "run") for path in (host.folder / place).glob("*")] == []
