from __future__ import annotations

import pytest

from rackless.bmc.core.start_limit import Starts
from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.hypervisor import Boot
from rackless.ports.hypervisor import BootDevice
from tests.bmc.conftest import MakeRack, Rack

SYSTEM = "/redfish/v1/Systems/1"


async def override(rack: Rack, target: str, enabled: str) -> None:
    status, body, _ = await rack.ask(
        "PATCH", SYSTEM, {"Boot": {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled}}
    )
    assert status == 200, body


async def shown(rack: Rack) -> tuple[str, str]:
    boot = (await rack.get(SYSTEM))["Boot"]
    return boot["BootSourceOverrideTarget"], boot["BootSourceOverrideEnabled"]


def devices(rack: Rack) -> list[BootDevice]:
    return [boot.device for boot in rack.hypervisor.boots]


@pytest.mark.parametrize(("kind", "after"), [("On", "On"), ("ForceOn", "On"), ("PushPowerButton", "On")])
async def test_a_server_that_is_off_is_started(rack: Rack, kind: str, after: str) -> None:
    assert await rack.reset(kind) == 204
    assert await rack.power() == after


@pytest.mark.parametrize("kind", ["ForceOff", "GracefulShutdown", "PushPowerButton"])
async def test_a_server_that_is_on_is_stopped(rack: Rack, kind: str) -> None:
    await rack.reset("On")
    assert await rack.reset(kind) == 204

    async def off() -> bool:
        return await rack.power() == "Off"

    await rack.until(off)


async def test_a_restart_without_override_is_the_reset_button(rack: Rack) -> None:
    await rack.reset("On")
    assert await rack.reset("ForceRestart") == 204
    assert rack.hypervisor.boots[-1] == Boot("server-0", BootDevice.DISK, "reset")


@pytest.mark.parametrize("kind", ["ForceRestart", "PowerCycle", "GracefulRestart"])
async def test_a_restart_with_an_override_goes_through_off_and_follows_it(rack: Rack, kind: str) -> None:
    await rack.reset("On")
    await override(rack, "Cd", "Once")
    assert await rack.reset(kind) == 204

    async def booted() -> bool:
        return rack.hypervisor.boots[-1] == Boot("server-0", BootDevice.CDROM, "start")

    await rack.until(booted)

    async def spent() -> bool:
        return await shown(rack) == ("None", "Disabled")

    await rack.until(spent)


async def test_once_is_for_one_start_and_waits_for_it_while_the_server_runs(rack: Rack) -> None:
    await rack.reset("On")
    await override(rack, "Pxe", "Once")
    assert await shown(rack) == ("Pxe", "Once")
    await rack.reset("ForceOff")
    assert await shown(rack) == ("Pxe", "Once")
    await rack.reset("On")
    assert await shown(rack) == ("None", "Disabled")
    await rack.reset("PowerCycle")
    assert devices(rack) == [BootDevice.DISK, BootDevice.NETWORK, BootDevice.DISK]
    assert not rack.hypervisor.called("set_boot_first")


async def test_continuous_lasts_until_it_is_disabled(rack: Rack) -> None:
    await override(rack, "Cd", "Continuous")
    await rack.reset("On")
    await rack.reset("PowerCycle")
    assert await shown(rack) == ("Cd", "Continuous")
    await rack.ask("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideEnabled": "Disabled"}})
    assert await shown(rack) == ("None", "Disabled")
    await rack.reset("PowerCycle")
    assert devices(rack) == [BootDevice.CDROM, BootDevice.CDROM, BootDevice.DISK]


async def test_an_override_also_counts_when_the_guest_restarts_by_itself(rack: Rack) -> None:
    await rack.reset("On")
    await override(rack, "Cd", "Once")
    rack.hypervisor.guest_reboots("server-0")

    async def booted() -> bool:
        return devices(rack)[-1] is BootDevice.CDROM

    await rack.until(booted)
    await rack.until(lambda: _is(shown(rack), ("None", "Disabled")))


async def _is(value: object, wanted: object) -> bool:
    return await value == wanted  # type: ignore[misc, no-any-return]


async def test_a_failed_start_does_not_spend_the_override(rack: Rack) -> None:
    from rackless.errors import LabError

    await override(rack, "Cd", "Once")
    rack.hypervisor.fail_once("power_on", LabError("no memory for it"))
    assert await rack.reset("On") == 500
    assert await shown(rack) == ("Cd", "Once")


async def test_a_guest_that_ignores_the_power_button_stays_on(rack: Rack) -> None:
    rack.hypervisor.deaf.add("server-0")
    await rack.reset("On")
    assert await rack.reset("GracefulShutdown") == 204
    assert await rack.power() == "On"


async def test_an_unknown_reset_type_is_refused_by_name_of_the_allowed_ones(rack: Rack) -> None:
    status, body, _ = await rack.ask("POST", f"{SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": "Banana"})
    assert status == 400
    info = body["error"]["@Message.ExtendedInfo"][0]
    assert info["MessageId"].endswith(".ActionParameterValueNotInList")
    assert "ForceRestart" in info["Resolution"]
    assert rack.hypervisor.boots == []


async def test_an_interrupt_needs_a_running_server(rack: Rack) -> None:
    assert await rack.reset("Nmi") == 409
    await rack.reset("On")
    assert await rack.reset("Nmi") == 204
    assert rack.hypervisor.called("interrupt") == [("interrupt", "server-0")]


async def test_the_other_kind_of_firmware_is_refused(rack: Rack) -> None:
    status, body, _ = await rack.ask("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideMode": "Legacy"}})
    assert status == 400
    assert "UEFI" in body["error"]["@Message.ExtendedInfo"][0]["Resolution"]


async def test_overrides_survive_a_restart_of_the_fleet(make_rack: MakeRack) -> None:
    first = await make_rack()
    await override(first, "Cd", "Once")
    await first.fleet.stop()
    second = await make_rack(hypervisor=first.hypervisor)
    assert await shown(second) == ("Cd", "Once")


@pytest.mark.parametrize(
    ("policy", "expected"), [("AlwaysOff", "Off Off"), ("LastState", "On Off"), ("AlwaysOn", "On On")]
)
async def test_what_a_server_does_when_power_comes_back_is_its_policy(
    make_rack: MakeRack, policy: str, expected: str
) -> None:
    rack = await make_rack(2)
    assert (await rack.get(SYSTEM))["PowerRestorePolicy"] == "LastState"
    for number in range(2):
        assert (await rack.ask("PATCH", SYSTEM, {"PowerRestorePolicy": policy}, number=number))[0] == 200
    await rack.fleet.power_returned(["server-0"])
    assert [await rack.power(number) for number in range(2)] == expected.split()


async def test_when_power_comes_back_servers_start_in_turn(make_rack: MakeRack) -> None:
    rack = await make_rack(3, starts=Starts(2, VirtualClock()))
    await rack.fleet.power_returned(["server-0", "server-1", "server-2"])
    assert [await rack.power(number) for number in range(3)] == ["On", "On", "PoweringOn"]
