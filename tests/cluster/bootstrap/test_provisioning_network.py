"""The network that an install's hosts boot from, as whoever looks after them finds it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import Any

import pytest

from rackless.cluster.bootstrap.provisioning_network import (
    BootNetwork,
    address_on,
    await_network,
    find_link,
    read_network,
)
from rackless.drivers.fake.clock import VirtualClock
from rackless.errors import LabError
from rackless.lab.network_boot import Loaders, render
from rackless.ports.fabric import Pool
from rackless.ports.process import Completed

MANAGED: dict[str, Any] = {
    "apiVersion": "metal3.io/v1alpha1",
    "kind": "Provisioning",
    "metadata": {"name": "provisioning-configuration"},
    "spec": {
        "provisioningNetwork": "Managed",
        "provisioningIP": "172.22.0.3",
        "provisioningNetworkCIDR": "172.22.0.0/24",
        "provisioningDHCPRange": "172.22.0.10,172.22.0.254",
    },
}
FOUND = BootNetwork(ip_interface("172.22.0.3/24"), Pool(ip_address("172.22.0.10"), ip_address("172.22.0.254")))


class ScriptedProcesses:
    def __init__(self, links: Sequence[dict[str, str]] = ()) -> None:
        self.links = links
        self.ran: list[str] = []

    async def run(self, argv: Sequence[str | Path], *, check: bool = True) -> Completed:
        words = " ".join(map(str, argv))
        self.ran.append(words)
        return Completed((words,), 0, json.dumps(list(self.links)), "")


def with_mode(mode: str) -> dict[str, Any]:
    return {**MANAGED, "spec": {**MANAGED["spec"], "provisioningNetwork": mode}}


def test_a_managed_network_is_read_with_the_clusters_address_and_the_range() -> None:
    assert read_network(MANAGED) == FOUND


def test_of_an_unmanaged_one_only_the_address_is_ours() -> None:
    spec = {**with_mode("Unmanaged")["spec"], "provisioningDHCPRange": ""}
    found = read_network({**MANAGED, "spec": spec})
    assert found == BootNetwork(FOUND.address, None)
    assert found.served_by("ens4", FOUND.address) is None


def test_where_nobody_boots_from_one_there_is_none() -> None:
    assert read_network(with_mode("Disabled")) is None


async def test_the_settings_are_waited_for_until_the_manifests_are_there() -> None:
    answers = iter([None, None, MANAGED])

    class Late:
        async def get(self, kind: str, name: str) -> Any:
            assert (kind, name) == ("Provisioning", "provisioning-configuration")
            return next(answers)

    clock = VirtualClock()
    assert await clock.run(await_network(Late(), clock)) == FOUND  # type: ignore[arg-type]
    assert next(answers, "asked no more") == "asked no more"


async def test_a_control_plane_finds_its_nic_by_the_boot_mac_of_a_host() -> None:
    processes = ScriptedProcesses(
        [{"ifname": "lo", "address": "00:00:00:00:00:00"}, {"ifname": "ens4", "address": "52:54:00:AA:00:01"}]
    )
    assert await find_link(["52:54:00:bb:00:01", "52:54:00:aa:00:01"], processes) == "ens4"  # type: ignore[arg-type]


async def test_a_machine_without_such_a_nic_says_so() -> None:
    with pytest.raises(LabError, match="no NIC on the provisioning network"):
        await find_link(["52:54:00:bb:00:01"], ScriptedProcesses())  # type: ignore[arg-type]


async def test_the_address_is_ours_for_as_long_as_we_look_after_the_hosts() -> None:
    processes = ScriptedProcesses()
    with pytest.raises(KeyError):
        async with address_on("ens4", FOUND.address, processes):  # type: ignore[arg-type]
            assert processes.ran[-1] == "ip address replace 172.22.0.3/24 dev ens4"
            raise KeyError("lost the lease")
    assert processes.ran[-1] == "ip address del 172.22.0.3/24 dev ens4"


def test_dnsmasq_answers_on_our_nic_out_of_the_range_and_leads_to_our_script() -> None:
    network = FOUND.served_by("ens4", FOUND.address)
    assert network is not None
    told = render(
        network, Loaders(Path("/opt/payload/ipxe"), "undionly.kpxe", "snponly.efi"), "http://172.22.0.3:6180/boot.ipxe"
    )
    for line in (
        "interface=ens4",
        "dhcp-range=172.22.0.10,172.22.0.254,255.255.255.0,1h",
        "dhcp-boot=tag:ipxe,http://172.22.0.3:6180/boot.ipxe",
        "tftp-root=/opt/payload/ipxe",
    ):
        assert line in told.splitlines()
