"""Static addresses out of network data, as the deploy ramdisk sets them and as a node keeps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rackless.images.files import static_network

MAC = "02:00:00:00:00:0A"
DATA: dict[str, Any] = {
    "links": [{"id": "nic0", "type": "phy", "ethernet_mac_address": MAC, "mtu": 1400}],
    "networks": [
        {
            "id": "net0",
            "type": "ipv4",
            "link": "nic0",
            "ip_address": "192.0.2.20",
            "netmask": "255.255.255.0",
            "routes": [
                {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"},
                {"network": "198.51.100.0", "netmask": "255.255.255.128", "gateway": "192.0.2.2"},
            ],
        },
        {"id": "net1", "type": "ipv6", "link": "nic0", "ip_address": "2001:db8::20", "netmask": "ffff:ffff:ffff::"},
    ],
    "services": [{"type": "dns", "address": "192.0.2.1"}],
}


def test_addresses_routes_and_mtu_are_set_by_the_mac() -> None:
    [(mac, networks)] = static_network.by_mac(DATA).items()
    assert mac == MAC.lower()
    assert static_network.commands(mac, networks, "ens3", 1400) == [
        ["link", "set", "ens3", "up", "mtu", "1400"],
        ["addr", "replace", "192.0.2.20/24", "dev", "ens3"],
        ["addr", "replace", "2001:db8::20/48", "dev", "ens3"],
        ["route", "replace", "0.0.0.0/0", "via", "192.0.2.1", "dev", "ens3"],
        ["route", "replace", "198.51.100.0/25", "via", "192.0.2.2", "dev", "ens3"],
    ]


def test_a_node_keeps_them_as_units_of_networkd(tmp_path: Path) -> None:
    (tmp_path / "network_data.json").write_text(json.dumps(DATA))
    static_network.main(["--networkd", str(tmp_path / "network_data.json"), str(tmp_path)])
    [unit] = tmp_path.glob("*.network")
    assert unit.name < "90-dhcp.network", "the first that matches counts"
    assert (
        unit.read_text()
        == """\
[Match]
MACAddress=02:00:00:00:00:0a

[Link]
MTUBytes=1400

[Network]
DHCP=no
IPv6AcceptRA=no
Address=192.0.2.20/24
Address=2001:db8::20/48
DNS=192.0.2.1

[Route]
Destination=0.0.0.0/0
Gateway=192.0.2.1

[Route]
Destination=198.51.100.0/25
Gateway=192.0.2.2
"""
    )


@pytest.mark.parametrize(
    ("network", "address"),
    [
        ({"ip_address": "192.0.2.5/25"}, "192.0.2.5/25"),
        ({"ip_address": "192.0.2.5"}, "192.0.2.5/24"),
        ({"ip_address": "192.0.2.5", "netmask": "20"}, "192.0.2.5/20"),
        ({"ip_address": "2001:db8::5"}, "2001:db8::5/64"),
        ({"ip_address": "2001:db8::5", "netmask": "56"}, "2001:db8::5/56"),
    ],
)
def test_a_netmask_is_understood_however_it_is_written(network: dict[str, Any], address: str) -> None:
    assert static_network.address(network) == address


def test_a_gateway_beside_the_routes_counts_once() -> None:
    network = {**DATA["networks"][0], "gateway": "192.0.2.1"}
    assert static_network.routes(network)[0] == ("0.0.0.0/0", "192.0.2.1")
    assert len(static_network.routes(network)) == 2


def test_what_asks_dhcp_and_what_is_not_plain_is_left_alone() -> None:
    data = {
        "links": [
            {"id": "nic0", "type": "phy", "ethernet_mac_address": MAC},
            {"id": "bond0", "type": "bond", "ethernet_mac_address": MAC, "bond_links": ["nic0"]},
        ],
        "networks": [
            {"id": "a", "type": "ipv4_dhcp", "link": "nic0"},
            {"id": "b", "type": "ipv4", "link": "bond0", "ip_address": "192.0.2.7"},
            {"id": "c", "type": "ipv4", "link": "nowhere", "ip_address": "192.0.2.8"},
        ],
        "services": [],
    }
    assert static_network.units(data) == {} and static_network.by_mac(data) == {}


def test_interfaces_are_found_by_their_macs(tmp_path: Path) -> None:
    for name, mac, real in (("ens3", "02:00:00:00:00:0A", True), ("lo", "00:00:00:00:00:00", False)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "address").write_text(f"{mac}\n")
        if real:
            (tmp_path / name / "device").mkdir()
    assert static_network.interfaces(tmp_path) == {"02:00:00:00:00:0a": "ens3"}
