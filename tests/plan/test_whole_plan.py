"""A lab with everything in it, planned: every network, name, route and server, as the description says."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, ip_interface
from pathlib import Path

import pytest

from rackless.plan.addressing import derive_bootstrap_mac, plan_lab
from rackless.plan.changes import find_changes
from rackless.plan.model import PlannedBmc, interface, local_mac, with_prefix
from rackless.ports.fabric import Bridge, HandedRoutes, Pool, Reservation, Route, Tag, Veth, Vlan
from rackless.ports.hypervisor import Firmware
from rackless.spec.change import Change
from rackless.spec.lab import Role
from rackless.spec.load import parse
from rackless.spec.servers import BmcScheme
from rackless.spec.uplink import Uplink

EVERYTHING = """\
name: site
domain: example.test
storage: /srv/disks
image: {url: /srv/all.raw}
networks:
  uplink: nat
  cluster:
    cidr: 10.1.0.0/24
    dhcp: open
    bootstrap: {range: 10.1.0.200-10.1.0.210}
    routes: [{to: 10.50.0.0/16, via: 10.1.0.3, audience: [a]}]
  bmc: {cidr: 10.2.0.0/24, access: routed, allow: [10.60.0.0/16]}
  provisioning: {mode: managed, cidr: 10.3.0.0/24}
  extra: {store: {cidr: 10.4.0.0/24}, tagged: {cidr: 10.5.0.0/24, vlan: 7}}
  dns: {records: {registry: 10.1.0.7, "full.name.": 10.1.0.8}, forward: [10.1.0.53]}
servers:
  a: {count: 1, extra_nics: 2, memory: 2GiB, vcpus: 3, disk: 9GiB, extra_disks: [1GiB], bmc: ipmi, firmware: bios, tpm: true}
  b: {role: control-plane, count: 1, image: {url: /srv/own.raw}, secure_boot: true}
"""
PLAN = plan_lab(parse(EVERYTHING, "x"))
PLAIN = plan_lab(parse("", "x"))


def test_the_lab_itself() -> None:
    assert (PLAN.name, PLAN.domain, PLAN.uplink, PLAN.storage) == (
        "site", "site.example.test", Uplink.NAT, Path("/srv/disks"),
    )  # fmt: skip
    assert (str(PLAN.gateway), str(PLAN.api_vip), str(PLAN.ingress_vip), str(PLAN.bootstrap_address)) == (
        "10.1.0.1/24", "10.1.0.5", "10.1.0.4", "10.1.0.9",
    )  # fmt: skip
    assert PLAN.baremetal == Bridge("baremetal")
    assert PLAN.cable == Veth("baremetal-up", "baremetal-down", bridge="virbr0", peer_bridge="baremetal")
    assert PLAN.bmc == Bridge("bmc", tuple(map(ip_interface, ("10.2.0.1/24", "10.2.0.20/32", "10.2.0.21/32"))))
    assert PLAN.provisioning == Bridge("provisioning", (ip_interface("10.3.0.1/24"),))
    assert PLAN.extra == (Bridge("store", (ip_interface("10.4.0.1/24"),)),)
    assert PLAN.vlans == (Vlan("tagged", "virbr0", 7, ip_interface("10.5.0.1/24")),)
    assert PLAN.provisioning_dhcp is None and PLAN.network_boot is not None and PLAN.provisioner is None


def test_bmcs_behind_a_router_have_a_route_and_others_none() -> None:
    assert PLAN.bmc_site.router == ip_interface("10.1.0.2/24")
    assert PLAN.bmc_site.allow == (IPv4Network("10.60.0.0/16"),)
    assert PLAN.bmc_route == Route(IPv4Network("10.2.0.0/24"), IPv4Address("10.1.0.2"))
    assert PLAIN.bmc_site.router is None and PLAIN.bmc_route is None
    chosen = plan_lab(parse("networks: {bmc: {access: routed, router: 192.168.111.99}}", "x"))
    assert chosen.bmc_site.router == ip_interface("192.168.111.99/24")


def test_addresses_that_somebody_chose_are_taken_as_they_are() -> None:
    plan = plan_lab(parse(
        "networks: {cluster: {api_vip: 192.168.111.30, ingress_vip: 192.168.111.31,"
        " bootstrap: {address: 192.168.111.32, mac: '52:54:00:00:00:07'}}}", "x"
    ))  # fmt: skip
    assert (str(plan.api_vip), str(plan.ingress_vip), str(plan.bootstrap_address), plan.bootstrap_mac) == (
        "192.168.111.30", "192.168.111.31", "192.168.111.32", "52:54:00:00:00:07",
    )  # fmt: skip
    names = {name: str(record.address) for record in plan.cluster.records for name in record.names}
    assert names["api.lab.rackless.test"] == "192.168.111.30"
    assert names["*.apps.lab.rackless.test"] == "192.168.111.31"
    assert names["bootstrap.lab.rackless.test"] == "192.168.111.32"
    assert plan.cluster.reservations[-1] == Reservation("52:54:00:00:00:07", "bootstrap", IPv4Address("192.168.111.32"))


def test_the_servers() -> None:
    a, b = PLAN.servers
    assert (a.name, a.group, a.role, a.fqdn) == ("a-0", "a", Role.WORKER, "a-0.site.example.test")
    assert (str(a.address), str(a.bmc_address), a.memory_mib, a.vcpus) == ("10.1.0.20", "10.2.0.20", 2048, 3)
    assert (a.disks, a.bmc_scheme, a.firmware, a.tpm, a.secure_boot) == (
        (9 << 30, 1 << 30), BmcScheme.IPMI, Firmware.BIOS, True, False,
    )  # fmt: skip
    assert (b.firmware, b.secure_boot, b.tpm) == (Firmware.UEFI, True, False)
    assert a.image and b.image and (a.image.url, b.image.url) == ("/srv/all.raw", "/srv/own.raw")
    assert [(nic.network, nic.bridge, str(nic.address)) for nic in a.nics] == [
        ("provisioning", "provisioning", "10.3.0.20"), ("cluster", "virbr0", "10.1.0.20"),
        ("cluster", "virbr0", "None"), ("cluster", "virbr0", "None"), ("store", "store", "None"),
    ]  # fmt: skip
    assert a.mac == a.nics[1].mac and len({nic.mac for nic in (*a.nics, *b.nics)}) == 9 - 1
    assert PLAN.server("b-0") is b and PLAN.server("c-0") is None
    assert PLAN.control_planes == (), "with an image of its own it is no member of the quorum"
    assert a.uuid != b.uuid and a.uuid != plan_lab(parse(EVERYTHING.replace("site", "other"), "x")).servers[0].uuid


def test_the_cluster_network() -> None:
    network, (a, b) = PLAN.cluster, PLAN.servers
    assert (network.name, network.bridge, str(network.gateway), network.domain, network.ntp) == (
        "cluster", "virbr0", "10.1.0.1/24", "site.example.test", True,
    )  # fmt: skip
    assert network.reservations == (
        Reservation(a.mac, "a-0", a.address), Reservation(b.mac, "b-0", b.address),
        Reservation(derive_bootstrap_mac("site"), "bootstrap", IPv4Address("10.1.0.9")),
    )  # fmt: skip
    names = {name: str(record.address) for record in network.records for name in record.names}
    assert names == {
        "gateway.site.example.test": "10.1.0.1", "api.site.example.test": "10.1.0.5",
        "api-int.site.example.test": "10.1.0.5", "*.apps.site.example.test": "10.1.0.4",
        "bootstrap.site.example.test": "10.1.0.9", "a-0.site.example.test": "10.1.0.20",
        "b-0.site.example.test": "10.1.0.21", "a-0-bmc.site.example.test": "10.2.0.20",
        "b-0-bmc.site.example.test": "10.2.0.21", "registry.site.example.test": "10.1.0.7", "full.name": "10.1.0.8",
    }  # fmt: skip
    assert network.pools == (Pool(IPv4Address("10.1.0.200"), IPv4Address("10.1.0.210")),)
    assert network.forwarders == (IPv4Address("10.1.0.53"),)
    to_bmcs = Route(IPv4Network("10.2.0.0/24"), IPv4Address("10.1.0.2"))
    own = Route(IPv4Network("10.50.0.0/16"), IPv4Address("10.1.0.3"))
    assert network.routes == (
        HandedRoutes((to_bmcs,), "installer"), HandedRoutes((own, to_bmcs), "group-a"), HandedRoutes((to_bmcs,), "group-b"),
    )  # fmt: skip
    assert network.tags == (
        Tag("installer", ("52:54:00:*:*:*",)), Tag("group-a", (a.mac,)), Tag("group-b", (b.mac,)),
    )  # fmt: skip
    assert PLAIN.cluster.tags == (Tag("installer", ("52:54:00:*:*:*",)),) and PLAIN.cluster.routes == ()


def test_routes_for_the_bootstrap_alone_go_to_nobody_else() -> None:
    text = "networks: {cluster: {routes: [{to: 10.0.0.0/8, via: 192.168.111.3, audience: [bootstrap]}]}}"
    network = plan_lab(parse(text, "x")).cluster
    assert [handed.tag for handed in network.routes] == ["installer"] == [tag.name for tag in network.tags]


def test_the_provisioning_network() -> None:
    network, (a, b) = PLAN.network_boot, PLAN.servers
    assert network is not None
    assert (network.name, network.bridge, str(network.gateway), network.domain, network.router) == (
        "provisioning", "provisioning", "10.3.0.1/24", "provisioning.site.example.test", False,
    )  # fmt: skip
    assert network.reservations == tuple(Reservation(s.nics[0].mac, s.name, s.nics[0].address) for s in (a, b))  # type: ignore[arg-type]
    assert network.records == () and network.mac != PLAN.cluster.mac


def test_macs_are_local_and_their_owners_alone() -> None:
    assert local_mac("a") == local_mac("a") != local_mac("b") and local_mac("a").startswith("02:")
    assert len(local_mac("a").split(":")) == 6 == len(derive_bootstrap_mac("a").split(":"))
    assert derive_bootstrap_mac("a").startswith("52:54:00:") and derive_bootstrap_mac("a") != derive_bootstrap_mac("b")
    network = IPv4Network("10.0.0.0/28")
    assert str(interface(network, 3)) == "10.0.0.3/28" == str(with_prefix(IPv4Address("10.0.0.3"), network))


@pytest.mark.parametrize(("before", "after", "told", "change"), [
    ("", "networks: {dns: {records: {a: 10.0.0.1}}}", "networks.dns.records.a is new", Change.LIVE),
    ("networks: {dns: {records: {a: 10.0.0.1}}}", "", "networks.dns.records.a is gone", Change.LIVE),
    ("servers: {a: {}}", "servers: {a: {memory: 3GiB}}", "servers.a.memory changed from 1GiB to 3GiB", Change.RESTART),
    ("servers: {a: {}}", "servers: {a: {vcpus: 2}}", "servers.a.vcpus changed from 1 to 2", Change.RESTART),
    ("servers: {a: {}}", "servers: {a: {extra_disks: [1GiB, 2GiB]}}",
     "servers.a.extra_disks changed from (none) to 1GiB, 2GiB", Change.RECREATE),
    ("servers: {a: {}}", "servers: {a: {extra_disks: [1MiB]}}", "servers.a.extra_disks changed from (none) to 1MiB",
     Change.RECREATE),
    ("", "storage: /srv", "storage changed from (default) to /srv", Change.RECREATE),
    ("servers: {a: {}}", "servers: {a: {image: {url: /x}}}", "servers.a.image changed from (default) to (given)",
     Change.RECREATE),
    ("servers: {a: {}}", "servers: {a: {}, b: {}}", "servers.b is new", Change.LIVE),
    ("", "name: other", "name changed from lab to other", Change.REFUSED),
])  # fmt: skip
def test_a_changed_field_is_told_with_what_it_means(before: str, after: str, told: str, change: Change) -> None:
    (found,) = find_changes(parse(before, "a"), parse(after, "b"))
    assert (str(found), found.change) == (told, change)
    assert find_changes(parse(before, "a"), parse(before, "a")) == []


IPMI, VIRTUAL_MEDIA = BmcScheme.IPMI, BmcScheme.REDFISH_VIRTUALMEDIA


@pytest.mark.parametrize(
    ("scheme", "bmc", "origin", "redfish", "url"),
    [
        (VIRTUAL_MEDIA, None, "https://{}", "https://{}/redfish/v1/Systems/1", "redfish-virtualmedia://{}/redfish/v1/Systems/1"),
        (IPMI, None, "https://{}", "https://{}/redfish/v1/Systems/1", "ipmi://{}"),
        (VIRTUAL_MEDIA, PlannedBmc(8000, http=True, system="me"), "http://{}:8000", "http://{}:8000/redfish/v1/Systems/me",
         "redfish-virtualmedia+http://{}:8000/redfish/v1/Systems/me"),
        (VIRTUAL_MEDIA, PlannedBmc(80, http=True), "http://{}", "http://{}/redfish/v1/Systems/1",
         "redfish-virtualmedia+http://{}/redfish/v1/Systems/1"),
        (VIRTUAL_MEDIA, PlannedBmc(443, alone=False), "https://{}", "https://{}/redfish/v1/Systems/1",
         "redfish-virtualmedia://{}/redfish/v1/Systems/1"),
        (VIRTUAL_MEDIA, PlannedBmc(80), "https://{}:80", "https://{}:80/redfish/v1/Systems/1",
         "redfish-virtualmedia://{}:80/redfish/v1/Systems/1"),
        (IPMI, PlannedBmc(623), "https://{}", "https://{}/redfish/v1/Systems/1", "ipmi://{}"),
        (IPMI, PlannedBmc(6230, alone=False), "ipmi://{}:6230", None, "ipmi://{}:6230"),
        (IPMI, PlannedBmc(623, alone=False), "ipmi://{}", None, "ipmi://{}"),
    ],
)  # fmt: skip
def test_a_bmc_is_written_for_metal3_for_a_client_of_redfish_and_for_a_person(
    scheme: BmcScheme, bmc: PlannedBmc | None, origin: str, redfish: str | None, url: str
) -> None:
    server = replace(PLAIN.servers[0], bmc_scheme=scheme, bmc=bmc)
    where = str(server.bmc_address)
    assert (server.bmc_origin, server.bmc_url) == (origin.format(where), url.format(where))
    assert server.redfish_url == (redfish.format(where) if redfish else None)


def test_a_bmc_of_a_server_that_boots_by_ipmi_may_be_written_for_redfish() -> None:
    server = replace(PLAIN.servers[0], bmc_scheme=IPMI)
    where = str(server.bmc_address)
    assert server.bmc_url_as("redfish+https") == f"redfish+https://{where}/redfish/v1/Systems/1"
    assert replace(server, bmc_scheme=VIRTUAL_MEDIA).bmc_url_as("ipmi") == f"ipmi://{where}"


def test_what_a_bmc_is_unless_a_site_says_otherwise() -> None:
    bmc = PlannedBmc(8000)
    assert (bmc.http, bmc.system, bmc.username, bmc.own_password, bmc.alone) == (False, "1", "admin", False, True)


def test_elastic_servers_are_places_and_those_that_were_made_are_servers() -> None:
    plan = plan_lab(parse("servers: {a: {}, b: {elastic: {max: 2}, count: 0}}", "x"))
    fixed, elastic = [s.name for s in plan.servers], [s.name for s in plan.elastic]
    assert (fixed, len(elastic)) == (["a-0"], 2)
    assert [s.name for s in plan.places] == [*fixed, *elastic]
    grown = plan.grown({elastic[1], "nobody"})
    assert [s.name for s in grown.servers] == ["a-0", elastic[1]]
    assert [s.name for s in grown.places] == [*fixed, *elastic]
    assert grown.grown(()).servers == plan.servers
    assert grown.server(elastic[1]) == plan.elastic[1] and grown.server("nobody") is None


def test_control_planes_are_those_with_our_image() -> None:
    text = "servers: {{c: {{role: control-plane{}}}, w: {{}}}}"
    assert [s.name for s in plan_lab(parse(text.format(""), "x")).control_planes] == ["c-0"]
    assert plan_lab(parse(text.format(", image: {url: /srv/own.raw}"), "x")).control_planes == ()


def test_a_bmc_that_shares_its_address_answers_what_its_server_boots_by_and_nothing_else() -> None:
    text = """
servers:
  a: {count: 1, bmc: SCHEME, members: [{name: x, bmc: {address: ADDRESS, port: 7000, password_file: /dev/null}}]}
"""
    for scheme, address, ports in (
        ("redfish", "192.168.111.1", (7000, None)), ("redfish", "192.168.112.77", (7000, 623)),
        ("ipmi", "192.168.111.1", (None, 7000)), ("ipmi", "192.168.112.77", (443, 7000)),
    ):  # fmt: skip
        (server,) = plan_lab(parse(text.replace("SCHEME", scheme).replace("ADDRESS", address), "x")).servers
        assert (server.redfish_port, server.ipmi_port) == ports, (scheme, address)
        assert server.bmc is not None and server.bmc.own_password
    own = (
        text.replace("SCHEME", "redfish").replace("ADDRESS", "192.168.112.77").replace(", password_file: /dev/null", "")
    )
    (server,) = plan_lab(parse(own, "x")).servers
    assert server.bmc is not None and not server.bmc.own_password


def test_the_mac_that_a_member_boots_by_is_where_it_boots() -> None:
    text = "servers: {{a: {{bmc: {}, members: [{{name: x, mac: '02:00:00:00:00:01'{}}}]}}}}"
    both = ", cluster_mac: '02:00:00:00:00:02'"

    def nics(scheme: str, more: str = "") -> dict[str, str]:
        (server,) = plan_lab(parse(text.format(scheme, more), "x")).servers
        return {nic.network: nic.mac for nic in server.nics}

    assert nics("redfish-virtualmedia") == {"cluster": "02:00:00:00:00:01"}, "there is no other network"
    assert nics("redfish", both) == {"provisioning": "02:00:00:00:00:01", "cluster": "02:00:00:00:00:02"}
    found = nics("redfish")
    assert found["provisioning"] == "02:00:00:00:00:01" != found["cluster"]


def test_bmcs_among_the_servers_are_answered_for_on_their_network_and_others_on_their_own() -> None:
    """At sites with one network for all; the gateway's own address is there anyway."""
    text = """\
servers:
  a:
    members:
    - {name: m-0, bmc: {address: 192.168.111.220}}
    - {name: m-1, bmc: {address: 192.168.111.1, port: 8001}}
    - {name: m-2, bmc: {address: 10.9.9.12}}
networks:
  bmc: {cidr: 10.9.9.0/24}
"""
    plan = plan_lab(parse(text, "x"))
    assert plan.baremetal.addresses == (ip_interface("192.168.111.220/32"),)
    assert plan.bmc.addresses == (ip_interface("10.9.9.1/24"), ip_interface("10.9.9.12/32"))
