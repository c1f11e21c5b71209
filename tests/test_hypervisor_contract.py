"""What every hypervisor does, be it libvirt with QEMU or a fake."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.ports.hypervisor import (
    BootDevice,
    Disk,
    Firmware,
    Hypervisor,
    NoSuchServer,
    Power,
    Server,
    ServerChange,
    ServerEvent,
)

Story = Callable[[Hypervisor, Server], Coroutine[Any, Any, None]]
Told = Callable[[Story], None]


def a_server(folder: Path) -> Server:
    disk = Disk(folder / "box.qcow2", 1 << 20, "disk-0")
    return Server("box", UUID(int=7), 64, 1, Firmware.BIOS, (disk,), (), folder / "box.nvram", folder / "box.log")


@pytest.fixture(params=[pytest.param("libvirt", marks=pytest.mark.real), "fake"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Told:
    def tell(story: Story) -> None:
        server = a_server(tmp_path)
        if request.param == "fake":
            asyncio.run(story(FakeHypervisor(), server))
            return
        if shutil.which("libvirtd") is None:
            pytest.skip("libvirtd is not installed")
        from rackless.drivers.libvirt.connection import Connection
        from rackless.drivers.libvirt.hypervisor import LibvirtHypervisor
        from rackless.drivers.libvirt.metal import platform
        from rackless.drivers.process import LocalProcesses
        from tests.real.private_libvirtd import private_libvirtd

        async def whole(uri: str) -> None:
            await LocalProcesses().run(["qemu-img", "create", "-q", "-f", "qcow2", server.disks[0].path, "1M"])
            connection = Connection(uri)
            try:
                await story(LibvirtHypervisor(connection, platform(kvm=False)), server)
            finally:
                await connection.close()

        with private_libvirtd(tmp_path / "libvirtd") as libvirtd:
            asyncio.run(whole(libvirtd.uri("qemu:///system")))

    return tell


def test_a_server_is_defined_once_and_defined_anew_when_it_is_described_otherwise(told: Told) -> None:
    async def story(hypervisor: Hypervisor, server: Server) -> None:
        assert await hypervisor.observe("box") is None and await hypervisor.servers() == []
        assert await hypervisor.differs(server) and await hypervisor.ensure(server)
        assert not await hypervisor.differs(server) and not await hypervisor.ensure(server)
        state = await hypervisor.observe("box")
        assert state is not None and (await hypervisor.servers()) == [state]
        assert (state.uuid, state.power, state.memory_mib, state.vcpus) == (server.uuid, Power.OFF, 64, 1)
        assert (state.firmware, state.media, state.boot_first) == (Firmware.BIOS, None, BootDevice.DISK)
        assert [disk.path for disk in state.disks] == [server.disks[0].path]
        larger = replace(server, memory_mib=96)
        assert await hypervisor.differs(larger) and await hypervisor.ensure(larger)
        found = await hypervisor.observe("box")
        assert found is not None and found.memory_mib == 96
        await hypervisor.retire("box")
        await hypervisor.retire("box")
        assert await hypervisor.observe("box") is None

    told(story)


def test_what_is_so_already_is_no_error_and_a_server_that_is_not_there_is_one(told: Told) -> None:
    async def story(hypervisor: Hypervisor, server: Server) -> None:
        for act in (hypervisor.power_on, hypervisor.power_off, hypervisor.reset, hypervisor.shut_down,
                    hypervisor.eject_media, hypervisor.interrupt):  # fmt: skip
            with pytest.raises(NoSuchServer):
                await act("box")
        await hypervisor.ensure(server)
        await hypervisor.power_off("box")
        await hypervisor.reset("box")
        await hypervisor.shut_down("box")
        await hypervisor.eject_media("box")
        assert await hypervisor.processor_seconds("box") == 0.0
        for _ in range(2):
            await hypervisor.power_on("box")
            state = await hypervisor.observe("box")
            assert state is not None and state.power is Power.ON
        await hypervisor.reset("box")
        await hypervisor.retire("box")
        assert await hypervisor.observe("box") is None, "it was switched off first"

    told(story)


def test_what_is_changed_of_a_definition_outlives_a_start(told: Told) -> None:
    async def story(hypervisor: Hypervisor, server: Server) -> None:
        image = server.disks[0].path.with_suffix(".iso")
        image.write_bytes(bytes(1 << 16))
        await hypervisor.ensure(server)
        await hypervisor.insert_media("box", image)
        await hypervisor.set_boot_first("box", BootDevice.CDROM)
        await hypervisor.power_on("box", boot=BootDevice.DISK)
        state = await hypervisor.observe("box")
        assert state is not None and (state.media, state.boot_first) == (image, BootDevice.CDROM)
        await hypervisor.eject_media("box")
        await hypervisor.power_off("box")
        state = await hypervisor.observe("box")
        assert state is not None and (state.media, state.boot_first) == (None, BootDevice.CDROM)
        assert not await hypervisor.differs(server), "which is no other hardware"

    told(story)


def test_every_change_is_told_to_whoever_listens(told: Told) -> None:
    async def story(hypervisor: Hypervisor, server: Server) -> None:
        heard: asyncio.Queue[ServerEvent] = asyncio.Queue()

        async def listen() -> None:
            async for event in hypervisor.events():
                heard.put_nowait(event)

        listening = asyncio.create_task(listen())
        await hypervisor.servers()
        await asyncio.sleep(0.2)
        wanted = []
        for act, change in (
            (lambda: hypervisor.ensure(server), ServerChange.DEFINED),
            (lambda: hypervisor.power_on("box"), ServerChange.POWERED_ON),
            (lambda: hypervisor.power_off("box"), ServerChange.POWERED_OFF),
            (lambda: hypervisor.retire("box"), ServerChange.UNDEFINED),
        ):
            await act()
            wanted.append(change)
        seen = []
        async with asyncio.timeout(30):
            while ServerChange.UNDEFINED not in seen:
                seen.append((await heard.get()).change)
        assert list(dict.fromkeys(seen)) == wanted
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening

    told(story)
