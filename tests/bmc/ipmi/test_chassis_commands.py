from __future__ import annotations

import asyncio

import pytest

from rackless.bmc.core.state import BootOverride, When
from rackless.errors import LabError
from rackless.ports.hypervisor import BootDevice, Firmware, Power
from tests.bmc.ipmi.conftest import Desk, MakeDesk

STATUS = (0x00, 0x01)
CONTROL = (0x00, 0x02)
SET_BOOT, GET_BOOT = (0x00, 0x08), (0x00, 0x09)


@pytest.mark.parametrize(
    ("action", "on", "call"),
    [
        (0, True, "power_off"),
        (1, False, "power_on"),
        (2, True, "power_on"),
        (3, True, "reset"),
        (4, True, "interrupt"),
        (5, True, "shut_down"),
    ],
)
async def test_each_power_action_reaches_the_server(make_desk: MakeDesk, action: int, on: bool, call: str) -> None:
    desk = await make_desk(power=Power.ON if on else Power.OFF)
    await (await desk.admin()).get(*CONTROL, bytes((action,)))
    assert desk.hypervisor.called(call) == [(call, "server-0")]


@pytest.mark.parametrize("action", [2, 3, 4])
async def test_what_makes_sense_only_when_on_is_refused_when_off(desk: Desk, action: int) -> None:
    assert (await (await desk.admin()).ask(*CONTROL, bytes((action,))))[0] == 0xD5


async def test_an_action_that_does_not_exist_is_refused(desk: Desk) -> None:
    assert (await (await desk.admin()).ask(*CONTROL, b"\x0e"))[0] == 0xCC


async def test_a_server_that_waits_for_its_turn_to_start_is_on(desk: Desk) -> None:
    desk.hypervisor.delays["power_on"] = 30
    client = await desk.admin()
    await client.get(*CONTROL, b"\x01")
    assert (await client.get(*STATUS))[0] & 1 == 1
    assert desk.chassis.server().power is Power.OFF


async def test_an_action_that_fails_says_so(desk: Desk) -> None:
    desk.hypervisor.fail_once("power_on", LabError("no memory left"))
    assert (await (await desk.admin()).ask(*CONTROL, b"\x01"))[0] == 0xFF
    assert any("no memory left" in note for note in desk.notes)


async def test_while_the_hypervisor_is_away_the_bmc_says_busy_not_something_wrong(desk: Desk) -> None:
    client = await desk.admin()
    desk.chassis.lost_sight()
    assert (await client.ask(*STATUS))[0] == 0xC0
    assert (await client.ask(*CONTROL, b"\x01"))[0] == 0xC0


async def test_a_server_that_is_gone_is_not_present(desk: Desk) -> None:
    client = await desk.admin()
    desk.chassis.saw(None)
    assert (await client.ask(*STATUS))[0] == 0xCB


@pytest.mark.parametrize("power", [Power.OFF, Power.ON])
@pytest.mark.parametrize(
    ("selector", "device"), [(0x04, BootDevice.NETWORK), (0x08, BootDevice.DISK), (0x14, BootDevice.CDROM)]
)
async def test_the_boot_device_is_kept_and_read_back(
    make_desk: MakeDesk, selector: int, device: BootDevice, power: Power
) -> None:
    desk = await make_desk(power=power)
    client = await desk.admin()
    for flags, when in ((0xA0, When.ONCE), (0xE0, When.CONTINUOUS)):
        await client.get(*SET_BOOT, bytes((5, flags, selector, 0, 0, 0)))
        assert await client.get(*GET_BOOT, b"\x05\x00\x00") == bytes((1, 5, flags, selector, 0, 0, 0))
        assert desk.chassis.memory.boot == BootOverride(device, when)


async def test_boot_once_counts_once(desk: Desk) -> None:
    client = await desk.admin()
    await client.get(*SET_BOOT, bytes((5, 0xA0, 0x04, 0, 0, 0)))
    await client.get(*CONTROL, b"\x01")
    await client.get(*CONTROL, b"\x02")
    assert [boot.device for boot in desk.hypervisor.boots] == [BootDevice.NETWORK, BootDevice.DISK]
    assert (await client.get(*GET_BOOT, b"\x05\x00\x00"))[2] & 0x80 == 0


async def test_no_override_takes_the_override_away(desk: Desk) -> None:
    client = await desk.admin()
    await client.get(*SET_BOOT, bytes((5, 0xE0, 0x04, 0, 0, 0)))
    await client.get(*SET_BOOT, bytes((5, 0x80, 0x00, 0, 0, 0)))
    assert desk.chassis.memory.boot == BootOverride()


@pytest.mark.parametrize(("selector", "device"), [(0x6, BootDevice.SETUP), (0xF, BootDevice.REMOVABLE)])
async def test_the_set_up_screen_and_removable_media_are_set_and_read_back(
    make_desk: MakeDesk, selector: int, device: BootDevice
) -> None:
    desk = await make_desk(setup_screen=True)
    client = await desk.admin()
    await client.get(*SET_BOOT, bytes((5, 0xA0, selector << 2, 0, 0, 0)))
    assert desk.chassis.memory.boot.device is device
    assert (await client.get(*GET_BOOT, b"\x05\x00\x00"))[2:4] == bytes((0xA0, selector << 2))


@pytest.mark.parametrize("selector", [0x3, 0x4, 0x6, 0xB])
async def test_a_device_the_server_does_not_have_is_refused_not_forgotten(desk: Desk, selector: int) -> None:
    client = await desk.admin()
    assert (await client.ask(*SET_BOOT, bytes((5, 0xA0, selector << 2, 0, 0, 0))))[0] == 0xCC


async def test_efi_is_refused_by_a_server_whose_firmware_is_not(make_desk: MakeDesk) -> None:
    desk = await make_desk(firmware=Firmware.BIOS)
    client = await desk.admin()
    assert (await client.ask(*SET_BOOT, bytes((5, 0xA0, 0x04, 0, 0, 0))))[0] == 0xCC
    await client.get(*SET_BOOT, bytes((5, 0x80, 0x04, 0, 0, 0)))


async def test_the_lamp_goes_out_by_itself(desk: Desk) -> None:
    client = await desk.admin()
    await client.get(0x00, 0x04, b"\x01")
    assert desk.chassis.memory.settings["locate"] is True
    assert (await client.get(*STATUS))[2] & 0x30 == 0x10
    await client.get(0x00, 0x04, b"\x00\x01")
    assert (await client.get(*STATUS))[2] & 0x30 == 0x20
    await desk.controller.identify(0.01)
    async with asyncio.timeout(10):
        while desk.chassis.memory.settings["locate"]:  # noqa: ASYNC110 - it goes out by a timer and a disk
            await asyncio.sleep(0.01)


async def test_the_restore_policy_is_kept(desk: Desk) -> None:
    client = await desk.admin()
    assert await client.get(0x00, 0x06, b"\x02") == b"\x07"
    assert await client.get(0x00, 0x06, b"\x03") == b"\x07"
    assert (await client.get(*STATUS))[0] & 0x60 == 0x40


async def test_why_the_server_started_is_known(desk: Desk) -> None:
    client = await desk.admin()
    assert (await client.get(0x00, 0x07))[0] == 0x00
    await client.get(*CONTROL, b"\x01")
    assert await client.get(0x00, 0x07) == b"\x01\x01"
    assert (await client.get(*STATUS))[1] == 0x10
