"""Servers that are described one by one, as a site has them: where each is, by which MAC, and behind which door its BMC."""

from __future__ import annotations

import pytest

from rackless.spec.load import parse
from rackless.spec.members import MemberBmc
from rackless.spec.network_rules import LAB_PORTS
from rackless.spec.places import bmc_port
from rackless.spec.servers import BmcScheme
from tests.spec.test_rules import told

MAC, OTHER = "02:00:00:00:00:01", "02:00:00:00:00:02"


def lab(*members: str, scheme: str = "redfish-virtualmedia", more: str = "") -> str:
    return f"servers: {{a: {{bmc: {scheme}, members: [{', '.join(members)}]}}}}\n{more}"


def bmc(name: str, where: str) -> str:
    return f"{{name: {name}, bmc: {{{where}}}}}"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("192.168.111.50", ""),
        ("192.168.111.1", None),
        ("192.168.111.0", "192.168.111.0 is not an address for a host in 192.168.111.0/24"),
        ("192.168.111.255", "192.168.111.255 is not an address for a host in 192.168.111.0/24"),
        ("10.0.0.1", "10.0.0.1 is not an address for a host in 192.168.111.0/24"),
        ("192.168.111.60", "192.168.111.60 is already the address of x"),
    ],
)
def test_a_member_has_an_address_of_its_own_in_the_cluster_network(address: str, problem: str | None) -> None:
    found = told(lab("{name: x, address: 192.168.111.60}", f"{{name: y, address: {address}}}"))
    if problem is None:
        assert found == [("networks.cluster.gateway", f"{address} is the address of the server y")] or found[0][
            1
        ].endswith("is the address of the server y")
    else:
        assert found == ([("servers.a.members.1.address", problem)] if problem else [])


def test_what_is_said_of_a_members_address_rests_on_its_network() -> None:
    outside = lab("{name: x, address: 10.0.0.1}")
    assert [path for path, _ in told(outside)] == ["servers.a.members.0.address"]
    unreadable = lab("{name: x, address: 10.0.0.1}", more="networks: {cluster: {cidr: nonsense}}")
    assert [path for path, _ in told(unreadable)] == ["networks.cluster.cidr"]


def test_a_mac_is_one_nics() -> None:
    assert told(lab(f"{{name: x, mac: '{MAC}', cluster_mac: '{OTHER}'}}", "{name: y}")) == []
    assert told(lab(f"{{name: x, mac: '{MAC}'}}", f"{{name: y, mac: '{MAC}'}}")) == [
        ("servers.a.members.1.mac", f"{MAC} is already the MAC of x")
    ]
    assert told(lab(f"{{name: x, mac: '{MAC}', cluster_mac: '{MAC}'}}")) == [
        ("servers.a.members.0.cluster_mac", f"{MAC} is already the MAC of x")
    ]
    bootstrap = f"networks: {{cluster: {{bootstrap: {{mac: '{MAC}'}}}}}}"
    assert told(lab(f"{{name: x, mac: '{MAC}'}}", more=bootstrap)) == [
        ("servers.a.members.0.mac", f"{MAC} is already the MAC of the bootstrap VM")
    ]


GATEWAY = "address: 192.168.111.1"
SAME = "the BMC of x is at the same address, port and system"


@pytest.mark.parametrize(
    ("scheme", "first", "second", "found"),
    [
        ("redfish-virtualmedia", "address: 10.9.9.9", "address: 10.9.9.9", [("1.bmc.address", SAME)]),
        ("redfish-virtualmedia", "address: 10.9.9.9", "address: 10.9.9.9, port: 443", [("1.bmc.address", SAME)]),
        ("redfish-virtualmedia", "address: 10.9.9.9", "address: 10.9.9.8", []),
        ("redfish-virtualmedia", "address: 10.9.9.9", "address: 10.9.9.9, port: 8443", []),
        ("redfish-virtualmedia", "address: 10.9.9.9", "address: 10.9.9.9, system: Two", []),
        ("redfish-virtualmedia", "address: 10.9.9.9, port: 8000", "address: 10.9.9.9, port: 8000, system: Two, http: true",
         [("1.bmc.http", "another BMC at 10.9.9.9:8000 speaks the other way")]),
        ("redfish-virtualmedia", "address: 10.9.9.9", "address: 10.9.9.9, system: Two, http: true", []),
        ("ipmi", "address: 10.9.9.9", "address: 10.9.9.9, system: Two", [("1.bmc.address", SAME)]),
        ("ipmi", "address: 10.9.9.9", "address: 10.9.9.9, port: 624", []),
        ("ipmi", "address: 10.9.9.9", "address: 10.9.9.9, port: 624, http: true", []),
    ],
)  # fmt: skip
def test_every_bmc_has_a_door_of_its_own(scheme: str, first: str, second: str, found: list[tuple[str, str]]) -> None:
    expected = [(f"servers.a.members.{path}", words) for path, words in found]
    assert told(lab(bmc("x", first), bmc("y", second), scheme=scheme)) == expected


@pytest.mark.parametrize("port", sorted(LAB_PORTS))
def test_ports_of_the_gateway_that_are_the_labs_are_taken(port: int) -> None:
    there = bmc("x", f"{GATEWAY}, port: {port}")
    words = f"port {port} of the gateway 192.168.111.1 is taken by the lab itself"
    assert told(lab(there)) == [("servers.a.members.0.bmc.port", words)]
    assert told(lab(there, scheme="ipmi")) == [], "the lab's are TCP's"
    assert told(lab(bmc("x", f"address: 10.9.9.9, port: {port}"))) == []
    assert told(lab(bmc("x", f"{GATEWAY}, port: {port + 1}"))) == []


@pytest.mark.parametrize(
    ("address", "whose"),
    [
        ("192.168.111.20", "x"),
        ("192.168.111.5", "networks.cluster.api_vip"),
        ("192.168.111.9", "networks.cluster.bootstrap.address"),
        ("192.168.111.77", ""),
    ],
)
def test_a_bmc_has_nobody_elses_address_but_perhaps_the_gateways(address: str, whose: str) -> None:
    words = f"{address} is the address of {whose}, and a BMC needs its own"
    assert told(lab(bmc("x", f"address: {address}"))) == ([("servers.a.members.0.bmc.address", words)] if whose else [])
    assert told(lab(bmc("x", GATEWAY))) == []


def test_the_usual_ports() -> None:
    usual = {
        (scheme, http): bmc_port(scheme, MemberBmc(http=http))
        for scheme in (BmcScheme.IPMI, BmcScheme.REDFISH)
        for http in (False, True)
    }
    assert usual == {
        (BmcScheme.IPMI, False): 623, (BmcScheme.IPMI, True): 623, (BmcScheme.REDFISH, False): 443,
        (BmcScheme.REDFISH, True): 80,
    }  # fmt: skip
    assert bmc_port(BmcScheme.IPMI, MemberBmc(port=7)) == 7


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("a", True),
        ("a.b-c.1", True),
        ("A", False),
        ("a..b", False),
        ("-a", False),
        ("a-", False),
        ("", False),
        ("a" * 64, False),
    ],
)
def test_a_member_is_called_as_a_host_may_be(name: str, good: bool) -> None:
    found = told(lab(f"{{name: '{name}'}}", more="name: l\ndomain: t.test"))
    assert any("is not a host's name" in words for _, words in found) is not good


@pytest.mark.parametrize(
    ("system", "good"),
    [
        ("1", True),
        ("System.Embedded.1", True),
        ("a" * 64, True),
        ("a" * 65, False),
        ("a/b", False),
        (".", False),
        ("", False),
    ],
)
def test_a_system_is_called_as_redfish_may_call_it(system: str, good: bool) -> None:
    assert (
        any("is not the id of a system" in words for _, words in told(lab(bmc("x", f"system: '{system}'")))) is not good
    )


def test_what_is_said_of_a_member_is_kept() -> None:
    spec = parse(lab("{name: x.y, bmc: {system: System.Embedded.1, username: root}}"), "x")
    (member,) = spec.servers["a"].members
    assert (member.name, member.bmc.system, member.bmc.username, member.bmc.http) == (
        "x.y", "System.Embedded.1", "root", False,
    )  # fmt: skip
    assert spec.servers["a"].count == 1


def test_members_are_counted_and_a_count_may_say_the_same() -> None:
    text = "servers: {{a: {{members: [{{name: x}}, {{name: y}}]{}}}}}"
    assert told(text.format("")) == told(text.format(", count: 2")) == []
    assert [words for _, words in told(text.format(", count: 3"))] == [
        "count is 3, and there are 2 members; leave count out"
    ]


def test_a_member_that_says_where_it_is_needs_no_place_by_its_number() -> None:
    small = "networks: {bmc: {cidr: 10.9.0.0/28}}"
    assert told(lab("{name: x, bmc: {address: 10.9.0.5}}", more=small)) == []
    (problem,) = told(lab("{name: x, address: 192.168.111.50}", more=small))
    assert problem[0] == "networks.bmc.cidr" and "10.9.0.0/28" in problem[1]


def test_a_name_is_one_servers_whichever_group_it_is_of() -> None:
    twice = "servers: {a: {members: [{name: b-0}]}, b: {count: 1}}"
    assert ("servers", "there are several servers b-0") in told(twice)
    assert told("servers: {a: {members: [{name: c-0}]}, b: {count: 1}}") == []


def test_a_site_has_as_many_control_planes_as_it_has() -> None:
    assert told("servers: {a: {role: control-plane, count: 2}}") != []
    assert told("servers: {a: {role: control-plane, members: [{name: x}, {name: y}]}}") == []


def test_places_that_are_all_said_may_be_in_a_network_without_the_usual_ones() -> None:
    said = (
        "cidr: 10.0.0.0/28, api_vip: 10.0.0.3, ingress_vip: 10.0.0.4, "
        "bootstrap: {address: 10.0.0.5, range: 10.0.0.6-10.0.0.7}"
    )
    text = "servers: {{a: {{members: [{{name: x, address: 10.0.0.9}}]}}}}\nnetworks: {{cluster: {{{}}}{}}}"
    assert parse(text.format(said, ""), "x").servers["a"].members[0].name == "x"
    assert ("networks.cluster.api_vip", "10.0.0.9 is the address of the server x") in told(
        text.format(said.replace("10.0.0.3", "10.0.0.9"), "")
    )
    routed = ", bmc: {access: routed, router: 10.0.0.9}"
    assert ("networks.bmc.router", "10.0.0.9 is the address of the server x") in told(text.format(said, routed))


HOST = "hosts: {{h: {{bmc: '{}', mac: '{}', password_file: /dev/null}}{}}}"
BMC = "redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1"


def test_a_host_of_metal_has_no_mac_of_a_member_and_no_bmc_or_mac_of_another_host() -> None:
    member = f"{{name: x, mac: '{MAC}'}}"
    assert told(lab(member, "{name: y}", more=HOST.format(BMC, OTHER, ""))) == []
    assert told(lab(member, more=HOST.format(BMC, MAC, ""))) == [("hosts.h.mac", f"{MAC} is already that of x")]
    second = f", i: {{bmc: '{BMC}', mac: '{OTHER}', password_file: /dev/null}}"
    assert told(lab("{name: x}", more=HOST.format(BMC, OTHER, second))) == [
        ("hosts.i.bmc", f"{BMC} is already that of h"), ("hosts.i.mac", f"{OTHER} is already that of h"),
    ]  # fmt: skip


def test_how_many_control_planes_there_are_is_not_said_where_a_role_cannot_be_read() -> None:
    text = "servers: {{a: {{role: {}}}, b: {{role: control-plane, count: 2}}}}"
    assert [path for path, _ in told(text.format("worker"))] == ["servers"]
    assert [path for path, _ in told(text.format("boss"))] == ["servers.a.role"]
