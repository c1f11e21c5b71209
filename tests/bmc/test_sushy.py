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

from rackless.drivers.fake.hypervisor import Boot
from rackless.ports.hypervisor import BootDevice
from tests.bmc.conftest import ADMIN, Files, MakeRack, Rack

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
