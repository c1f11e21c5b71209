from __future__ import annotations

import pytest

from rackless.errors import SpecError
from rackless.spec.load import parse
from rackless.spec.networks import Dhcp
from rackless.spec.servers import BmcProtocol, BmcScheme, WayToBoot
from rackless.spec.spellings import find_old_spellings


@pytest.mark.parametrize(
    ("said", "bmc", "boot", "scheme"),
    [
        ("", BmcProtocol.REDFISH, WayToBoot.MEDIA, BmcScheme.REDFISH_VIRTUALMEDIA),
        ("boot: media", BmcProtocol.REDFISH, WayToBoot.MEDIA, BmcScheme.REDFISH_VIRTUALMEDIA),
        ("boot: network", BmcProtocol.REDFISH, WayToBoot.NETWORK, BmcScheme.REDFISH),
        ("boot: network, bmc: ipmi", BmcProtocol.IPMI, WayToBoot.NETWORK, BmcScheme.IPMI),
        ("boot: media, bmc: redfish", BmcProtocol.REDFISH, WayToBoot.MEDIA, BmcScheme.REDFISH_VIRTUALMEDIA),
        ("bmc: redfish-virtualmedia", BmcProtocol.REDFISH, WayToBoot.MEDIA, BmcScheme.REDFISH_VIRTUALMEDIA),
        ("bmc: redfish", BmcProtocol.REDFISH, WayToBoot.NETWORK, BmcScheme.REDFISH),
        ("bmc: ipmi", BmcProtocol.IPMI, WayToBoot.NETWORK, BmcScheme.IPMI),
    ],
)
def test_how_servers_boot_is_said_in_its_own_words_or_in_those_of_before(
    said: str, bmc: BmcProtocol, boot: WayToBoot, scheme: BmcScheme
) -> None:
    spec = parse(f"servers: {{a: {{{said}}}}}", "lab.yaml")
    group = spec.servers["a"]
    assert (group.bmc, group.boot, group.scheme) == (bmc, boot, scheme)
    assert (spec.networks.provisioning.mode == "managed") is (boot is WayToBoot.NETWORK)
    assert type(spec).model_validate_json(spec.model_dump_json()) == spec, "a lab that was written down is the same lab"


@pytest.mark.parametrize(
    ("said", "where"),
    [("boot: media, bmc: ipmi", "servers.a.boot"), ("boot: network, bmc: redfish-virtualmedia", "servers.a.bmc")],
)
def test_what_contradicts_itself_is_refused(said: str, where: str) -> None:
    with pytest.raises(SpecError) as told:
        parse(f"servers: {{a: {{{said}}}}}", "lab.yaml")
    assert [problem.path for problem in told.value.problems] == [where]


def test_dhcp_for_installers_is_read_under_its_old_name() -> None:
    for name in ("reserved", "installer"):
        assert parse(f"networks: {{cluster: {{dhcp: {name}}}}}", "x").networks.cluster.dhcp is Dhcp.INSTALLER


def test_old_spellings_are_told_with_their_lines_and_new_ones_are_not() -> None:
    old = "networks:\n  cluster: {dhcp: reserved}\nservers:\n  a:\n    bmc: ipmi\n  b: {bmc: redfish-virtualmedia}\n  c:\n"
    assert [(hint.path, hint.line) for hint in find_old_spellings(old)] == [
        ("networks.cluster.dhcp", 2), ("servers.a.bmc", 5), ("servers.b.bmc", 6)
    ]  # fmt: skip
    new = "networks: {cluster: {dhcp: installer}}\nservers: {a: {boot: network, bmc: ipmi}, b: {boot: media}}"
    assert find_old_spellings(new) == find_old_spellings("") == []
