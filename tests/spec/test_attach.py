from __future__ import annotations

import pytest

from rackless.errors import SpecError
from rackless.plan.addressing import plan_lab
from rackless.spec.load import parse
from rackless.spec.networks import ClusterNetwork, Dhcp

PLACES = (
    "cidr: 10.9.0.0/24, gateway: 10.9.0.7, api_vip: 10.9.0.8, ingress_vip: 10.9.0.9, bootstrap: {address: 10.9.0.6}"
)


def cluster(text: str) -> ClusterNetwork:
    return parse(f"networks: {{cluster: {{{text}}}}}", "lab.yaml").networks.cluster


def test_a_device_is_a_word_or_says_that_it_is_taken_from_somebody() -> None:
    short, long = cluster(f"attach: br0, {PLACES}"), cluster(f"attach: {{device: eth1.7, in_use: true}}, {PLACES}")
    assert short.attach is not None and (short.attach.device, short.attach.in_use) == ("br0", False)
    assert long.attach is not None and (long.attach.device, long.attach.in_use) == ("eth1.7", True)


def test_the_dhcp_of_others_is_left_to_them_unless_the_lab_says_otherwise() -> None:
    assert cluster(f"attach: br0, {PLACES}").dhcp is Dhcp.THEIRS
    assert cluster(f"attach: br0, dhcp: static-only, {PLACES}").dhcp is Dhcp.STATIC_ONLY
    assert cluster("").dhcp is not Dhcp.THEIRS


def test_where_others_answer_dhcp_the_lab_keeps_its_names_and_nothing_of_dhcp() -> None:
    spec = parse(f"networks: {{cluster: {{attach: br0, {PLACES}}}}}", "lab.yaml")
    network = plan_lab(spec).cluster
    assert not network.dhcp and (network.reservations, network.pools, network.tags, network.routes) == ((), (), (), ())
    assert any("api.lab.rackless.test" in record.names for record in network.records)
    assert plan_lab(spec).attached == ("attached", "br0")


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("attach: br0, cidr: 10.9.0.0/24", "networks.cluster.gateway", "the lab's own address has to be said"),
        ("attach: br0, cidr: 10.9.0.0/24", "networks.cluster.api_vip", "has to be said"),
        ("attach: br0, cidr: 10.9.0.0/24", "networks.cluster.ingress_vip", "has to be said"),
        ("dhcp: theirs", "networks.cluster.dhcp", "nobody else can answer"),
        (f"attach: baremetal, {PLACES}", "networks.cluster.attach.device", "has a link baremetal inside"),
        (f"attach: '../x', {PLACES}", "networks.cluster.attach.device", "not the name of a network device"),
        (f"attach: aaaaaaaaaaaaaaaa, {PLACES}", "networks.cluster.attach.device", "not the name of a network device"),
    ],
)  # fmt: skip
def test_what_cannot_be_attached_is_said(text: str, where: str, said: str) -> None:
    with pytest.raises(SpecError) as told:
        cluster(text)
    assert any(problem.path == where and said in problem.message for problem in told.value.problems)
