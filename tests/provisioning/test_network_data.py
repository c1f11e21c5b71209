"""A host without DHCP: its own addresses reach the deploy ramdisk and the system, or are refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rackless.ports.provisioner import ConfigDrive, HostAccess, Result
from rackless.provisioning.baremetalhost import KIND, secret
from rackless.provisioning.config_drive import config_drive
from rackless.provisioning.network_data import problem
from tests.provisioning.site import Site

DATA: dict[str, Any] = {
    "links": [{"id": "nic0", "type": "phy", "ethernet_mac_address": "02:00:00:00:00:00"}],
    "networks": [
        {"id": "net0", "type": "ipv4", "link": "nic0", "ip_address": "192.0.2.20", "netmask": "255.255.255.0"}
    ],
    "services": [],
}
OTHER = {**DATA, "services": [{"type": "dns", "address": "192.0.2.53"}]}


async def run(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[HostAccess]:
    """How the provisioner was told to reach the host, each time it was registered."""
    seen: list[HostAccess] = []
    register = site.provisioner.register

    async def noting(host: HostAccess, *, restart: bool = False) -> Result:
        seen.append(host)
        return await register(host, restart=restart)

    monkeypatch.setattr(site.provisioner, "register", noting)
    return seen


async def test_the_ramdisk_gets_its_own_addresses_and_the_system_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    seen = await run(site, monkeypatch)
    await site.resources.apply(secret("net", {"networkData": json.dumps(DATA)}))
    await site.add("ctrl-0")
    await site.change("ctrl-0", preprovisioningNetworkDataName="net")
    async with site.controlled():
        await site.until_state("ctrl-0")
    assert seen[-1].network == DATA
    config = site.provisioner.hosts["ctrl-0"].config
    assert config and config.network_data == DATA


async def test_the_system_may_be_told_other_addresses_than_the_ramdisk(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    seen = await run(site, monkeypatch)
    await site.resources.apply(secret("net", {"value": json.dumps(DATA)}))
    await site.resources.apply(secret("own", {"networkData": json.dumps(OTHER)}))
    await site.add("ctrl-0")
    await site.change("ctrl-0", preprovisioningNetworkDataName="net", networkData={"name": "own"})
    async with site.controlled():
        await site.until_state("ctrl-0")
    assert seen[-1].network == DATA
    config = site.provisioner.hosts["ctrl-0"].config
    assert config and config.network_data == OTHER


async def test_a_host_waits_for_the_secret_and_goes_on_when_it_is_there() -> None:
    site = Site()
    await site.add("ctrl-0")
    await site.change("ctrl-0", preprovisioningNetworkDataName="net")
    async with site.controlled():
        await site.clock.run(site.clock.sleep(100))
        host = await site.host("ctrl-0")
        assert host.status.error_message == "secret net with the networkData is not there"
        assert site.work("ctrl-0") == []
        await site.resources.apply(secret("net", {"networkData": json.dumps({**DATA, "links": []})}))
        await site.clock.run(site.clock.sleep(100))
        host = await site.host("ctrl-0")
        assert "the network net0 is on the link nic0, which is not there" in host.status.error_message
        await site.resources.apply(secret("net", {"networkData": json.dumps(DATA)}))
        await site.until_state("ctrl-0")


async def test_addresses_in_nmstate_are_the_ramdisks_and_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    seen = await run(site, monkeypatch)
    nic = {"name": "enp1s0", "type": "ethernet", "mac-address": "02:00:00:00:00:0a"}
    told = {"interfaces": [{**nic, "ipv4": {"enabled": True, "address": [{"ip": "192.0.2.20", "prefix-length": 24}]}}]}
    await site.resources.apply(secret("net", {"nmstate": json.dumps(told)}))
    await site.add("ctrl-0")
    await site.change("ctrl-0", preprovisioningNetworkDataName="net")
    async with site.controlled():
        await site.until_state("ctrl-0")
        drive = await config_drive(site.resources, await site.host("ctrl-0"))
    assert seen[-1].network is not None
    assert seen[-1].network["networks"][0]["ip_address"] == "192.0.2.20"
    assert isinstance(drive, ConfigDrive) and drive.network_data == seen[-1].network
    assert not [event for event in await site.resources.list("Event") if event["reason"] == "NetworkDataNotUsed"]


async def test_a_host_that_boots_over_the_network_has_them_for_its_system_only(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    seen = await run(site, monkeypatch)
    nic = {"name": "enp2s0", "ipv4": {"address": [{"ip": "192.0.2.20", "prefix-length": 24}]}}
    await site.resources.apply(secret("net", {"nmstate": json.dumps({"interfaces": [nic]})}))
    await site.add("ctrl-0")
    bmc = {"address": "redfish://192.0.2.9/redfish/v1/Systems/1", "credentialsName": "bmc"}
    await site.change("ctrl-0", preprovisioningNetworkDataName="net", bmc=bmc)
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.clock.run(site.clock.sleep(1))
        nameless = await config_drive(site.resources, await site.host("ctrl-0"))
        nic["mac-address"] = "02:00:00:00:00:0a"
        await site.resources.apply(secret("net", {"nmstate": json.dumps({"interfaces": [nic]})}))
        drive = await config_drive(site.resources, await site.host("ctrl-0"))
    assert seen[-1].network is None
    assert isinstance(nameless, ConfigDrive) and nameless.network_data is None, "the boot MAC is another NIC's"
    assert isinstance(drive, ConfigDrive) and drive.network_data is not None
    assert [event for event in await site.resources.list("Event") if event["reason"] == "NetworkDataNotUsed"]


async def test_nmstate_that_cannot_be_read_is_left_to_dhcp_and_an_event_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site()
    seen = await run(site, monkeypatch)
    await site.resources.apply(secret("net", {"nmstate": "interfaces: []"}))
    await site.add("ctrl-0")
    await site.change("ctrl-0", preprovisioningNetworkDataName="net")
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.clock.run(site.clock.sleep(1))
    assert seen[-1].network is None
    told = [event for event in await site.resources.list("Event") if event["reason"] == "NetworkDataNotUsed"]
    assert [(event["type"], event["involvedObject"]["kind"]) for event in told] == [("Warning", KIND)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"links": None}, "links is not a list"),
        ({"services": {}}, "services is not a list"),
        ({"links": [{"type": "phy"}]}, "a link without an id"),
        ({"links": [{"id": "nic0", "type": "phy"}]}, "the link nic0 has no ethernet_mac_address"),
        ({"links": [{"id": "nic0", "type": "bond"}]}, "the link nic0 is a bond"),
        ({"networks": [{"id": "n", "type": "ipx", "link": "nic0"}]}, "the type of the network n is none of"),
        ({"networks": ["n"]}, "the network that is no mapping"),
        ({"networks": [{"id": "n", "type": "ipv4", "link": "nic1"}]}, "is on the link nic1, which is not there"),
        ({"networks": [{"id": "n", "type": "ipv4", "link": "nic0", "ip_address": "x"}]}, "is no address"),
        ({"networks": [{"id": "n", "type": "ipv4_dhcp", "link": "nic0"}]}, ""),
    ],
)
def test_what_the_ramdisk_cannot_use_is_told(change: dict[str, Any], why: str) -> None:
    found = problem({**DATA, **change})
    assert why in found and bool(found) == bool(why)
