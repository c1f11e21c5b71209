"""A cluster that installs itself where nobody answers DHCP, on fakes: every machine is told its address before it needs one."""

from __future__ import annotations

import logging
from pathlib import Path
from unittest.mock import patch

import pytest

from rackless.drivers.fake.provisioning import LabProvisioner
from rackless.plan.addressing import plan_lab
from rackless.ports.provisioner import ConfigDrive, HostAccess, Image, Result
from rackless.simulation.__main__ import load_everything
from rackless.simulation.installed_servers import StoryIronic
from rackless.simulation.story import Scenario, live_through
from rackless.spec.load import parse

LAB = (
    "name: lab\nservers: {ctrl: {role: control-plane, count: 3}, worker: {count: 1}}\n"
    "networks: {cluster: {dhcp: none}}\ncluster: {method: ipi}"
)


@pytest.mark.slow
def test_agents_and_systems_are_told_the_planned_addresses_and_the_bootstrap_has_its_own(tmp_path: Path) -> None:
    logging.disable()
    load_everything()
    agents: dict[str, object] = {}
    systems: dict[str, object] = {}
    engines: list[str] = []
    register, provision, begin = LabProvisioner.register, LabProvisioner.provision, StoryIronic.start

    def first(data: object) -> object:
        return data["networks"][0]["ip_address"] if isinstance(data, dict) else data

    async def registering(engine: LabProvisioner, host: HostAccess, *, restart: bool = False) -> Result:
        agents[host.name] = first(host.network)
        return await register(engine, host, restart=restart)

    async def provisioning(
        engine: LabProvisioner, host: HostAccess, image: Image, config: ConfigDrive, *, restart: bool = False
    ) -> Result:
        systems[host.name] = first(config.network_data)
        return await provision(engine, host, image, config, restart=restart)

    async def beginning(ironic: StoryIronic, within: float) -> None:
        engines.append(str(ironic.config.address))
        await begin(ironic, within)

    with (
        patch.object(LabProvisioner, "register", registering),
        patch.object(LabProvisioner, "provision", provisioning),
        patch.object(StoryIronic, "start", beginning),
    ):
        lived = live_through(Scenario(0, LAB, ("up", "up"), ()), tmp_path)
    assert lived.wrong == []
    plan = plan_lab(parse(LAB, "lab.yaml"))
    planned = {server.name: str(server.address) for server in plan.servers}
    assert agents == planned == systems
    assert engines[0] == str(plan.bootstrap_address)
    assert engines[1] in {planned[server.name] for server in plan.control_planes}
