"""How slow and lossy the way to the servers is, as people write it."""

from __future__ import annotations

import pytest

from rackless.errors import RacklessError
from rackless.plan.addressing import plan_lab
from rackless.ports.fabric import Impairment
from rackless.spec.load import parse


def described(link: str) -> Impairment | None:
    return plan_lab(parse(f"networks: {{cluster: {{link: {link}}}}}", "lab.yaml")).impairment


@pytest.mark.parametrize(
    ("link", "meant"),
    [
        ("{rate: 10Mbit}", Impairment(rate_bits=10**7)),
        ("{rate: 512kbit}", Impairment(rate_bits=512_000)),
        ("{rate: 2.5 Gbit/s}", Impairment(rate_bits=2_500_000_000)),
        ("{delay: 40ms}", Impairment(40)),
        ("{delay: 1.5s, loss: 0.5%, rate: 1Gbit}", Impairment(1500, 0.5, 10**9)),
    ],
)
def test_a_link_is_read_with_its_units(link: str, meant: Impairment) -> None:
    assert described(link) == meant


def test_nothing_said_is_nothing_done_and_a_rate_alone_is_known_as_such() -> None:
    assert plan_lab(parse("name: lab", "lab.yaml")).impairment is None
    assert Impairment(rate_bits=1).plain_rate and not Impairment(1, 0, 1).plain_rate and not Impairment(0, 1).plain_rate


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("{rate: 10}", "a rate is a number with a unit"),
        ("{rate: 10MB}", "is not a rate, such as 512kbit"),
        ("{rate: 1kbit}", "is not between 64kbit and 32Gbit"),
        ("{delay: 40}", "a delay is a number with a unit"),
        ("{delay: 11s}", "is not between 1ms and 10s"),
        ("{loss: 0.5}", "a loss is a part of a hundred"),
        ("{loss: 60%}", "is not a loss between 0% and 50%"),
        ("{}", "give it a delay, a loss or a rate"),
    ],
)
def test_what_is_no_link_is_told_with_what_is_one(link: str, says: str) -> None:
    with pytest.raises(RacklessError) as caught:
        described(link)
    assert says in f"{caught.value.what} {caught.value.why} {getattr(caught.value, 'problems', '')}"


def test_a_description_is_written_as_it_was_read() -> None:
    spec = parse("networks: {cluster: {link: {delay: 1s, loss: 2%, rate: 1500kbit}}}", "lab.yaml")
    link = spec.model_dump(mode="json")["networks"]["cluster"]["link"]
    assert link == {"delay": "1000ms", "loss": "2%", "rate": "1500kbit"}
    assert parse(f"networks: {{cluster: {{link: {link}}}}}", "lab.yaml") == spec
    rates = ("3Gbit", "30Mbit", "64kbit", "32Gbit")
    for rate in rates:
        spec = parse(f"networks: {{cluster: {{link: {{rate: {rate}}}}}}}", "lab.yaml")
        assert spec.model_dump(mode="json")["networks"]["cluster"]["link"]["rate"] == rate
