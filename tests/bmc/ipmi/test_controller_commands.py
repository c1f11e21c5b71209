from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from ipaddress import IPv4Address

import pytest

from rackless.bmc.core.power import StartCause
from rackless.bmc.ipmi import sdr
from rackless.bmc.ipmi.sdr import Analog
from rackless.errors import LabError
from rackless.ports.hypervisor import Power
from tests.bmc.ipmi.conftest import Desk, MakeDesk


async def test_the_device_id_has_the_length_strict_clients_want(desk: Desk) -> None:
    assert len(await (await desk.admin()).get(0x06, 0x01)) == 15


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - by a timer
            await asyncio.sleep(0.01)


async def test_the_guid_is_the_servers_uuid_least_byte_first(desk: Desk) -> None:
    guid = await (await desk.admin()).get(0x06, 0x37)
    assert guid[::-1] == desk.chassis.server().uuid.bytes


async def test_a_cold_reset_ends_the_sessions_and_leaves_the_server(make_desk: MakeDesk) -> None:
    desk = await make_desk(power=Power.ON)
    client = await desk.admin()
    await client.get(0x06, 0x02)
    await eventually(lambda: not desk.port.endpoint.sessions)
    assert desk.chassis.server().power is Power.ON


async def test_lan_parameters_tell_the_address_and_do_not_let_it_change(desk: Desk) -> None:
    client = await desk.admin()
    assert (await client.get(0x0C, 0x02, b"\x01\x03\x00\x00"))[1:] == IPv4Address(desk.chassis.address).packed
    assert (await client.ask(0x0C, 0x01, b"\x01\x03\x0a\x00\x00\x01"))[0] == 0x82
    assert (await client.ask(0x0C, 0x02, b"\x01\xc0\x00\x00"))[0] == 0x80
    assert (await client.ask(0x0C, 0x02, b"\x02\x03\x00\x00"))[0] == 0xCC


async def test_the_group_key_is_set_by_an_administrator(desk: Desk) -> None:
    client = await desk.admin()
    await client.get(0x06, 0x56, b"\x01\x01\x01" + b"k" * 20)
    assert (await client.get(0x06, 0x38, b"\x8e\x04"))[2] & 0x20
    await desk.client().login(group_key=b"k" * 20)


@pytest.mark.parametrize("power", [Power.ON, Power.OFF])
async def test_every_sensor_has_a_record_and_a_reading(make_desk: MakeDesk, power: Power) -> None:
    client = await (await make_desk(power=power)).admin()
    id, numbers = 0, []
    while id != 0xFFFF:
        answer = await client.get(0x0A, 0x23, struct.pack("<HHBB", 0, id, 0, 0xFF))
        id, record = struct.unpack("<H", answer[:2])[0], answer[2:]
        assert record[4] == len(record) - 5
        if record[3] in (1, 2):
            numbers.append(record[7])
    assert numbers == list(sdr.BY_NUMBER)
    for number, sensor in sdr.BY_NUMBER.items():
        reading = await client.get(0x04, 0x2D, bytes((number,)))
        if isinstance(sensor, Analog):
            assert not reading[2] & 0x3F, f"{sensor.name} has an alarm"
    fan = await client.get(0x04, 0x2D, b"\x10")
    assert (fan[0] * 40, fan[1] & 0x20) == ((5200, 0) if power is Power.ON else (0, 0x20))


async def test_the_event_log_tells_what_happened_to_the_server(desk: Desk) -> None:
    client = await desk.admin()
    assert (await client.ask(0x0A, 0x43, bytes(5) + b"\xff"))[0] == 0xCB
    await client.get(0x00, 0x02, b"\x01")
    await client.get(0x00, 0x02, b"\x00")
    first = await client.get(0x0A, 0x43, struct.pack("<HHBB", 0, 0, 0, 0xFF))
    assert first[:2] == b"\x02\x00"
    assert first[2 + 10 : 2 + 14] == bytes((sdr.ACPI, 0x30, 0x6F, 0))
    last = await client.get(0x0A, 0x43, struct.pack("<HHBB", 0, 0xFFFF, 0, 0xFF))
    assert last[:2] == b"\xff\xff"
    assert last[2 + 10 : 2 + 14] == bytes((sdr.ACPI, 0x30, 0x6F, 5))


async def test_restarts_and_power_commands_that_fail_are_events_too(make_desk: MakeDesk) -> None:
    desk = await make_desk(power=Power.ON)
    client = await desk.admin()
    await client.get(0x00, 0x02, b"\x03")
    desk.hypervisor.fail_once("power_off", LabError("stuck"))
    assert (await client.ask(0x00, 0x02, b"\x00"))[0] == 0xFF
    events = [record[10:14] for record in desk.controller.sel.records().values()]
    assert events == [bytes((0x1D, 0, 0x6F, 7)), bytes((0x09, 0, 0x6F, 5))]
    assert [entry.warning for entry in desk.chassis.log.entries()] == [False, True]


async def test_there_is_one_log_for_ipmi_and_redfish(desk: Desk) -> None:
    client = await desk.admin()
    record = bytes(2) + b"\x02" + bytes(4) + bytes.fromhex("4100 04 01 30 01 59 00 00")
    id = struct.unpack("<H", await client.get(0x0A, 0x44, record))[0]
    assert [entry.number for entry in desk.chassis.log.entries()] == [id]
    reservation = await client.get(0x0A, 0x42)
    assert (await client.ask(0x0A, 0x47, b"\x00\x00CLR\xaa"))[0] == 0xC5
    assert await client.get(0x0A, 0x47, reservation + b"CLR\xaa") == b"\x01"
    assert desk.chassis.log.entries() == []


async def test_one_event_can_be_taken_away(desk: Desk) -> None:
    client = await desk.admin()
    for _ in range(3):
        await client.get(0x04, 0x02, bytes.fromhex("04 01 30 01 59 00 00"))
    assert await client.get(0x0A, 0x46, b"\x00\x00\x02\x00") == b"\x02\x00"
    assert [entry.number for entry in desk.chassis.log.entries()] == [1, 3]
    assert (await client.get(0x0A, 0x40))[1] == 2


async def test_the_clock_of_the_event_log_can_be_set(desk: Desk) -> None:
    client = await desk.admin()
    await client.get(0x0A, 0x49, struct.pack("<I", 86400))
    assert 86400 <= struct.unpack("<I", await client.get(0x0A, 0x48))[0] < 86410


async def test_the_inventory_names_the_server_and_its_areas_add_up(desk: Desk) -> None:
    client = await desk.admin()
    size = struct.unpack("<H", (await client.get(0x0A, 0x10, b"\x00"))[:2])[0]
    content = b""
    while len(content) < size:
        piece = await client.get(0x0A, 0x11, struct.pack("<BHB", 0, len(content), 64))
        content += piece[1:]
    assert str(desk.chassis.server().uuid).encode() in content
    assert sum(content[:8]) & 0xFF == 0
    for area in content[2:5]:
        start = area * 8
        assert sum(content[start : start + content[start + 1] * 8]) & 0xFF == 0
    assert (await client.ask(0x0A, 0x10, b"\x01"))[0] == 0xCB


async def test_dcmi_reads_the_power_of_the_model(make_desk: MakeDesk) -> None:
    readings = []
    for power in (Power.OFF, Power.ON):
        client = await (await make_desk(power=power)).admin()
        answer = await client.get(0x2C, 0x02, b"\xdc\x01\x00\x00")
        readings.append(struct.unpack_from("<H", answer, 1)[0])
    assert readings == [8, 56]


async def test_the_asset_tag_is_the_one_redfish_shows(desk: Desk) -> None:
    client = await desk.admin()
    await client.get(0x2C, 0x08, b"\xdc\x00\x05rack7")
    assert desk.chassis.memory.settings["asset_tag"] == "rack7"
    assert await client.get(0x2C, 0x06, b"\xdc\x00\x10") == b"\xdc\x05rack7"


async def test_another_group_than_dcmi_is_not_ours(desk: Desk) -> None:
    assert (await (await desk.admin()).ask(0x2C, 0x00, b"\x00"))[0] == 0xC1
    assert (await (await desk.admin()).ask(0x2C, 0x01, b"\x03\x01"))[0] == 0xC1


async def test_a_watchdog_that_is_not_wound_resets_the_server(make_desk: MakeDesk) -> None:
    desk = await make_desk(power=Power.ON)
    client = await desk.admin()
    assert (await client.ask(0x06, 0x22))[0] == 0x80
    await client.get(0x06, 0x24, struct.pack("<BBBBH", 4, 1, 0, 0x3E, 10))
    await client.get(0x06, 0x22)
    assert (await client.get(0x06, 0x25))[0] == 0x44
    await eventually(lambda: desk.chassis.cause is StartCause.WATCHDOG)
    assert desk.hypervisor.called("reset") == [("reset", "server-0")]
    state = await client.get(0x06, 0x25)
    assert (state[0], state[3]) == (0x04, 0x10)
    first = await client.get(0x0A, 0x43, struct.pack("<HHBB", 0, 0, 0, 0xFF))
    assert first[2 + 10 : 2 + 14] == bytes((sdr.WATCHDOG, 0x32, 0x6F, 1))


async def test_a_watchdog_that_is_wound_lets_the_server_live(make_desk: MakeDesk) -> None:
    desk = await make_desk(power=Power.ON)
    client = await desk.admin()
    await client.get(0x06, 0x24, struct.pack("<BBBBH", 4, 2, 0, 0, 10))
    for _ in range(4):
        await client.get(0x06, 0x22)
        await asyncio.sleep(0.3)
    assert not desk.hypervisor.called("power_off")


async def test_hours_of_power_are_counted_over_lives_of_the_bmc(make_desk: MakeDesk) -> None:
    desk = await make_desk()
    client = await desk.admin()
    await client.get(0x00, 0x02, b"\x01")
    desk.clock.seconds += 50 * 60
    await client.get(0x00, 0x02, b"\x00")
    desk.clock.seconds += 50 * 60
    assert await client.get(0x00, 0x0F) == struct.pack("<BI", 1, 50)
    await desk.port.controller._save_on_time()
    again = await make_desk(power=Power.ON)
    again.clock.seconds += 10 * 60
    assert await (await again.admin()).get(0x00, 0x0F) == struct.pack("<BI", 1, 60)


async def test_who_is_here_can_be_asked(desk: Desk) -> None:
    client = await desk.admin()
    await desk.client(console=5, privilege=2, peer=("192.0.2.77", 555)).login("viewer", "v1ewer")
    second = await client.get(0x06, 0x3D, b"\x02")
    assert second[:6] == bytes((2, 32, 2, 4, 2, 0x11))
    assert second[6:10] == IPv4Address("192.0.2.77").packed
    assert await client.get(0x06, 0x3D, b"\x03") == bytes((0, 32, 2))
    await client.get(0x06, 0x3C, bytes(4) + b"\x02")
    assert await client.get(0x06, 0x3D, b"\x02") == bytes((0, 32, 1))


async def test_a_command_that_does_not_exist_is_said_to_be_so(desk: Desk) -> None:
    client = await desk.admin()
    assert await client.ask(0x30, 0x01) == (0xC1, b"")
    assert await client.ask(0x06, 0x3B, b"") == (0xC7, b"")
