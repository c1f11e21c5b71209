"""A lab whose servers boot over a managed provisioning network, on fakes: who answers there, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackless.errors import RacklessError
from rackless.lab.network_boot import PLACES
from rackless.spec.load import parse
from tests.simulation.person import Person
from tests.simulation.test_plan_and_effects import compare, kill_holder

LAB = "name: lab\nservers: {new: {bmc: redfish}, old: {bmc: ipmi, firmware: bios}}"


@pytest.fixture
def site(person: Person) -> Person:
    person.spec = parse(LAB, "lab.yaml")
    return person


def test_hosts_are_provisioned_over_a_network_that_answers_while_the_engine_runs(site: Person) -> None:
    async def story() -> None:
        processes = site.world.processes
        assert "network/provisioning" in await compare(site, "bmc")
        assert processes.named("dnsmasq") == [], "until then an installer may bring its own"
        assert "stage/engine" in await compare(site, "engine")
        (answering,) = processes.named("dnsmasq")
        configuration = Path(answering.argv[-1].partition("=")[2]).read_text()
        assert "interface=provisioning" in configuration and "enable-tftp" in configuration
        assert "boot.ipxe" in configuration and configuration.count("dhcp-host=") == 2
        await site.up()
        assert set(site.lab.running()) == {"new-0", "old-0"}
        assert [server["host"] for server in (await site.status())["servers"]] == ["provisioned"] * 2
        rules = [inside for (space, _), inside in site.world.firewall.tables.items() if space == str(site.paths.netns)]
        assert any('iifname "provisioning"' in inside for inside in rules), "nothing is forwarded out of it"
        await site.down()
        assert processes.named("dnsmasq") == []
        await site.up()
        assert len(processes.named("dnsmasq")) == 1
        await site.destroy()
        assert not site.roots.state.exists() and processes.named("dnsmasq") == []

    site.live(story)


def test_after_a_kill_one_answers_again_and_not_two(site: Person) -> None:
    async def story() -> None:
        await site.up("engine")
        await kill_holder(site)
        await site.world.drivers().clock.sleep(40)
        await site.up("engine")
        assert len(site.world.processes.named("dnsmasq")) == 1

    site.live(story)


def test_a_computer_without_ipxe_is_told_what_to_do(site: Person) -> None:
    for place in PLACES:
        site.world.computer.absent |= {place.folder / place.uefi}

    async def story() -> None:
        with pytest.raises(RacklessError) as refused:
            await site.up("engine")
        assert "iPXE is not installed" in str(refused.value)

    site.live(story)
