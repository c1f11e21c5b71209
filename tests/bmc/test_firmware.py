"""What a server starts with: the kind of firmware, secure boot, the set-up screen, removable media."""

from __future__ import annotations

from typing import Any

import pytest

from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.errors import LabError
from rackless.ports.hypervisor import BootDevice, Firmware, FirmwareChoice
from tests.bmc.conftest import MakeRack, Rack, server

SYSTEM = "/redfish/v1/Systems/1"
LEGACY, UEFI = FirmwareChoice(Firmware.BIOS), FirmwareChoice(Firmware.UEFI)
SECURE = FirmwareChoice(Firmware.UEFI, secure_boot=True)


@pytest.fixture
async def rack(make_rack: MakeRack) -> Rack:
    """A server whose firmware can be anything."""
    hypervisor = FakeHypervisor()
    hypervisor.define([server(0, offers=frozenset({LEGACY, UEFI, SECURE}), setup_screen=True)])
    return await make_rack(hypervisor=hypervisor)


async def firmware(rack: Rack) -> FirmwareChoice:
    found = await rack.hypervisor.observe("server-0")
    assert found is not None
    return found.choice


async def boot_is(rack: Rack, **wanted: str) -> bool:
    boot = (await rack.get(SYSTEM))["Boot"]
    return all(boot[f"BootSourceOverride{name}"] == value for name, value in wanted.items())


async def secure_boot(rack: Rack) -> tuple[bool, str]:
    value = await rack.get(f"{SYSTEM}/SecureBoot")
    return value["SecureBootEnable"], value["SecureBootCurrentBoot"]


async def attributes(rack: Rack, which: str = "") -> tuple[str, str]:
    value = (await rack.get(f"{SYSTEM}/Bios{which}"))["Attributes"]
    return value["BootMode"], value["SecureBoot"]


async def test_secure_boot_is_a_wish_until_the_server_starts_again(rack: Rack) -> None:
    await rack.reset("On")
    assert (await rack.ask("PATCH", f"{SYSTEM}/SecureBoot", {"SecureBootEnable": True}))[0] == 200
    assert await secure_boot(rack) == (True, "Disabled")
    assert (await attributes(rack), await attributes(rack, "/Settings")) == (("Uefi", "Disabled"), ("Uefi", "Enabled"))
    assert await firmware(rack) == UEFI
    assert await rack.reset("ForceRestart") == 204
    assert await secure_boot(rack) == (True, "Enabled")
    assert await firmware(rack) == SECURE
    assert [boot.by for boot in rack.hypervisor.boots] == ["start", "start"]  # the reset button would not have done it
    assert await rack.reset("ForceRestart") == 204
    assert rack.hypervisor.boots[-1].by == "reset"


async def test_a_guest_that_restarts_by_itself_gets_what_was_wished(rack: Rack) -> None:
    await rack.reset("On")
    assert (await rack.ask("PATCH", f"{SYSTEM}/SecureBoot", {"SecureBootEnable": True}))[0] == 200
    rack.hypervisor.guest_reboots("server-0")

    async def secure() -> bool:
        return await secure_boot(rack) == (True, "Enabled")

    await rack.until(secure)
    assert await rack.power() == "On"


async def test_the_boot_mode_is_changed_and_takes_secure_boot_with_it(rack: Rack) -> None:
    await rack.ask("PATCH", f"{SYSTEM}/SecureBoot", {"SecureBootEnable": True})
    await rack.reset("On")
    value = await rack.get(SYSTEM)
    assert value["Boot"]["BootSourceOverrideMode@Redfish.AllowableValues"] == ["UEFI", "Legacy"]
    status, _, _ = await rack.ask("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideMode": "Legacy"}})
    assert status == 200
    assert await boot_is(rack, Mode="Legacy")
    assert await secure_boot(rack) == (False, "Enabled")
    await rack.reset("PowerCycle")
    assert await firmware(rack) == LEGACY
    assert await secure_boot(rack) == (False, "Disabled")
    assert "SecureBootMode" not in await rack.get(f"{SYSTEM}/SecureBoot")


async def test_the_bios_attributes_say_the_same(rack: Rack) -> None:
    wish = {"BootMode": "Bios", "NumLock": "Off"}
    assert (await rack.ask("PATCH", f"{SYSTEM}/Bios/Settings", {"Attributes": wish}))[0] == 200
    assert await boot_is(rack, Mode="Legacy")
    await rack.reset("On")
    assert await firmware(rack) == LEGACY
    found = (await rack.get(f"{SYSTEM}/Bios"))["Attributes"]
    assert (found["BootMode"], found["NumLock"], found["ProcCoreCount"]) == ("Bios", "Off", 2)
    for fixed in ({"ProcCoreCount": 4}, {"BootMode": "Coreboot"}):
        assert (await rack.ask("PATCH", f"{SYSTEM}/Bios/Settings", {"Attributes": fixed}))[0] == 400


async def test_a_wish_survives_a_restart_of_the_fleet(rack: Rack, make_rack: MakeRack) -> None:
    await rack.ask("PATCH", f"{SYSTEM}/SecureBoot", {"SecureBootEnable": True})
    await rack.fleet.stop()
    second = await make_rack(hypervisor=rack.hypervisor)
    await second.reset("On")
    assert await firmware(second) == SECURE


async def test_a_wish_taken_back_changes_nothing(rack: Rack) -> None:
    for wish in (True, False):
        await rack.ask("PATCH", f"{SYSTEM}/SecureBoot", {"SecureBootEnable": wish})
    await rack.reset("On")
    assert rack.hypervisor.called("set_firmware") == []


async def test_what_a_server_cannot_be_is_refused(make_rack: MakeRack) -> None:
    rack = await make_rack()  # offers nothing but what it has
    status, body, _ = await rack.ask("PATCH", f"{SYSTEM}/SecureBoot", {"SecureBootEnable": True})
    assert (status, body["error"]["code"].rpartition(".")[2]) == (400, "PropertyValueConflict")
    assert (await rack.ask("PATCH", f"{SYSTEM}/SecureBoot", {"SecureBootEnable": False}))[0] == 200
    for attributes in ({"SecureBoot": "Enabled"}, {"BootMode": "Bios"}):
        assert (await rack.ask("PATCH", f"{SYSTEM}/Bios/Settings", {"Attributes": attributes}))[0] == 400
    status, body, _ = await rack.ask("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideTarget": "BiosSetup"}})
    assert (status, body["error"]["code"].rpartition(".")[2]) == (400, "PropertyValueNotInList")
    assert "BiosSetup" not in (await rack.get(SYSTEM))["Boot"]["BootSourceOverrideTarget@Redfish.AllowableValues"]


async def test_firmware_that_went_missing_is_told_at_the_start(rack: Rack) -> None:
    await rack.ask("PATCH", f"{SYSTEM}/SecureBoot", {"SecureBootEnable": True})
    rack.hypervisor.fail_once("set_firmware", LabError("no such file"))
    assert await rack.reset("On") == 500
    assert await rack.power() == "Off"
    assert await secure_boot(rack) == (True, "Disabled")


@pytest.mark.parametrize(("target", "device"), [("BiosSetup", BootDevice.SETUP), ("Usb", BootDevice.REMOVABLE)])
async def test_the_set_up_screen_and_a_stick_are_booted_once(rack: Rack, target: str, device: BootDevice) -> None:
    wish: dict[str, Any] = {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": "Once"}
    assert (await rack.ask("PATCH", SYSTEM, {"Boot": wish}))[0] == 200
    assert await boot_is(rack, Target=target, Enabled="Once")
    await rack.reset("On")
    assert rack.hypervisor.boots[-1].device is device
    assert await boot_is(rack, Target="None", Enabled="Disabled")
