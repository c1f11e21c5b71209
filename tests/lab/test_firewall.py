import pytest

from rackless.lab.firewall import render_bmcs, render_lab
from rackless.plan.addressing import plan_lab
from rackless.spec.load import parse


def test_routed_bmcs_are_never_reached_through_the_gateway_and_only_by_the_listed() -> None:
    plan = plan_lab(parse("networks: {bmc: {access: routed, allow: [192.168.111.9/32]}}", "lab.yaml"))
    assert "hook forward" in render_lab(plan) and "ip daddr 192.168.112.0/24 counter drop" in render_lab(plan)
    assert "ip saddr != { 192.168.111.1, 192.168.111.9/32 } counter drop" in render_bmcs(plan)


def test_without_a_list_everybody_who_has_the_route_may_talk_to_them() -> None:
    plan = plan_lab(parse("networks: {bmc: {access: routed}}", "lab.yaml"))
    assert "drop" not in render_bmcs(plan)


def test_direct_bmcs_with_a_list_are_guarded_where_they_are() -> None:
    plan = plan_lab(parse("networks: {bmc: {allow: [192.168.111.0/28]}}", "lab.yaml"))
    assert "ip daddr 192.168.112.0/24 ip saddr != { 192.168.111.0/28 } counter drop" in render_lab(plan)


@pytest.mark.parametrize("mode", ["managed", "unmanaged"])
def test_nothing_is_forwarded_into_the_provisioning_network_or_out_of_it(mode: str) -> None:
    rules = render_lab(plan_lab(parse(f"networks: {{provisioning: {{mode: {mode}}}}}", "lab.yaml")))
    assert 'iifname "provisioning" oifname != "provisioning" counter drop' in rules
    assert 'oifname "provisioning" iifname != "provisioning" counter drop' in rules
    assert "provisioning" not in render_lab(plan_lab(parse("", "lab.yaml")))
