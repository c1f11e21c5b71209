"""Addresses that an installer tells in NMState, as the deploy ramdisk and the node image read them."""

from __future__ import annotations

from typing import Any

import pytest

from rackless.images.files import static_network
from rackless.installer.install_config.cluster_input import HostAddressing
from rackless.installer.install_config.writing import nmstate
from rackless.provisioning.network_data import problem
from rackless.provisioning.nmstate import to_network_data

MAC, BOOT_MAC = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
NIC: dict[str, Any] = {
    "name": "enp1s0",
    "type": "ethernet",
    "state": "up",
    "mac-address": MAC.upper(),
    "ipv4": {"enabled": True, "address": [{"ip": "192.0.2.20", "prefix-length": 24}]},
}
DEFAULT = {"destination": "0.0.0.0/0", "next-hop-address": "192.0.2.1", "next-hop-interface": "enp1s0"}


def told(*interfaces: dict[str, Any], routes: tuple[dict[str, Any], ...] = (DEFAULT,)) -> dict[str, Any] | None:
    return to_network_data({"interfaces": list(interfaces), "routes": {"config": list(routes)}}, BOOT_MAC)


def test_what_we_write_into_an_install_config_comes_to_the_same_addresses_on_a_machine() -> None:
    written = nmstate(
        HostAddressing("enp1s0", MAC, "192.0.2.20", 24, "192.0.2.1", ("192.0.2.1", "192.0.2.2"), mtu=1400)
    )
    data = to_network_data(written, BOOT_MAC)
    assert data is not None and problem(data) == ""
    [(mac, networks)] = static_network.by_mac(data).items()
    assert static_network.commands(mac, networks, "eth0", data["links"][0]["mtu"]) == [
        ["link", "set", "eth0", "up", "mtu", "1400"],
        ["addr", "replace", "192.0.2.20/24", "dev", "eth0"],
        ["route", "replace", "0.0.0.0/0", "via", "192.0.2.1", "dev", "eth0"],
    ]
    assert mac == MAC and static_network.name_servers(data) == ["192.0.2.1", "192.0.2.2"]


def test_both_families_and_routes_that_name_no_interface() -> None:
    more = {"ipv6": {"enabled": True, "address": [{"ip": "2001:db8::20", "prefix-length": 64}]}}
    data = told({**NIC, **more}, routes=({"destination": "::/0", "next-hop-address": "2001:db8::1"},))
    assert data is not None and problem(data) == ""
    units = static_network.units(data)["10-static-0.network"].splitlines()
    for line in ("Address=192.0.2.20/24", "Address=2001:db8::20/64", "Destination=::/0", "Gateway=2001:db8::1"):
        assert line in units


def test_the_only_nic_is_the_one_that_the_host_boots_from_where_no_mac_is_said() -> None:
    nameless = {name: value for name, value in NIC.items() if name != "mac-address"}
    data = told(nameless)
    assert data is not None and data["links"][0]["ethernet_mac_address"] == BOOT_MAC
    assert told(nameless, {"name": "enp2s0", "type": "ethernet"}) is None, "which of the two it is cannot be known"


@pytest.mark.parametrize(
    "interfaces",
    [
        (),
        ({**NIC, "ipv4": {"enabled": True, "dhcp": True}},),
        ({**NIC, "ipv4": {**NIC["ipv4"], "dhcp": True}},),
        ({**NIC, "ipv4": {**NIC["ipv4"], "enabled": False}},),
        ({**NIC, "state": "absent"},),
        ({**NIC, "type": "vlan", "name": "enp1s0.7"},),
        ({**NIC, "type": "bond", "name": "bond0"},),
        ({**NIC, "ipv4": {"enabled": True, "address": [{"ip": "nowhere", "prefix-length": 24}]}},),
        ({**NIC, "ipv4": {"enabled": True, "address": [{"ip": "192.0.2.20"}]}},),
        ("enp1s0",),
    ],
)
def test_what_cannot_be_told_whole_is_not_told(interfaces: tuple[Any, ...]) -> None:
    assert told(*interfaces, routes=()) is None


def test_interfaces_without_an_address_of_their_own_are_passed_over() -> None:
    bridge = {"name": "br0", "type": "linux-bridge", "state": "up"}
    other = {"name": "enp2s0", "type": "ethernet", "ipv4": {"enabled": True, "dhcp": True}}
    data = told(bridge, other, NIC)
    assert data is not None and [link["id"] for link in data["links"]] == ["enp1s0"]


def test_a_route_by_an_interface_without_an_address_is_no_half_told_one() -> None:
    assert told(NIC, routes=({**DEFAULT, "next-hop-interface": "enp2s0"},)) is None
    assert told(NIC, routes=({**DEFAULT, "next-hop-interface": "enp2s0", "state": "absent"},)) is not None
