"""A cluster that installs itself, in a lab that has nothing but servers and BMCs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from rackless.cluster.bootstrap.phases import is_ready
from tests.real import vip_watch
from tests.real.conftest import PretendHost

pytestmark = [pytest.mark.real, pytest.mark.long]

LAB = """\
name: ipi
servers:
  ctrl: {{role: control-plane, count: {masters}, memory: 2GiB}}
  worker: {{role: worker, count: 1}}
cluster: {{method: ipi}}
"""
ON_A_SERVER = """\
name: ipi
servers:
  ctrl: {role: control-plane, count: 1, memory: 2GiB}
  worker: {role: worker, count: 1, memory: 3GiB, vcpus: 2}
cluster: {method: ipi, bootstrap: {on: worker-0}}
"""
OVER_NETWORK = """\
name: ipi
servers:
  ctrl: {role: control-plane, count: 1, memory: 2GiB, bmc: ipmi}
  worker: {role: worker, count: 1, boot: network}
networks: {provisioning: {mode: unmanaged}}
cluster: {method: ipi}
"""
WITHOUT_DHCP = """\
name: ipi
servers:
  ctrl: {role: control-plane, count: 1, memory: 2GiB}
  worker: {role: worker, count: 1}
networks: {cluster: {dhcp: none}}
cluster: {method: ipi}
"""
WORKER = "192.168.111.21"
GATEWAY, VIP, BOOTSTRAP = "192.168.111.1", "192.168.111.5", "192.168.111.9"
UP_WITHIN = 5400
Found = TypeVar("Found")


def test_a_cluster_installs_itself_and_looks_after_its_hosts(host: PretendHost) -> None:
    install(host, 1)
    ask = asking(host)
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

    callers = bmc_callers(host)
    assert {client for client, _ in callers} == {BOOTSTRAP, "192.168.111.20"}
    assert (BOOTSTRAP, "worker-0") not in callers  # the bootstrap installs the control plane and nothing else

    servers = host.rackless("exec", "--", "virsh", "list", "--all", "--name").stdout.split()
    assert sorted(servers) == ["ctrl-0", "worker-0"]
    assert sorted(path.name for path in (host.folder / "state/ipi/disks").glob("*bootstrap*")) == []
    host.rackless("up", "--no-install", timeout=300)  # nothing is left to do
    host.rackless("destroy", "--yes")
    assert host.inhabitants("ipi") == []
    assert [str(path) for place in ("state", "run") for path in (host.folder / place).glob("*")] == []


def test_a_bootstrap_on_a_server_installs_the_control_plane_and_its_server_becomes_a_worker(host: PretendHost) -> None:
    """No VM is made, and nobody but the installer, and the cluster after it, speaks to that server's BMC."""
    (host.folder / "lab.yaml").write_text(ON_A_SERVER)
    host.rackless("up", "--no-install", timeout=UP_WITHIN)
    ask = asking(host)
    assert states(ask("bmh")) == {"ctrl-0": "provisioned", "worker-0": "provisioned"}
    nodes = {each["metadata"]["name"]: each for each in ask("nodes")}
    assert sorted(nodes) == ["ctrl-0", "worker-0"] and all(is_ready(each) for each in nodes.values())
    callers = bmc_callers(host)
    assert {client for client, server in callers if server == "ctrl-0"} == {WORKER, "192.168.111.20"}
    assert WORKER not in {client for client, server in callers if server == "worker-0"}
    servers = host.rackless("exec", "--", "virsh", "list", "--all", "--name").stdout.split()
    assert sorted(servers) == ["ctrl-0", "worker-0"]
    assert [path.name for path in (host.folder / "state/ipi/release/redfish").glob("*.iso")] == []  # it holds keys
    host.rackless("up", "--no-install", timeout=300)  # nothing is left to do
    host.rackless("destroy", "--yes")
    assert host.inhabitants("ipi") == []


def test_hosts_boot_with_dhcp_of_others_and_by_ipmi(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text(OVER_NETWORK)
    host.rackless("up", "--no-install", timeout=UP_WITHIN)
    hosts = asking(host)("bmh")
    assert states(hosts) == {"ctrl-0": "provisioned", "worker-0": "provisioned"}
    assert {each["spec"]["bmc"]["address"].partition(":")[0] for each in hosts} == {"ipmi", "redfish+https"}
    assert {client for client, _ in bmc_callers(host)} == {BOOTSTRAP, "192.168.111.20"}
    answering = [command for _, command in host.inhabitants("ipi") if "dnsmasq" in command]
    assert answering and all("/libvirt/" in command for command in answering), "the lab's own, one for each network"
    host.rackless("destroy", "--yes")
    assert host.inhabitants("ipi") == []


def test_every_machine_is_told_its_address_where_nobody_answers_dhcp(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text(WITHOUT_DHCP)
    host.rackless("up", "--no-install", timeout=UP_WITHIN)
    ask = asking(host)
    assert states(ask("bmh")) == {"ctrl-0": "provisioned", "worker-0": "provisioned"}
    addresses = {
        each["metadata"]["name"]: [one["address"] for one in each["status"]["addresses"] if one["type"] == "InternalIP"]
        for each in ask("nodes")
    }
    assert addresses == {"ctrl-0": ["192.168.111.20"], "worker-0": [WORKER]}
    assert {client for client, _ in bmc_callers(host)} == {BOOTSTRAP, "192.168.111.20"}
    host.rackless("destroy", "--yes")
    assert host.inhabitants("ipi") == []


def test_three_control_planes_take_over_and_one_that_is_lost_is_replaced(host: PretendHost) -> None:
    """Nobody shares the API's address through the hand-over; the hosts outlive whoever looks after them."""
    with watched_vip(host) as looks:
        install(host, 3)
    lines = looks()
    assert vip_watch.find_wrong(lines) == [] and len(vip_watch.holders(lines)) >= 2
    ask, names = asking(host), ["ctrl-0", "ctrl-1", "ctrl-2"]
    assert host.status()["etcd"]["detail"].startswith("3 of 3 members healthy")
    before = {each["metadata"]["name"]: each["status"]["provisioning"]["ID"] for each in ask("bmh")}
    lost = leader(ask)
    assert lost in names
    host.rackless("power", lost, "off")
    found = await_(lambda: leader(ask), lambda who: who not in (lost, ""), within=900)
    assert found in names

    def adopted(hosts: list[dict[str, Any]]) -> bool:
        """By another Ironic, which gives them other ids; what is installed on them is not touched."""
        return all(each["status"]["provisioning"]["ID"] != before[each["metadata"]["name"]] for each in hosts)

    hosts = await_(lambda: ask("bmh"), adopted, within=1800)
    assert set(states(hosts).values()) == {"provisioned"}
    powered = {each["name"]: each["power"] for each in host.status()["servers"] if each["name"] != lost}
    assert set(powered.values()) == {"on"}
    host.rackless("destroy", "--yes")
    assert host.inhabitants("ipi") == []


def install(host: PretendHost, masters: int) -> None:
    (host.folder / "lab.yaml").write_text(LAB.format(masters=masters))
    host.rackless("up", "--no-install", timeout=UP_WITHIN)


def asking(host: PretendHost) -> Callable[[str], list[dict[str, Any]]]:
    """kubectl on the cluster's own API."""
    host.rackless("kubeconfig", "--cluster", "-o", "cluster.kubeconfig")

    def ask(kind: str) -> list[dict[str, Any]]:
        argv = ("kubectl", "--kubeconfig", "cluster.kubeconfig", "get", "-A", "-o", "json", kind)
        # an API on a busy emulated machine may not answer in kubectl's time
        found = await_(lambda: host.run(*argv, check=False), lambda found: found.returncode == 0, within=300)
        items: list[dict[str, Any]] = json.loads(found.stdout)["items"]
        return items

    return ask


def states(hosts: list[dict[str, Any]]) -> dict[str, str]:
    return {each["metadata"]["name"]: each["status"]["provisioning"]["state"] for each in hosts}


def leader(ask: Callable[[str], list[dict[str, Any]]]) -> str:
    """Who looks after the hosts."""
    found = [each["spec"]["holderIdentity"] for each in ask("leases") if each["metadata"]["name"] == "metal3"]
    return str(found[0]) if found else ""


def bmc_callers(host: PretendHost) -> set[tuple[str, str]]:
    audit = [json.loads(line) for line in (host.folder / "state/ipi/logs/bmc-audit.jsonl").read_text().splitlines()]
    return {(each["client"], each["server"]) for each in audit}


def await_(look: Callable[[], Found], good: Callable[[Found], bool], within: float) -> Found:
    deadline = time.monotonic() + within
    while not good(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(5)
    return found


@contextmanager
def watched_vip(host: PretendHost) -> Iterator[Callable[[], list[str]]]:
    """From the lab's gateway, from the moment that the install has an authority to believe."""
    log, ca = host.folder / "vip.jsonl", host.folder / "state/ipi/secrets/cluster/api/ca.crt"
    watch = [sys.executable, vip_watch.__file__, "virbr0", GATEWAY, VIP, str(ca), str(UP_WITHIN), "4"]
    begin = f'until [ -e "{ca}" ]; do sleep 1; done; exec "$@"'
    argv = [sys.executable, "-P", "-m", "rackless", "exec", "--name", "ipi", "--", *watch]
    with log.open("wb") as out:
        watcher = subprocess.Popen(
            host.enter("sh", "-c", begin, "sh", *argv), stdout=out, cwd=host.folder, env=host.environment
        )
    try:
        yield lambda: [line for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    finally:
        watcher.terminate()
        watcher.wait()
