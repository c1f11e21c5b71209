from ipaddress import IPv4Address

import pytest

from rackless.errors import SpecError
from rackless.plan.addressing import plan_lab
from rackless.plan.networks import SITE_BOOT
from rackless.ports.fabric import Pool
from rackless.spec.load import parse


def test_installer_made_machines_have_a_reservation_and_a_small_range_of_their_own() -> None:
    network = plan_lab(parse("", "x")).cluster
    assert network.pools == (Pool(IPv4Address("192.168.111.10"), IPv4Address("192.168.111.19"), "installer"),)
    bootstrap = network.reservations[-1]
    assert (bootstrap.name, str(bootstrap.address)) == ("bootstrap", "192.168.111.9")
    assert bootstrap.mac.startswith("52:54:00")


def test_static_only_gives_nothing_away_and_open_to_everybody() -> None:
    assert plan_lab(parse("networks: {cluster: {dhcp: static-only}}", "x")).cluster.pools == ()
    (pool,) = plan_lab(parse("networks: {cluster: {dhcp: open}}", "x")).cluster.pools
    assert pool.tag == ""


def test_routes_for_some_are_whole_sets_by_tag_and_routes_for_all_need_no_tag() -> None:
    some = plan_lab(
        parse(
            "networks: {bmc: {access: routed}, cluster: {routes: "
            "[{to: 10.0.0.0/8, via: 192.168.111.3, audience: [worker]}]}}",
            "x",
        )
    ).cluster
    sets = {handed.tag: [str(route.to) for route in handed.routes] for handed in some.routes}
    assert sets == {
        "installer": ["192.168.112.0/24"],
        "group-ctrl": ["192.168.112.0/24"],
        "group-worker": ["10.0.0.0/8", "192.168.112.0/24"],
    }
    assert {tag.name for tag in some.tags} == {"installer", "group-ctrl", "group-worker"}
    (handed,) = plan_lab(parse("networks: {bmc: {access: routed}}", "x")).cluster.routes
    assert handed.tag == ""


@pytest.mark.parametrize(("mode", "lab", "ironic"), [("managed", False, True), ("unmanaged", True, False)])
def test_on_the_provisioning_network_the_lab_answers_or_its_ironic(mode: str, lab: bool, ironic: bool) -> None:
    plan = plan_lab(parse(f"networks: {{provisioning: {{mode: {mode}}}}}", "x"))
    assert [nic.network for nic in plan.servers[0].nics] == ["provisioning", "cluster"]
    assert (plan.provisioning_dhcp is not None, plan.network_boot is not None) == (lab, ironic)
    assert (plan.provisioning is not None) is ironic
    network = plan.provisioning_dhcp or plan.network_boot
    assert network is not None
    assert [str(host.address) for host in network.reservations] == [f"172.22.0.{20 + n}" for n in range(4)]


def test_others_dhcp_leads_servers_that_boot_from_it_to_a_script_and_nobody_else() -> None:
    text = "servers: {{a: {{boot: {}}}}}\nnetworks: {{provisioning: {{mode: unmanaged}}}}\ncluster: {{method: none}}"
    leading, silent = (plan_lab(parse(text.format(boot), "x")).provisioning_dhcp for boot in ("network", "media"))
    assert leading is not None and leading.boot == SITE_BOOT
    assert silent is not None and silent.boot is None


def test_without_a_provisioning_network_there_is_no_nic_for_it() -> None:
    assert [nic.network for nic in plan_lab(parse("", "x")).servers[0].nics] == ["cluster"]


@pytest.mark.parametrize(
    ("bmc", "url", "network"),
    [
        ("redfish-virtualmedia", "redfish-virtualmedia://192.168.112.20/redfish/v1/Systems/1", "cluster"),
        ("redfish", "redfish://192.168.112.20/redfish/v1/Systems/1", "provisioning"),
        ("ipmi", "ipmi://192.168.112.20", "provisioning"),
    ],
)
def test_a_servers_scheme_says_how_its_bmc_is_written_and_which_nic_it_boots_from(
    bmc: str, url: str, network: str
) -> None:
    (server,) = plan_lab(parse(f"servers: {{a: {{bmc: {bmc}}}}}", "x")).servers
    assert (server.bmc_url, server.boot_nic.network) == (url, network)
    assert server.boot_nic.mac in [nic.mac for nic in server.nics]


def test_strangers_get_the_last_addresses_of_the_provisioning_network_that_are_nobodys() -> None:
    def pools(more: str = "") -> tuple[Pool, ...]:
        plan = plan_lab(parse(f"networks: {{provisioning: {{mode: managed, discover: url{more}}}}}", "x"))
        assert plan.network_boot is not None
        return plan.network_boot.pools

    assert pools() == (Pool(IPv4Address("172.22.0.205"), IPv4Address("172.22.0.254")),)
    assert pools(", gateway: 172.22.0.250") == (Pool(IPv4Address("172.22.0.251"), IPv4Address("172.22.0.254")),)
    plain = plan_lab(parse("networks: {provisioning: {mode: managed}}", "x"))
    assert plain.network_boot is not None and plain.network_boot.pools == ()


@pytest.mark.parametrize("mode", ["disabled", "unmanaged"])
def test_who_cannot_boot_is_not_discovered(mode: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse(f"networks: {{provisioning: {{mode: {mode}, discover: mdns}}}}", "x")
    assert [problem.path for problem in refused.value.problems] == ["networks.provisioning.discover"]


def test_on_a_network_of_others_the_lab_takes_the_routes_that_are_for_everybody() -> None:
    routes = "routes: [{to: 10.7.0.0/24, via: 10.9.0.1}, {to: 10.8.0.0/24, via: 10.9.0.1, audience: [ctrl]}]"
    places = "cidr: 10.9.0.0/24, gateway: 10.9.0.7, api_vip: 10.9.0.5, ingress_vip: 10.9.0.4"
    servers = "servers: {ctrl: {role: control-plane, count: 1, first: 30}}"
    attached = plan_lab(parse(f"networks: {{cluster: {{attach: br0, {places}, {routes}}}}}\n{servers}", "x"))
    assert [(str(route.to), str(route.via)) for route in attached.routes] == [("10.7.0.0/24", "10.9.0.1")]
    alone = plan_lab(parse(f"networks: {{cluster: {{{places}, {routes}}}}}\n{servers}", "x"))
    assert alone.routes == (), "there it is the router itself"
