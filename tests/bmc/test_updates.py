"""Firmware updates and the boot order: what clients may change of a server besides its power."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rackless import __version__
from rackless.bmc.core.updates import version_of
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.ports.hypervisor import BootDevice
from tests.bmc.conftest import Files, MakeRack, Rack, server
from tests.bmc.test_services import SYSTEM, V1

UPDATE = f"{V1}/UpdateService/Actions/UpdateService.SimpleUpdate"
FIRMWARE = f"{V1}/UpdateService/FirmwareInventory"
MANAGER = f"{V1}/Managers/1"


async def update(rack: Rack, url: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """The end of the task: its state, and what it says."""
    status, body, headers = await rack.ask("POST", UPDATE, {"ImageURI": url, **more})
    assert status == 202, body
    async with asyncio.timeout(20):
        while True:
            status, body, _ = await rack.ask("GET", headers["Location"])
            if status != 202:
                break
            await asyncio.sleep(0.01)
    task = await rack.get(f"{V1}/TaskService/Tasks/{headers['Location'].rpartition('/')[2]}")
    return task["TaskState"], task


@pytest.mark.parametrize(
    ("name", "version"),
    [("bios-2.14.3.bin", "2.14.3"), ("X11_1.0a.bin", "1.0"), ("fw.bin", "0.0-abcdef012345"), ("", "0.0-abcdef012345")],
)
def test_an_images_name_says_its_version(name: str, version: str) -> None:
    assert version_of(name, "abcdef0123456789") == version


async def test_what_is_advertised_is_done(rack: Rack, files: Files) -> None:
    files.contents |= {"bios-2.14.3.bin": b"firmware", "bmc-7.0.1.bin": b"firmware"}
    service = await rack.get(f"{V1}/UpdateService")
    assert service["ServiceEnabled"] is True
    assert service["Actions"]["#UpdateService.SimpleUpdate"]["target"] == UPDATE
    assert (await rack.get(SYSTEM))["BiosVersion"] == __version__
    assert (await update(rack, f"{files.url}/bios-2.14.3.bin"))[0] == "Completed"
    assert (await rack.get(SYSTEM))["BiosVersion"] == "2.14.3"
    assert (await rack.get(f"{FIRMWARE}/BIOS"))["Version"] == "2.14.3"
    assert (await rack.get(MANAGER))["FirmwareVersion"] == __version__
    assert (await update(rack, f"{files.url}/bmc-7.0.1.bin"))[0] == "Completed"
    assert (await rack.get(MANAGER))["FirmwareVersion"] == "7.0.1"
    assert not list(rack.media.iterdir()), "the image is not kept"


async def test_the_firmware_of_a_server_that_is_on_counts_from_its_next_start(rack: Rack, files: Files) -> None:
    files.contents["3.1.bin"] = b"firmware"
    await rack.reset("On")
    target = f"{FIRMWARE}/BIOS"
    assert (await update(rack, f"{files.url}/3.1.bin", Targets=[target], TransferProtocol="HTTP"))[0] == "Completed"
    assert (await rack.get(SYSTEM))["BiosVersion"] == __version__
    await rack.reset("PowerCycle")
    assert (await rack.get(SYSTEM))["BiosVersion"] == "3.1"


@pytest.mark.parametrize("target", [MANAGER, f"{FIRMWARE}/BMC", f"{MANAGER}/"])
async def test_a_target_is_firmware_or_what_has_it(rack: Rack, files: Files, target: str) -> None:
    files.contents["3.1.bin"] = b"firmware"
    assert (await update(rack, f"{files.url}/3.1.bin", Targets=[target]))[0] == "Completed"
    assert (await rack.get(MANAGER))["FirmwareVersion"] == "3.1"
    assert (await rack.get(SYSTEM))["BiosVersion"] == __version__


async def test_an_update_that_cannot_be_is_told(rack: Rack, make_rack: MakeRack, files: Files) -> None:
    state, task = await update(rack, f"{files.url}/absent.bin")
    assert state == "Exception"
    assert task["Messages"][0]["MessageId"].endswith("ResourceMissingAtURI")
    assert (await rack.get(SYSTEM))["BiosVersion"] == __version__
    wrong = {"ImageURI": f"{files.url}/x.bin", "Targets": [f"{V1}/Systems/2"]}
    assert (await rack.ask("POST", UPDATE, wrong))[0] == 400


async def test_tasks_are_bounded(rack: Rack, files: Files) -> None:
    files.contents["1.0.bin"] = b"firmware"
    files.open.clear()
    answers = [(await rack.ask("POST", UPDATE, {"ImageURI": f"{files.url}/1.0.bin?{n}"}))[0] for n in range(10)]
    assert answers == [202] * 8 + [503] * 2
    files.open.set()


# the boot order


async def test_the_boot_order_is_the_servers_and_can_be_changed(rack: Rack) -> None:
    system = await rack.get(SYSTEM)
    assert system["Boot"]["BootOrder"] == ["Boot0001", "Boot0002", "Boot0003"]
    options = await rack.get(system["Boot"]["BootOptions"]["@odata.id"])
    aliases = [(await rack.get(one["@odata.id"]))["Alias"] for one in options["Members"]]
    assert aliases == ["Hdd", "Pxe", "Cd"]
    status, body, _ = await rack.ask("PATCH", SYSTEM, {"Boot": {"BootOrder": ["Boot0003", "Boot0001", "Boot0002"]}})
    assert (status, body["Boot"]["BootOrder"]) == (200, ["Boot0003", "Boot0001", "Boot0002"])
    seen = await rack.hypervisor.observe("server-0")
    assert seen is not None and seen.boot_first is BootDevice.CDROM
    await rack.reset("On")
    assert rack.hypervisor.boots[-1].device is BootDevice.CDROM
    default = system["Actions"]["#ComputerSystem.SetDefaultBootOrder"]["target"]
    assert (await rack.ask("POST", default, {}))[0] == 204
    assert (await rack.get(SYSTEM))["Boot"]["BootOrder"][0] == "Boot0001"


@pytest.mark.parametrize(
    "order", [[], ["Boot0009"], ["Boot0001", "Boot0001"], ["Boot0001", "Boot0003", "Boot0002"], "Boot0001", [1], [None]]
)
async def test_an_order_that_cannot_be_had_is_refused_whole(rack: Rack, order: Any) -> None:
    status, _, _ = await rack.ask("PATCH", SYSTEM, {"AssetTag": "x", "Boot": {"BootOrder": order}})
    assert status == 400
    system = await rack.get(SYSTEM)
    assert system["Boot"]["BootOrder"] == ["Boot0001", "Boot0002", "Boot0003"]
    assert system["AssetTag"] == ""


async def test_a_device_that_is_not_there_is_not_in_the_order(make_rack: MakeRack) -> None:
    hypervisor = FakeHypervisor()
    hypervisor.define([server(0, disks=())])
    rack = await make_rack(hypervisor=hypervisor)
    assert (await rack.get(SYSTEM))["Boot"]["BootOrder"] == ["Boot0002", "Boot0003"]
    assert (await rack.ask("GET", f"{SYSTEM}/BootOptions/Boot0001"))[0] == 404


async def test_the_lamp_is_the_chassiss_and_the_systems(rack: Rack) -> None:
    chassis = f"{V1}/Chassis/1"
    for uri, other in ((chassis, SYSTEM), (SYSTEM, chassis)):
        for light, lit in (("Lit", True), ("Off", False), ("Blinking", True)):
            assert (await rack.ask("PATCH", uri, {"IndicatorLED": light}))[0] == 200
            assert (await rack.get(other))["LocationIndicatorActive"] is lit
