import pytest

from rackless.plan.addressing import plan_lab
from rackless.plan.exposure import PORTS, Forward, dnsmasq_lines, forwards, hosts_lines, places
from rackless.plan.model import LabPlan
from rackless.spec.load import parse


@pytest.fixture
def plan() -> LabPlan:
    return plan_lab(parse("name: lab\nservers: {ctrl: {role: control-plane, count: 1}, node: {count: 1}}", "lab.yaml"))


def test_a_bmc_has_one_number_for_redfish_and_ipmi(plan: LabPlan) -> None:
    made = forwards(places(plan, "bmc"), "127.0.0.1", 9000, ())
    assert [(one.name, one.id, one.target_port) for one in made] == [
        ("ctrl-0", "tcp/127.0.0.1:9000", 443),
        ("ctrl-0", "udp/127.0.0.1:9000", 623),
        ("node-0", "tcp/127.0.0.1:9001", 443),
        ("node-0", "udp/127.0.0.1:9001", 623),
    ]
    assert {one.target for one in made} == {str(server.bmc_address) for server in plan.servers}


def test_bmcs_that_answer_one_protocol_only_have_one_forward() -> None:
    text = """
servers:
  a:
    count: 2
    bmc: ipmi
    members: [{name: x, bmc: {address: 192.168.111.1, port: 6230}}, {name: y, bmc: {address: 192.168.111.1, port: 6231}}]
"""
    made = forwards(places(plan_lab(parse(text, "lab.yaml")), "bmc"), "127.0.0.1", 9000, ())
    assert [(one.name, one.protocol, one.target_port) for one in made] == [("x", "udp", 6230), ("y", "udp", 6231)]


def test_ports_of_others_are_passed_over_and_what_is_exposed_keeps_its_own(plan: LabPlan) -> None:
    first = forwards(places(plan, "ssh"), "127.0.0.1", None, {PORTS[0]})
    assert [one.port for one in first] == [PORTS[1], PORTS[2]]
    again = forwards(places(plan, "ssh"), "127.0.0.1", None, {one.port for one in first}, first)
    assert again == first
    elsewhere = forwards(places(plan, "ssh"), "192.0.2.1", None, {one.port for one in first}, first)
    assert not {one.port for one in elsewhere} & {one.port for one in first}
    with pytest.raises(LookupError):
        forwards(places(plan, "ssh"), "127.0.0.1", None, set(PORTS))
    with pytest.raises(LookupError):
        forwards(places(plan, "ssh"), "127.0.0.1", 65535, ())


def test_where_the_apis_and_the_ingress_are(plan: LabPlan) -> None:
    assert [(p.address, p.tcp) for p in places(plan, "api")] == [(str(plan.gateway.ip), 6443)]
    assert [(p.address, p.tcp) for p in places(plan, "cluster")] == [(str(plan.api_vip), 6443)]
    assert [(p.address, p.tcp) for p in places(plan, "apps")] == [(str(plan.ingress_vip), port) for port in (443, 80)]


def test_a_place_says_what_it_is_and_by_which_name_its_certificate_is_good(plan: LabPlan) -> None:
    told = [(p.what, p.name, p.host) for what in ("ssh", "api", "cluster", "apps") for p in places(plan, what)]
    assert told == [
        ("ssh", "ctrl-0", f"ctrl-0.{plan.domain}"), ("ssh", "node-0", f"node-0.{plan.domain}"), ("api", "api", ""),
        ("cluster", "cluster", f"api.{plan.domain}"), ("apps", "https", f"*.apps.{plan.domain}"),
        ("apps", "http", f"*.apps.{plan.domain}"),
    ]  # fmt: skip


def test_names_for_hosts_files_and_for_dnsmasq(plan: LabPlan) -> None:
    made = [one for what in ("bmc", "apps", "api") for one in forwards(places(plan, what), "192.0.2.1", None, ())]
    assert hosts_lines(made) == [f"192.0.2.1 {name}-bmc.{plan.domain}" for name in ("ctrl-0", "node-0")]
    assert dnsmasq_lines(made)[-1] == f"address=/apps.{plan.domain}/192.0.2.1"


@pytest.mark.parametrize(("address", "outside"), [("127.0.0.1", False), ("::1", False), ("0.0.0.0", True)])
def test_what_others_can_reach(address: str, outside: bool) -> None:
    one = Forward("api", "api", "tcp", address, 80, "10.0.0.1", 6443)
    assert one.outside is outside and one.place.endswith(":80") and one.place.startswith("[") == (":" in address)
