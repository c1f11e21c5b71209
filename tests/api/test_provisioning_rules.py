"""A Provisioning is refused for what OpenShift's operator refuses it for, in its words."""

from __future__ import annotations

from typing import Any

import pytest

from rackless.api.definitions.provisioning_rules import provisioning_problems
from rackless.api.kinds.kind import Caller, Writing

SUM = "ab" * 32
GOOD: dict[str, Any] = {
    "provisioningIP": "172.30.20.3",
    "provisioningNetworkCIDR": "172.30.20.0/24",
    "provisioningDHCPRange": "172.30.20.11, 172.30.20.101",
    "provisioningInterface": "ens1",
    "provisioningNetwork": "Managed",
    "provisioningOSDownloadURL": f"http://172.22.0.1/images/rhcos.qcow2.gz?sha256={SUM}",
}


def told(spec: dict[str, Any], name: str = "provisioning-configuration") -> list[str]:
    record = {"metadata": {"name": name}, "spec": spec}
    return [cause.message for cause in provisioning_problems(Writing(record, None, Caller("a"), "now"))]


@pytest.mark.parametrize(
    "spec",
    [
        GOOD,
        {**GOOD, "provisioningNetwork": ""},
        {**GOOD, "provisioningNetworkGateway": "172.30.20.1"},
        {**GOOD, "provisioningOSDownloadURL": ""},
        {**GOOD, "provisioningOSDownloadURL": f"http://192.168.111.1:8080/node.qcow2?sha256={SUM}"},
        {**GOOD, "provisioningNetwork": "Unmanaged", "provisioningDHCPRange": ""},
        {**GOOD, "provisioningNetwork": "", "provisioningDHCPExternal": True, "provisioningDHCPRange": ""},
        {"provisioningNetwork": "Disabled"},
        {"provisioningNetwork": "Disabled", "provisioningIP": "172.30.20.3"},
        {
            "provisioningIP": "fd2e:6f44:5dd8:b856::2",
            "provisioningNetworkCIDR": "fd2e:6f44:5dd8:b856::/80",
            "provisioningDHCPRange": "fd2e:6f44:5dd8:b856::a,fd2e:6f44:5dd8:b856::ff",
        },
    ],
)
def test_what_the_operator_takes_is_taken(spec: dict[str, Any]) -> None:
    assert told(spec) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"provisioningIP": ""}, "could not parse provisioningIP"),
        ({"provisioningIP": "172.30.21.3"}, "is not in the range defined by the provisioningNetworkCIDR"),
        ({"provisioningIP": "172.30.20.11"}, "must be outside of the provisioningDHCPRange"),
        ({"provisioningIP": "172.30.20.101"}, "must be outside of the provisioningDHCPRange"),
        ({"provisioningNetworkCIDR": "172.30.20.0"}, "could not parse provisioningNetworkCIDR"),
        ({"provisioningNetworkCIDR": ""}, "could not parse provisioningNetworkCIDR"),
        ({"provisioningDHCPRange": ""}, "provisioningDHCPRange is required in Managed mode but is not set"),
        ({"provisioningDHCPRange": "172.30.20.11"}, "DHCP range format: start_ip,end_ip"),
        ({"provisioningDHCPRange": "172.30.20.11,x"}, '"x" is not a valid IP'),
        ({"provisioningDHCPRange": "172.30.20.11,172.30.30.100"}, '"172.30.30.100" is not part of'),
        ({"provisioningNetworkGateway": "x"}, "could not parse provisioningNetworkGateway"),
        ({"provisioningNetworkGateway": "172.30.30.1"}, 'provisioningNetworkGateway "172.30.30.1" is not in the range'),
        ({"provisioningNetworkGateway": "172.30.20.3"}, "cannot be the same as provisioningIP"),
        ({"provisioningNetworkGateway": "172.30.20.0"}, "is not a usable host address"),
        ({"provisioningNetworkGateway": "172.30.20.255"}, "is not a usable host address"),
        ({"provisioningNetworkGateway": "172.30.20.50"}, "invalid provisioningNetworkGateway"),
        ({"provisioningOSDownloadURL": "nonsense"}, "is invalid"),
        ({"provisioningOSDownloadURL": f"ftp://a/b.qcow2.gz?sha256={SUM}"}, 'unsupported scheme "ftp"'),
        ({"provisioningOSDownloadURL": "http://a/b.qcow2.gz"}, "is missing"),
        ({"provisioningOSDownloadURL": "http://a/b.qcow2.gz?sha256=ab"}, "sha256 parameter"),
        (
            {"provisioningOSDownloadURL": f"http://a/b.iso?sha256={SUM}"},
            "must end in .qcow2.gz, .qcow2.xz, .qcow2 or .raw",
        ),
        (
            {
                "provisioningIP": "fd2e:6f44::2",
                "provisioningNetworkCIDR": "fd2e:6f44::/56",
                "provisioningDHCPRange": "fd2e:6f44::a,fd2e:6f44::b",
            },
            "must be greater than or equal to 64",
        ),
    ],
)
def test_what_the_operator_refuses_is_refused(change: dict[str, Any], why: str) -> None:
    [problem] = told({**GOOD, **change})
    assert why in problem


def test_there_is_one_by_one_name() -> None:
    [problem] = told(GOOD, "mine")
    assert "is a singleton" in problem


def test_its_status_is_not_judged() -> None:
    record = {"metadata": {"name": "mine"}, "spec": {}}
    assert provisioning_problems(Writing(record, record, Caller("a"), "now", "status")) == []
