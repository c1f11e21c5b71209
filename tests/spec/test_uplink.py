import pytest

from rackless.errors import SpecError
from rackless.spec.explain import fields
from rackless.spec.lab import LabSpec
from rackless.spec.load import parse
from rackless.spec.uplink import Uplink, UplinkSpec


def uplink(text: str) -> UplinkSpec:
    return parse(f"networks: {{uplink: {text}}}", "lab.yaml").networks.uplink


@pytest.mark.parametrize(
    ("text", "mode", "reach"),
    [
        ("none", Uplink.NONE, []),
        ("nat", Uplink.NAT, []),
        ("{mode: nat}", Uplink.NAT, []),
        ("{reach: [192.168.1.5]}", Uplink.NAT, ["192.168.1.5"]),
        ("{mode: nat, reach: [10.0.0.0/8, '10.1.0.0/16:443', 'host:5000']}", Uplink.NAT,
         ["10.0.0.0/8", "10.1.0.0/16:443", "host:5000"]),
        ("{reach: [0.0.0.0/0]}", Uplink.NAT, ["0.0.0.0/0"]),
    ],
)  # fmt: skip
def test_an_uplink_is_a_word_or_says_what_it_reaches(text: str, mode: Uplink, reach: list[str]) -> None:
    found = uplink(text)
    assert (found.mode, list(map(str, found.reach))) == (mode, reach)


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("sideways", "networks.uplink.mode", "'none' or 'nat'"),
        ("{reach: [host]}", "networks.uplink.reach.0", "host:5000"),
        ("{reach: ['host:0']}", "networks.uplink.reach.0", "65535"),
        ("{reach: ['192.168.1.5:443:1']}", "networks.uplink.reach.0", "port"),
        ("{reach: [registry.example]}", "networks.uplink.reach.0", "host:PORT"),
        ("{reach: [10.0.0.1/8]}", "networks.uplink.reach.0", "neither"),
        ("{reach: [5]}", "networks.uplink.reach.0", "say what"),
        ("{mode: none, reach: [10.0.0.1]}", "networks.uplink.reach", "without an uplink"),
        ("{reach: [10.0.0.1, 192.168.111.7]}", "networks.uplink.reach.1", "its own"),
        ("{rech: [10.0.0.1]}", "networks.uplink.rech", "no such field"),
    ],
)  # fmt: skip
def test_what_cannot_be_reached_is_told_with_its_place(text: str, where: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        uplink(text)
    assert [problem.path for problem in caught.value.problems] == [where]
    assert said in caught.value.problems[0].message


def test_what_was_read_once_may_be_given_as_it_is() -> None:
    found = uplink("{reach: ['10.1.0.0/16:443', 'host:5000']}")
    assert UplinkSpec(mode=Uplink.NAT, reach=found.reach) == found


def test_a_lab_written_down_is_read_again_also_one_from_before_there_was_reach() -> None:
    spec = parse("networks: {uplink: {reach: ['host:5000']}}", "lab.yaml")
    assert LabSpec.model_validate_json(spec.model_dump_json()) == spec
    before = spec.model_dump(mode="json")
    before["networks"]["uplink"] = "nat"
    assert LabSpec.model_validate(before).networks.uplink == UplinkSpec(mode=Uplink.NAT)


def test_reach_is_explained() -> None:
    assert any(field.path == "networks.uplink.reach" and "metadata" in field.meaning for field in fields())
