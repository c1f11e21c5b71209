"""What only a machine of one's own can show: a kernel with VLANs, and reboots that are real."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.real.machine import SOURCE, Machine, running

pytestmark = [pytest.mark.real, pytest.mark.long]

LAB = "servers: {node: {count: 2, firmware: bios}}\nnetworks: {extra: {tenant: {cidr: 10.56.0.0/24, vlan: 42}}}\n"
TAGGED = "tests/real/test_lab_networks.py::test_a_tagged_network_is_reached_by_its_tag_only"
TRACES = """\
ip -brief link; ip -brief address; ip rule; ip route show table all; nft list ruleset; sysctl net.ipv4.ip_forward
findmnt --noheadings --list --output TARGET,FSTYPE --types ext4,nsfs,sysfs,proc
find /etc /root /run/rackless /var/lib/rackless /var/lib/libvirt /var/log/libvirt /run/libvirt 2>/dev/null
ps -eo args | grep -E -e '-m [r]ackless|qemu-syste[m]|libvirt[d]|dnsmas[q]'
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with running(tmp_path_factory.mktemp("machine")) as found:
        yield found


def traces(machine: Machine) -> list[str]:
    return sorted(machine.run("sh", "-c", TRACES, check=False).stdout.splitlines())


def test_a_tagged_network_works_where_the_kernel_has_vlans(machine: Machine) -> None:
    """By the test that has to skip where the kernel has none."""
    found = json.loads(machine.rackless("doctor", "--json").stdout)
    (tags,) = [check for check in found["checks"] if check["about"] == "VLANs"]
    assert found["ready"] and (tags["verdict"], tags["saw"]) == ("ok", "there")
    told = ("-q", "-p", "no:cacheprovider", "--basetemp=/tmp/tests")
    done = machine.run("env", "-C", SOURCE, "python3", "-m", "pytest", *told, TAGGED, check=False, timeout=1800)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_lab_comes_back_from_every_kind_of_reboot_and_goes_without_a_trace(machine: Machine) -> None:
    machine.describe(LAB)
    before = traces(machine)
    machine.up()
    machine.rackless("power", "node-0", "on")
    machine.rackless("power", "node-1", "on")
    machine.rackless("power", "node-1", "off")
    machine.await_file("/var/lib/rackless/lab/powered", "node-0")

    machine.reboot("reboot", "-f")  # nothing is asked to end
    assert machine.status() == {"lab": "lab", "daemon": "not running"}
    machine.up()
    assert_whole(machine)

    machine.reboot("systemctl", "reboot")  # everything is, at once, and by others
    assert machine.status() == {"lab": "lab", "daemon": "not running"}
    machine.up()
    assert_whole(machine)

    machine.rackless("down", "--force")
    machine.reboot("systemctl", "reboot")
    assert machine.status() == {"lab": "lab", "daemon": "stopped"}
    machine.up()
    assert_whole(machine)

    machine.rackless("destroy", "--yes")
    assert traces(machine) == before


def assert_whole(machine: Machine) -> None:
    found = machine.status()
    assert {server["name"]: server["power"] for server in found["servers"]} == {"node-0": "on", "node-1": "off"}
    assert found["reached"] == "bmc" and all(part["running"] for part in found["parts"])
    address = machine.rackless("exec", "--", "getent", "hosts", "node-0.lab.rackless.test").stdout
    assert address.startswith("192.168.111.20 ")
    (tagged,) = json.loads(machine.rackless("exec", "--", "ip", "-details", "-json", "link", "show", "tenant").stdout)
    assert (tagged["link"], tagged["linkinfo"]["info_data"]["id"]) == ("virbr0", 42)
    bmc = machine.rackless("exec", "--", "curl", "-sk", "https://192.168.112.20/redfish/v1/").stdout
    assert "RedfishVersion" in bmc
