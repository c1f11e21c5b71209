"""Clusters that install themselves on sites that differ from one another, with parts that are killed, and with three control planes
of which one is lost."""

from __future__ import annotations

from typing import Any

import pytest

from rackless.cluster.bootstrap.phases import is_ready
from tests.real import vip_watch
from tests.real.conftest import PretendHost
from tests.real.installs import (
    BOOTSTRAP,
    GATEWAY,
    LAB,
    RELEASE_PORT,
    UP_WITHIN,
    asking,
    await_,
    bmc_callers,
    bootstrap_vm,
    going,
    in_lab,
    install,
    leader,
    on_bootstrap,
    states,
    watched_vip,
)

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
  worker: {role: worker, count: 1, firmware: bios}
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


def test_an_install_ends_well_although_each_of_its_parts_failed_once(host: PretendHost) -> None:
    """The release server away, a control plane that cannot be provisioned, Ironic killed, the bootstrap machine reset, switched
    off, its etcd and API killed, its hand-over killed: `up` goes on, or ends with one sentence and goes on when it is run again."""
    (host.folder / "lab.yaml").write_text(LAB.format(masters=1))
    host.rackless("up", "--no-install", "--until", "bmc")
    in_lab(host, "nft", f"add table inet away; add chain inet away i {{ type filter hook input priority 0; }}; "
           f"add rule inet away i ip daddr {GATEWAY} tcp dport {RELEASE_PORT} reject")  # fmt: skip
    host.rackless("bmc", "fault", "add", "refuse", "--server", "ctrl-0", "--operation", "media")
    with going(host) as up:
        seen = up.await_event(code="payload-away")
        in_lab(host, "nft", "delete table inet away")
        seen = up.await_event(seen, event="step-started", phase="inspecting", subject="host/ctrl-0")
        seen = up.await_event(seen, event="step-finished", outcome="failed")
        host.rackless("bmc", "fault", "clear")
        seen = up.await_event(seen, event="step-started", phase="inspecting", subject="host/ctrl-0")
        on_bootstrap(host, "sudo systemctl kill -s KILL rackless-metal3.service")
        seen = up.await_event(seen, event="step-started", phase="Ironic on the bootstrap")
        host.rackless("exec", "--", "virsh", "reset", bootstrap_vm(host))
        seen = up.await_event(seen, event="step-started", phase="provisioning", subject="host/ctrl-0")
        host.rackless("exec", "--", "virsh", "destroy", bootstrap_vm(host))
        assert up.await_end(5).count("the bootstrap machine is off") == 1
        seen = up.await_event(seen, event="step-started", phase="joining the cluster", subject="node/ctrl-0")
        on_bootstrap(host, "sudo systemctl kill -s KILL etcd.service rackless-api.service")
        seen = up.await_event(seen, event="step-started", phase="hand-over")
        on_bootstrap(host, "sudo systemctl kill -s KILL rackless-hand-over.service")
        up.await_end()
    ask = asking(host)
    assert states(ask("bmh")) == {"ctrl-0": "provisioned", "worker-0": "provisioned"}
    assert {each["metadata"]["name"]: is_ready(each) for each in ask("nodes")} == {"ctrl-0": True, "worker-0": True}
    assert host.status()["etcd"]["detail"].startswith("1 of 1 members healthy")
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
