"""A cluster that installs itself, in a lab that has nothing but servers and BMCs; and what people do with it then.

One install for all of it: a control plane and a worker, a bootstrap that hands over and goes. Larger ones are long tests.
"""

from __future__ import annotations

import json
import shutil

import pytest

from rackless.cluster.bootstrap.phases import is_ready
from tests.real import vip_watch
from tests.real.conftest import PretendHost
from tests.real.installs import (
    BOOTSTRAP,
    Asking,
    asking,
    await_,
    bmc_callers,
    install,
    kubeconfig,
    leader,
    states,
    watched_vip,
)

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

CONTROL_PLANE = "192.168.111.20"


def test_a_cluster_installs_itself_and_looks_after_its_hosts(host: PretendHost) -> None:
    with watched_vip(host) as looks:
        install(host, 1)
        lines = looks()
    assert vip_watch.find_wrong(lines) == [] and len(vip_watch.holders(lines)) == 2, "the bootstrap, then ctrl-0"
    ask = asking(host)
    _everything_is_the_clusters(host, ask)
    _bmcs_heard_the_bootstrap_then_the_cluster(host)
    _nothing_is_left_of_the_bootstrap(host)
    host.rackless("up", "--no-install", timeout=300)  # nothing is left to do
    _the_cluster_is_reached_from_outside(host)
    _a_worker_is_taken_away_and_its_host_is_had_again(host, ask)
    host.rackless("destroy", "--yes")
    assert host.inhabitants("ipi") == []
    assert [str(path) for place in ("state", "run") for path in (host.folder / place).glob("*")] == []


def _everything_is_the_clusters(host: PretendHost, ask: Asking) -> None:
    hosts = ask("bmh")
    assert states(hosts) == {"ctrl-0": "provisioned", "worker-0": "provisioned"}
    assert all(each["spec"]["consumerRef"]["kind"] == "Machine" for each in hosts)
    nodes = {each["metadata"]["name"]: each for each in ask("nodes")}
    assert sorted(nodes) == ["ctrl-0", "worker-0"] and all(is_ready(each) for each in nodes.values())
    assert "node-role.kubernetes.io/worker" in nodes["worker-0"]["metadata"]["labels"]
    assert sorted(each["status"]["nodeRef"]["name"] for each in ask("machines")) == ["ctrl-0", "worker-0"]
    (machine_set,) = ask("machinesets")
    assert machine_set["status"]["availableReplicas"] == 1
    assert leader(ask) == "ctrl-0"
    assert "bootstrap" in [each["metadata"]["name"] for each in ask("configmaps")]
    assert {each["name"]: each["host"] for each in host.status()["servers"]} == states(hosts)


def _bmcs_heard_the_bootstrap_then_the_cluster(host: PretendHost) -> None:
    callers = bmc_callers(host)
    assert {client for client, _ in callers} == {BOOTSTRAP, CONTROL_PLANE}
    assert (BOOTSTRAP, "worker-0") not in callers  # the bootstrap installs the control plane and nothing else


def _nothing_is_left_of_the_bootstrap(host: PretendHost) -> None:
    servers = host.rackless("exec", "--", "virsh", "list", "--all", "--name").stdout.split()
    assert sorted(servers) == ["ctrl-0", "worker-0"]
    assert sorted(path.name for path in (host.folder / "state/ipi/disks").glob("*bootstrap*")) == []


def _the_cluster_is_reached_from_outside(host: PretendHost) -> None:
    """By a port of this computer, as its administrator."""
    (forward,) = json.loads(host.rackless("expose", "cluster", "--json").stdout)["forwards"]
    server = f"https://127.0.0.1:{forward['port']}"
    ask = ("kubectl", "--kubeconfig", str(kubeconfig(host)), "--server", server, "get", "nodes", "-o", "name")
    nodes = host.run(*ask).stdout.split()
    assert sorted(nodes) == ["node/ctrl-0", "node/worker-0"]
    host.rackless("unexpose", "cluster")


def _a_worker_is_taken_away_and_its_host_is_had_again(host: PretendHost, ask: Asking) -> None:
    (machine_set,) = ask("machinesets")
    name, namespace = machine_set["metadata"]["name"], machine_set["metadata"]["namespace"]
    kubectl = ("kubectl", "--kubeconfig", str(kubeconfig(host)), "-n", namespace)
    host.run(*kubectl, "scale", "machineset.machine.openshift.io", name, "--replicas=0")
    await_(lambda: states(ask("bmh")), lambda found: found["worker-0"] == "available", within=1200)
    assert [each["metadata"]["name"] for each in ask("nodes")] == ["ctrl-0"]
    assert states(ask("bmh"))["ctrl-0"] == "provisioned"
