"""Servers that nobody has described become unmanaged hosts; a host that is given a BMC goes the way of all hosts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rackless.controllers import discovery
from rackless.controllers.discovery import DISCOVERED, MOST, HostDiscovery, macs_of
from rackless.drivers.fake.provisioner import INVENTORY
from rackless.drivers.fake.resources import MemoryResources
from rackless.errors import LabError
from rackless.events import Note
from rackless.ports.api import ApiUnreachable
from rackless.ports.provisioner import Stranger
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import HARDWARE_DATA, KIND, Operational, State
from rackless.provisioning.hardware import hardware
from tests.provisioning.site import Site

BOOT, OTHER = "02:00:00:00:77:01", "02:00:00:00:77:02"


def stranger(boot: str = BOOT, *others: str, **more: Any) -> Stranger:
    nics = [{"name": f"eth{n}", "mac_address": mac} for n, mac in enumerate((*others, boot))]
    return Stranger(f"node of {boot}", {**INVENTORY, "interfaces": nics, "boot": {"pxe_interface": boot}, **more})


@asynccontextmanager
async def discovering(site: Site) -> AsyncIterator[HostDiscovery]:
    found = HostDiscovery(site.resources, site.provisioner, site.clock, site.bus)
    task = asyncio.create_task(found.run())
    try:
        async with site.controlled():
            yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_server_that_nobody_has_described_becomes_an_unmanaged_host_with_its_inventory() -> None:
    site = Site()
    async with discovering(site):
        site.provisioner.came.append(stranger(BOOT, OTHER))
        await site.clock.run(site.clock.sleep(60))
        host = await site.host("discovered-020000007701")
        assert (host.status.state, host.status.operational) == (State.UNMANAGED, Operational.DISCOVERED)
        assert host.spec.boot_mac == BOOT and not host.spec.managed and host.status.hardware is not None
        assert {nic["mac"] for nic in host.status.hardware["nics"]} == {BOOT, OTHER}
        kept = await site.resources.get(HARDWARE_DATA, host.name)
        assert kept and kept["spec"]["hardware"]["ramMebibytes"] == 2048
        assert kept["metadata"]["ownerReferences"][0]["uid"] == host.uid
    assert not site.provisioner.came and not site.provisioner.started, "nothing was done to it"


async def test_whoever_gives_it_a_bmc_has_a_host() -> None:
    site = Site()
    await site.add()
    async with discovering(site):
        site.provisioner.came.append(stranger())
        await site.clock.run(site.clock.sleep(60))
        address = "redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1"
        await site.change("discovered-020000007701", bmc={"address": address, "credentialsName": "bmc"})
        await site.until_state("discovered-020000007701", state=State.AVAILABLE)


async def test_one_that_is_known_is_none_whichever_nic_it_comes_by() -> None:
    site = Site()
    await site.add("ctrl-0", image=None)  # whose MAC is 02:00:00:00:00:00
    async with discovering(site):
        await site.until_state("ctrl-0", state=State.AVAILABLE)
        site.provisioner.came += [stranger("02:00:00:00:00:00"), stranger(BOOT, "02:00:00:00:00:01"), stranger(OTHER)]
        await site.clock.run(site.clock.sleep(60))
        site.provisioner.came.append(stranger(OTHER))  # it has booted again
        await site.clock.run(site.clock.sleep(60))
    names = [record["metadata"]["name"] for record in await site.resources.list(KIND)]
    assert names == ["ctrl-0", "discovered-020000007702"] and not site.provisioner.came


async def test_a_kill_before_it_is_dismissed_makes_no_second_one() -> None:
    site = Site()
    site.provisioner.came.append(stranger())
    found = HostDiscovery(site.resources, site.provisioner, site.clock, site.bus)
    await found.look()
    site.provisioner.came.append(stranger())
    assert await found.look() == [] and len(await site.resources.list(KIND)) == 1


@pytest.mark.parametrize(
    "inventory",
    [{}, {"interfaces": None}, {"interfaces": "x"}, {"interfaces": [7, {"mac_address": "../../x"}]}, {"boot": [1]}],
)
async def test_what_makes_no_sense_is_dismissed(inventory: dict[str, Any]) -> None:
    site = Site()
    site.provisioner.came.append(Stranger("1", inventory))
    found = HostDiscovery(site.resources, site.provisioner, site.clock, site.bus)
    assert macs_of(site.provisioner.came[0]) == [] and await found.look() == []
    assert not site.provisioner.came


@pytest.mark.parametrize(
    "odd",
    [
        {"cpu": {"flags": 5}},
        {"hostname": "\ud800"},
        {"disks": [{"name": "x" * 300}] * 10_000},
        {"memory": {"total": []}},
    ],
)
async def test_whatever_one_tells_of_itself_the_others_are_taken_in(odd: dict[str, Any]) -> None:
    site = Site()
    async with discovering(site):
        site.provisioner.came += [stranger(OTHER, **odd), stranger()]
        await site.clock.run(site.clock.sleep(60))
        site.provisioner.came.append(stranger("02:00:00:00:77:03"))
        await site.clock.run(site.clock.sleep(60))
    names = [record["metadata"]["name"] for record in await site.resources.list(KIND)]
    assert names == [f"discovered-02000000770{number}" for number in (1, 2, 3)] and not site.provisioner.came


async def test_an_error_that_nobody_expected_is_one_strangers_trouble_and_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def explode(inventory: Any, mac: str = "") -> dict[str, Any]:
        if mac == OTHER:
            raise KeyError("nobody expected this")
        return hardware(inventory, mac)

    monkeypatch.setattr(discovery, "hardware", explode)
    site, notes = Site(), list[Note]()
    site.bus.subscribe(lambda event: notes.append(event) if isinstance(event, Note) else None)
    async with discovering(site):
        site.provisioner.came += [stranger(OTHER), stranger()]
        await site.clock.run(site.clock.sleep(60))
    assert [record["metadata"]["name"] for record in await site.resources.list(KIND)] == ["discovered-020000007701"]
    (told,) = [note for note in notes if note.code == "stranger-refused"]
    assert told.values["mac"] == OTHER and "nobody expected this" in str(told.values["why"])
    assert not site.provisioner.came, "it is not asked about for ever"


async def test_one_whose_record_is_refused_is_tried_again_and_holds_up_nobody() -> None:
    class Picky(MemoryResources):
        refuses = True

        async def create(self, record: Record) -> Record:
            if self.refuses and record["metadata"]["name"].endswith("7702"):
                raise LabError("the API refuses it")
            return await super().create(record)

    resources = Picky()
    site = Site(resources=resources)
    site.provisioner.came += [stranger(OTHER), stranger()]
    found = HostDiscovery(site.resources, site.provisioner, site.clock, site.bus)
    assert await found.look() == ["discovered-020000007701"] and len(site.provisioner.came) == 1
    resources.refuses = False
    assert await found.look() == ["discovered-020000007702"] and not site.provisioner.came


async def test_there_is_an_end_to_how_many_are_taken_in() -> None:
    site = Site()
    site.provisioner.came += [stranger(f"02:00:00:01:{n // 256:02x}:{n % 256:02x}") for n in range(MOST + 5)]
    found = HostDiscovery(site.resources, site.provisioner, site.clock, site.bus)
    assert len(await found.look()) == MOST and not site.provisioner.came
    site.provisioner.came.append(stranger())
    assert await found.look() == []
    first = (await site.resources.list(KIND))[0]
    assert DISCOVERED in first["metadata"]["labels"]
    await site.resources.delete(KIND, first["metadata"]["name"])
    site.provisioner.came.append(stranger())
    assert len(await found.look()) == 1


async def test_an_api_that_is_away_is_asked_again() -> None:
    class Away(MemoryResources):
        left = 2

        async def list(self, kind: str, **more: Any) -> list[Record]:
            self.left -= 1
            if self.left >= 0:
                raise ApiUnreachable("away")
            return await super().list(kind, **more)

    site = Site(resources=Away())
    site.provisioner.came.append(stranger())
    found = HostDiscovery(site.resources, site.provisioner, site.clock, site.bus)
    task = asyncio.create_task(found.run())
    await site.clock.run(site.clock.sleep(60))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not site.provisioner.came
