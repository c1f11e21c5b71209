"""Clusters that install themselves: from a bootstrap on a server, and with three control planes of which one is lost."""

from __future__ import annotations

from typing import Any

import pytest

from rackless.cluster.bootstrap.phases import is_ready
from tests.real import vip_watch
from tests.real.conftest import PretendHost
from tests.real.installs import BOOTSTRAP, UP_WITHIN, asking, await_, bmc_callers, install, leader, states, watched_vip

pytestmark = [pytest.mark.real, pytest.mark.long]

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
