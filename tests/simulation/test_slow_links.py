"""A slow and lossy way to the servers, on fakes: planned, done, changed and taken away; and refused where the kernel cannot."""

from __future__ import annotations

import pytest

from rackless.errors import HypervisorError
from rackless.ports.fabric import Impairment
from rackless.spec.load import parse
from tests.simulation.person import Person
from tests.simulation.test_plan_and_effects import compare


def described(link: str) -> object:
    return parse(f"name: lab\nnetworks: {{cluster: {{{link}}}}}\nservers: {{worker: {{count: 1}}}}\n", "lab.yaml")


def test_the_way_to_the_servers_is_slow_as_long_as_it_is_described_so(person: Person) -> None:
    async def story() -> None:
        bridge = "virbr0"
        for link, meant in (
            ("", {}),
            ("link: {rate: 10Mbit}", {bridge: Impairment(rate_bits=10**7)}),
            ("link: {rate: 10Mbit, delay: 40ms}", {bridge: Impairment(40, 0.0, 10**7)}),
            ("", {}),
        ):
            person.spec = described(link)  # type: ignore[assignment]
            await compare(person, "lab")
            assert person.lab.links.impaired == meant

    person.live(story)


def test_a_kernel_without_the_queue_is_told_before_anything_is_made(person: Person) -> None:
    person.world.computer.queues = frozenset({"tbf"})

    async def story() -> None:
        person.spec = described("link: {delay: 40ms}")  # type: ignore[assignment]
        with pytest.raises(HypervisorError, match="cannot give a link a delay and loss") as caught:
            await person.up("lab")
        assert "modprobe sch_netem" in caught.value.hint
        person.spec = described("link: {rate: 1Mbit}")  # type: ignore[assignment]
        await person.up("lab")

    person.live(story)
