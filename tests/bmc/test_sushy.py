"""The library that Ironic drives BMCs with, as a client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from ssl import SSLContext
from typing import Any

import pytest
import sushy
from sushy import auth
from sushy.taskmonitor import TaskMonitor

from rackless.drivers.fake.hypervisor import Boot, FakeHypervisor
from rackless.ports.hypervisor import BootDevice, Firmware, FirmwareChoice
from tests.bmc.conftest import ADMIN, Files, MakeRack, Rack, server

Authority = Callable[[list[str]], tuple[SSLContext, Path]]


@pytest.fixture(params=["http", "https"])
async def rack(request: pytest.FixtureRequest, make_rack: MakeRack, authority: Authority) -> Rack:
    if request.param == "http":
        return await make_rack()
    return await make_rack(tls=authority([f"127.0.{net}.1" for net in range(1, 252)]))


def connect(rack: Rack, how: type[Any]) -> Any:
    verify = str(rack.ca) if rack.ca else False
    return sushy.Sushy(rack.base(), auth=how(ADMIN.username, ADMIN.password), verify=verify)


@pytest.mark.parametrize("how", [auth.BasicAuth, auth.SessionAuth, auth.SessionOrBasicAuth])
async def test_it_drives_power_boot_and_media(rack: Rack, files: Files, how: type[Any]) -> None:
    files.contents["boot.iso"] = b"image"

    def drive() -> None:
        client = connect(rack, how)
        try:
            use(client)
        finally:
            client._auth.close()

    def use(client: Any) -> None:
        system = client.get_system("/redfish/v1/Systems/1")
        assert system.power_state == sushy.PowerState.OFF
        assert system.boot.mode == sushy.BootSourceOverrideMode.UEFI
        assert system.uuid and system.memory_summary.size_gib == 1
        assert set(system.ethernet_interfaces.summary) == {"02:00:00:00:00:00"}
        assert system.processors.summary.count == 2
        assert [one.capacity_bytes for one in system.storage.get_members()[0].drives] == [20 << 30]

        cd = system.virtual_media.get_members()[0]
        assert sushy.VirtualMediaType.CD in cd.media_types
        cd.insert_media(f"{files.url}/boot.iso")
        cd.refresh()
        assert cd.inserted
        system.set_system_boot_options(
            sushy.BootSource.CD,
            enabled=sushy.BootSourceOverrideEnabled.ONCE,
            mode=sushy.BootSourceOverrideMode.UEFI,
        )
        system.refresh()
        assert system.boot.enabled == sushy.BootSourceOverrideEnabled.ONCE
        system.reset_system(sushy.ResetType.ON)
        system.refresh()
        assert system.power_state == sushy.PowerState.ON
        assert system.boot.enabled == sushy.BootSourceOverrideEnabled.DISABLED
        cd.eject_media()
        cd.refresh()
        assert not cd.inserted
        manager = system.managers[0]
        assert [one.identity for one in manager.virtual_media.get_members()] == ["Cd"]
        assert system.chassis[0].identity == "1"
        system.reset_system(sushy.ResetType.FORCE_OFF)
        with pytest.raises(sushy.exceptions.BadRequestError):
            cd.insert_media(f"{files.url}/absent.iso")

    await asyncio.to_thread(drive)
    assert rack.hypervisor.boots == [Boot("server-0", BootDevice.CDROM, "start")]
    assert rack.notes == []


async def test_a_wrong_password_is_an_access_error(rack: Rack) -> None:
    def refused() -> None:
        client = sushy.Sushy(
            rack.base(), auth=auth.BasicAuth("admin", "wrong"), verify=str(rack.ca) if rack.ca else False
        )
        with pytest.raises(sushy.exceptions.AccessError):
            client.get_system("/redfish/v1/Systems/1")

    await asyncio.to_thread(refused)


async def test_it_drives_firmware_settings_sessions_and_tasks(make_rack: MakeRack, files: Files) -> None:
    files.contents["boot.iso"] = b"image"
    kinds = {FirmwareChoice(Firmware.BIOS), FirmwareChoice(Firmware.UEFI), FirmwareChoice(Firmware.UEFI, True)}
    hypervisor = FakeHypervisor()
    hypervisor.define([server(0, offers=frozenset(kinds), setup_screen=True)])
    rack = await make_rack(hypervisor=hypervisor)

    def drive() -> None:
        client = connect(rack, auth.SessionAuth)
        try:
            use(client, client.get_system("/redfish/v1/Systems/1"))
        finally:
            client._auth.close()

    def use(client: Any, system: Any) -> None:
        assert len(client.get_session_service().sessions.get_members()) == 1

        system.secure_boot.set_enabled(True)
        system.secure_boot.refresh()
        assert (system.secure_boot.enabled, system.secure_boot.current_boot) == (
            True, sushy.SecureBootCurrentBoot.DISABLED,
        )  # fmt: skip
        system.reset_system(sushy.ResetType.ON)
        system.secure_boot.refresh()
        assert system.secure_boot.current_boot == sushy.SecureBootCurrentBoot.ENABLED

        system.set_system_boot_options(sushy.BootSource.HDD, mode=sushy.BootSourceOverrideMode.LEGACY)
        system.refresh()
        assert system.boot.mode == sushy.BootSourceOverrideMode.LEGACY
        system.set_system_boot_options(
            sushy.BootSource.BIOS_SETUP, enabled=sushy.BootSourceOverrideEnabled.ONCE,
            mode=sushy.BootSourceOverrideMode.UEFI,
        )  # fmt: skip
        system.refresh()
        assert (system.boot.target, system.boot.mode) == (
            sushy.BootSource.BIOS_SETUP,
            sushy.BootSourceOverrideMode.UEFI,
        )

        system.bios.set_attributes({"NumLock": "Off", "BootMode": "Bios"})
        system.bios.refresh()
        assert system.bios.attributes["NumLock"] == "On"
        assert (system.bios.pending_attributes["NumLock"], system.bios.pending_attributes["BootMode"]) == (
            "Off",
            "Bios",
        )
        system.reset_system(sushy.ResetType.FORCE_RESTART)
        system.bios.refresh()
        assert (system.bios.attributes["NumLock"], system.bios.attributes["BootMode"]) == ("Off", "Bios")

        path = "/redfish/v1/Systems/1/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
        started = client._conn.post(
            path, data={"Image": f"{files.url}/boot.iso"}, headers={"Prefer": "respond-async"}, blocking=False
        )
        monitor = TaskMonitor(client._conn, started.headers["Location"])
        monitor.wait(20)
        assert monitor.response.status_code < 300
        assert system.virtual_media.get_members()[0].inserted

    await asyncio.to_thread(drive)
    assert rack.notes == []
