from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from rackless.drivers.computer_network import read_route
from rackless.lab.gate import Gate, render_host, render_lab
from rackless.operations.uplink import free_subnet, read_routes
from rackless.spec.uplink import parse_reach

ROUTES: list[dict[str, Any]] = [
    {"dst": "default", "gateway": "203.0.113.1", "dev": "eth0"},
    {"dst": "203.0.113.0/24", "dev": "eth0", "prefsrc": "203.0.113.2"},
    {"dst": "192.168.77.0/24", "dev": "wlan0"},
    {"dst": "0.0.0.0/1", "dev": "tun0"},
    {"dst": "10.20.0.0/16", "nexthops": [{"dev": "eth1"}, {"dev": "eth2"}]},
    {"dst": "100.64.8.0/30", "dev": "rl-0123abcd"},
    {"type": "local", "dst": "100.64.8.1", "dev": "rl-0123abcd"},
    {"type": "local", "dst": "203.0.113.2", "dev": "eth0"},
    {"type": "local", "dst": "127.0.0.0/8", "dev": "lo"},
    {"type": "broadcast", "dst": "203.0.113.255", "dev": "eth0"},
    {"type": "unreachable", "dst": "198.18.0.0/15"},
]

GATE = Gate(
    link="rl-0123abcd",
    inside="uplink",
    subnet=IPv4Network("100.64.8.0/30"),
    reach=(),
    names=(),
    host=(IPv4Address("100.64.8.1"), IPv4Address("203.0.113.2")),
    networks=(IPv4Network("203.0.113.0/24"),),
)


def test_routes_tell_the_hosts_addresses_its_networks_and_the_ways_out() -> None:
    routes = read_routes(map(read_route, ROUTES))
    assert routes.host == (IPv4Address("203.0.113.2"),)
    assert list(map(str, routes.near)) == ["203.0.113.0/24", "192.168.77.0/24", "10.20.0.0/16"]
    assert routes.ways([]) == ("eth0", "tun0"), "the default route, and the halves that a VPN puts in its place"
    assert routes.ways([IPv4Network("10.20.3.4/32")]) == ("eth0", "tun0", "eth1", "eth2")


def test_a_subnet_is_the_same_every_time_and_not_one_that_is_routed() -> None:
    empty, routes = read_routes([]), read_routes(map(read_route, ROUTES))
    first = free_subnet("rl-0123abcd", empty)
    assert free_subnet("rl-0123abcd", routes) == first
    taken = read_routes([read_route({"dst": str(first), "dev": "eth9"})])
    assert free_subnet("rl-0123abcd", taken) != first


def test_nothing_near_is_let_through_that_is_not_named() -> None:
    for rules in (render_host(GATE), render_lab(GATE)):
        assert "169.254.0.0/16" in rules and "203.0.113.0/24" in rules and "192.168.0.0/16" in rules
        assert "ip daddr @nearby reject" in rules and "dport" not in rules
    assert [line.strip() for line in render_host(GATE).splitlines() if line.endswith(" accept")] == [
        'iifname != "rl-0123abcd" accept',
        "ct state established,related accept",
        'oifname "rl-0123abcd" ct state established,related accept',
    ]


def test_interfaces_that_were_opened_lead_nowhere_but_to_the_lab() -> None:
    opened = replace(GATE, opened=("eth0",), closed=("eth0", "wlan0"))
    assert 'iifname @opened oifname { "eth0", "wlan0" } drop' in render_host(opened)
    assert "iifname @opened" not in render_host(GATE)


def test_a_port_of_the_host_is_opened_at_its_own_addresses_only() -> None:
    gate = replace(GATE, reach=(parse_reach("host:5000"),))
    assert "fib daddr type local meta l4proto { tcp, udp } th dport 5000 accept" in render_host(gate)
    assert "ip daddr { 100.64.8.1, 203.0.113.2 } meta l4proto { tcp, udp } th dport 5000 accept" in render_lab(gate)


def test_outer_name_servers_are_the_labs_and_not_its_guests() -> None:
    rules = render_lab(replace(GATE, names=(IPv4Address("203.0.113.1"),)))
    output, rest = rules.split("chain forward")
    assert "ip daddr { 203.0.113.1 } meta l4proto { tcp, udp } th dport 53 accept" in output.split("chain output")[1]
    assert "dport 53" not in rest
