"""A cluster that installs itself over a provisioning network, on fakes: by Redfish and IPMI, with DHCP of its own or of others."""

from __future__ import annotations

import logging
from pathlib import Path
from unittest.mock import patch

import pytest

from rackless.diagnosis.install_steps import BOOTED, STEPS, SeenStep
from rackless.drivers.fake.fabric import FakeNetworks
from rackless.lab.network_boot import NetworkBoot
from rackless.operations.runs import install_steps
from rackless.plan.networks import SITE_BOOT
from rackless.ports.fabric import Network
from rackless.simulation.__main__ import load_everything
from rackless.simulation.errands import Errands
from rackless.simulation.installed_servers import StoryIronic
from rackless.simulation.story import Scenario, live_through

LAB = (
    "name: lab\nservers: {{ctrl: {{role: control-plane, count: 1, boot: network}}, worker: {{count: 1, bmc: ipmi}}}}\n"
    "networks: {{provisioning: {{mode: {}}}}}\ncluster: {{method: ipi}}"
)
BOTH = ["172.22.0.2", "172.22.0.3"]
"""The bootstrap's address, and the cluster's."""


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "answers"), [("managed", BOTH), ("unmanaged", [])])
def test_ironic_is_where_hosts_boot_from_and_dhcp_only_where_it_is_the_installs_own(
    tmp_path: Path, mode: str, answers: list[str]
) -> None:
    logging.disable()
    load_everything()
    answered: list[str] = []
    engines: list[tuple[str, str, bool]] = []
    networks: list[Network] = []
    steps: list[SeenStep] = []
    start, begin, ensure = NetworkBoot.start, StoryIronic.start, FakeNetworks.ensure_network

    async def answering(boot: NetworkBoot) -> None:
        answered.append(str(boot._network.gateway.ip))
        await start(boot)

    async def beginning(ironic: StoryIronic, within: float) -> None:
        engines.append((str(ironic.config.address), ironic.config.http_url, ironic.config.ipmi))
        await begin(ironic, within)

    async def making(fake: FakeNetworks, network: Network) -> bool:
        networks.append(network)
        return await ensure(fake, network)

    async def looking(errands: Errands) -> None:
        steps[:] = await errands.person.run("steps", install_steps("lab", errands.person.roots))

    with (
        patch.object(Errands, "hear", looking),
        patch.object(NetworkBoot, "start", answering),
        patch.object(StoryIronic, "start", beginning),
        patch.object(FakeNetworks, "ensure_network", making),
    ):
        lived = live_through(Scenario(0, LAB.format(mode), ("up", "events", "up"), ()), tmp_path)
    assert lived.wrong == []
    assert answered == answers
    assert engines == [(address, f"http://{address}:6180", True) for address in BOTH]
    theirs = [network.boot for network in networks if network.name == "provisioning"]
    assert theirs == ([SITE_BOOT] if mode == "unmanaged" else [])
    assert {each.step for each in steps} == set(STEPS) - {BOOTED}, "a story's machines read their config without HTTP"
    assert {each.outcome for each in steps} == {"done"}
