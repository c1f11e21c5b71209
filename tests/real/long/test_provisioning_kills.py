"""Everything a host's way hangs on, killed in every phase of it: the host becomes a node all the same."""

from __future__ import annotations

import random

import pytest

from tests.real.breakage import PHASES, SPAN, VICTIMS, Kill, provision_through
from tests.real.conftest import PretendHost

pytestmark = [pytest.mark.real, pytest.mark.long]

LAB = "servers: {node: {role: worker, count: 1, memory: 1GiB}}\n"


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_host_becomes_a_node_whatever_is_killed_on_its_way(host: PretendHost, victim: str, phase: str) -> None:
    (host.folder / "lab.yaml").write_text(LAB)
    after = random.Random(f"{victim} {phase}").uniform(0, SPAN[phase])
    provision_through(host, Kill(victim, phase, after))
    (server,) = host.status()["servers"]
    assert (server["host"], server["node"]) == ("provisioned", "up")
