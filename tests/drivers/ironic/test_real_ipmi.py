"""Real Ironic's `ipmi` hardware type, by ipmitool, at a BMC of ours: power and boot device of a libvirt domain."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from rackless.drivers.clock import SystemClock
from rackless.drivers.ironic.client import Busy, IronicClient
from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.service import IronicService
from rackless.drivers.libvirt.connection import Connection
from rackless.drivers.libvirt.hypervisor import LibvirtHypervisor
from rackless.drivers.process import LocalProcesses
from rackless.events import Bus
from rackless.operations.serve_bmcs import ServeSettings, serve_fleet
from rackless.ports.hypervisor import Power
from tests.bmc.conftest import basic

from .test_real_ironic import config, network, venv

__all__ = ["config", "network", "venv"]

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a network namespace"),
    pytest.mark.skipif(shutil.which("ipmitool") is None, reason="Ironic drives IPMI by ipmitool, which is not here"),
    pytest.mark.asyncio(loop_scope="module"),
]

REDFISH, IPMI = 8000, 6230
NODE = """<node><domain type='test'><name>box</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e0001</uuid>
<memory>524288</memory><vcpu>1</vcpu><os firmware='efi'><type arch='x86_64'>hvm</type><boot dev='hd'/></os></domain></node>"""


@dataclass
class Site:
    client: IronicClient
    hypervisor: LibvirtHypervisor
    node: str

    async def power(self) -> Power:
        state = await self.hypervisor.observe("box")
        assert state is not None
        return state.power

    async def override(self) -> tuple[str, str]:
        """As Redfish shows it."""
        url = f"http://127.0.0.1:{REDFISH}/redfish/v1/Systems/6695eb01-f6a4-8304-79aa-97f2502e0001"
        async with aiohttp.ClientSession() as session:
            async with session.get(url, headers=basic("admin", "s3cret")) as answer:
                boot = (await answer.json())["Boot"]
        return boot["BootSourceOverrideTarget"], boot["BootSourceOverrideEnabled"]

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        return await patiently(lambda: self.client.call(method, f"/v1/nodes/{self.node}{path}", body))


async def patiently(ask: Callable[[], Awaitable[Any]], within: float = 60) -> Any:
    """Now and then Ironic looks at the node's power itself, and lets nobody else at it."""
    async with asyncio.timeout(within):
        while True:
            with suppress(Busy):
                return await ask()
            await asyncio.sleep(0.5)


async def until(what: Callable[[], Awaitable[bool]], within: float = 240) -> None:
    async with asyncio.timeout(within):
        while not await what():  # noqa: ASYNC110 - what we wait for is behind HTTP
            await asyncio.sleep(0.2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(
    venv: Path,
    network: None,
    config: IronicConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("ipmi")
    (folder / "node.xml").write_text(NODE)
    hypervisor = LibvirtHypervisor(Connection(f"test://{folder}/node.xml"))
    settings = ServeSettings("", "admin", "s3cret", folder / "bmc", port=REDFISH, tls=False, ipmi_base_port=IPMI)
    ready = asyncio.Event()
    serving = asyncio.create_task(
        serve_fleet(settings, hypervisor, Bus(), lambda _: None, lambda _: ready.set(), SystemClock())
    )
    service = IronicService(config, venv, LocalProcesses())
    try:
        async with asyncio.timeout(120):
            await ready.wait()
        await service.start()
        async with IronicClient(config.url, config.username, config.password, config.ca) as client:
            access = {"ipmi_address": "127.0.0.1", "ipmi_port": IPMI, "ipmi_username": "admin",
                      "ipmi_password": "s3cret", "ipmi_cipher_suite": "17"}  # fmt: skip
            interfaces = {"boot_interface": "ipxe", "management_interface": "ipmitool", "power_interface": "ipmitool"}
            node = await client.create_node({"name": "box", "driver": "ipmi", "driver_info": access, **interfaces})
            yield Site(client, hypervisor, node["uuid"])
    finally:
        await service.stop()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def test_ironic_manages_a_server_by_ipmi(site: Site) -> None:
    assert (await site.client.validate(site.node))["power"]["result"] is True
    assert (await site.client.validate(site.node))["management"]["result"] is True
    await site.client.provision(site.node, "manage")

    async def manageable() -> bool:
        found = await site.call("GET", "")
        assert found["provision_state"] in ("enroll", "verifying", "manageable"), found["last_error"]
        return bool(found["provision_state"] == "manageable")

    await until(manageable)


@pytest.mark.parametrize(
    ("target", "power"), [("power off", Power.OFF), ("power on", Power.ON), ("rebooting", Power.ON)]
)
async def test_ironic_switches_it_by_ipmi(site: Site, target: str, power: Power) -> None:
    await patiently(lambda: site.client.power(site.node, target))

    async def done() -> bool:
        found = await site.call("GET", "")
        assert not found["last_error"], found["last_error"]
        return found["target_power_state"] is None and found["power_state"] == f"power {power.value}"

    await until(done)
    assert await site.power() is power


@pytest.mark.parametrize(
    ("device", "target", "persistent"), [("pxe", "Pxe", False), ("disk", "Hdd", True), ("cdrom", "Cd", False)]
)
async def test_ironic_sets_and_reads_the_boot_device_by_ipmi(
    site: Site, device: str, target: str, persistent: bool
) -> None:
    await site.call("PUT", "/management/boot_device", {"boot_device": device, "persistent": persistent})
    assert await site.call("GET", "/management/boot_device") == {"boot_device": device, "persistent": persistent}
    assert await site.override() == (target, "Continuous" if persistent else "Once")
    supported = await site.call("GET", "/management/boot_device/supported")
    assert {"pxe", "disk", "cdrom", "bios", "safe"} <= set(supported["supported_boot_devices"])


async def test_ironic_boots_it_once_by_ipmi(site: Site) -> None:
    await site.call("PUT", "/management/boot_device", {"boot_device": "pxe", "persistent": False})
    await patiently(lambda: site.client.power(site.node, "rebooting"))

    async def spent() -> bool:
        return await site.override() == ("None", "Disabled")

    await until(spent)
