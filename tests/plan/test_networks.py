from ipaddress import IPv4Address

from rackless.plan.addressing import plan_lab
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


def test_the_provisioning_nic_comes_first_and_the_lab_answers_there_only_when_unmanaged() -> None:
    for mode, answers in (("managed", False), ("unmanaged", True)):
        plan = plan_lab(parse(f"networks: {{provisioning: {{mode: {mode}}}}}", "x"))
        assert [nic.network for nic in plan.servers[0].nics] == ["provisioning", "cluster"]
        assert (plan.provisioning_dhcp is not None) is answers
        assert (plan.provisioning is not None) is not answers
    assert [nic.network for nic in plan_lab(parse("", "x")).servers[0].nics] == ["cluster"]
