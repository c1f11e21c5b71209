"""Servers of metal in lab.yaml."""

from __future__ import annotations

import pytest

from rackless.errors import SpecError
from rackless.spec.load import parse

LAB = "servers: {node: {count: 1}}\nhosts:\n  rack1-u7: {bmc: 'BMC', mac: 'MAC', password_file: /dev/null}\n"
BMC, MAC = "redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1", "02:00:00:00:07:07"


def lab(text: str = LAB, bmc: str = BMC, mac: str = MAC) -> str:
    return text.replace("BMC", bmc).replace("MAC", mac)


def test_a_host_of_metal_is_known_by_its_bmc() -> None:
    (host,) = parse(lab(), "lab.yaml").hosts.values()
    assert (host.bmc, host.mac, host.username, host.insecure) == (BMC, MAC, "admin", False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lab(bmc="192.0.2.7"), "is not where a BMC answers"),
        (lab(bmc="redfish://root:calvin@192.0.2.7/redfish/v1/Systems/1"), "is not where a BMC answers"),
        (lab(bmc="https://192.0.2.7/"), "is not where a BMC answers"),
        (lab().replace("rack1-u7", "node-0"), "node-0 is a server of the lab already"),
        (lab() + lab().splitlines()[-1].replace("u7", "u8"), "already that of rack1-u7"),
        (lab().replace(", password_file: /dev/null", ""), "password_file"),
        (lab() + "cluster: {method: none}\n", "takes the lab's own servers only"),
    ],
)
def test_what_cannot_be_meant_is_said(text: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(text, "lab.yaml")
    assert said in "\n".join(f"{problem.path}: {problem.message}" for problem in caught.value.problems)
