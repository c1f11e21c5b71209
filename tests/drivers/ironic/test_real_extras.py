"""Real Ironic at a BMC of ours, whose server is fake: settings of the firmware, an image in the drive, events of the BMC."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from rackless.bmc.core.accounts import Account
from rackless.bmc.fleet import Bmc, Fleet
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.drivers.process import LocalProcesses
from rackless.events import Bus
from rackless.ports.provisioner import BmcLogin, Done, EventReceiver, Failed, HostAccess, Image
from tests.bmc.conftest import server

from .test_real_ironic import ADDRESS, config, files, host, ironic, network, registered, until_not_again, venv

__all__ = ["config", "ironic", "network", "venv"]

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a network namespace"),
    pytest.mark.asyncio(loop_scope="module"),
]
RECEIVED = {"X-Token": "a word"}
BMC = "192.0.2.2"
"""A BMC makes no request to its own address, and Ironic's files are at the other."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def metal(network: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeHypervisor]:
    """A server with its BMC; what is in its drive is seen here."""
    await LocalProcesses().run(["ip", "address", "add", f"{BMC}/24", "dev", "lo"])
    folder, hypervisor = tmp_path_factory.mktemp("bmcs"), FakeHypervisor()
    hypervisor.define([server(0)])
    fleet = Fleet(
        [Bmc("server-0", BMC)],
        hypervisor,
        (Account("admin", "secret"),),
        state=folder / "state",
        media=folder / "media",
        bus=Bus(),
        tls=None,
        port=80,
    )
    await fleet.start()
    try:
        yield hypervisor
    finally:
        await fleet.stop()


async def test_what_stands_beside_a_host_reaches_its_bmc(
    metal: FakeHypervisor, ironic: IronicProvisioner, config: IronicConfig
) -> None:
    bmc = BmcLogin(f"redfish-virtualmedia+http://{BMC}/redfish/v1/Systems/1", "admin", "secret")
    # nobody boots an agent on this server: there is nothing to clean with
    access: HostAccess = replace(host("beside", 30, None), bmc=bmc, clean=False)
    assert isinstance(await registered(ironic, access), Done)

    found = await until_not_again(lambda _: ironic.firmware(access))
    assert isinstance(found, Done)
    turbo = found.detail["ProcTurboMode"]
    assert (turbo["value"], turbo["attribute_type"], turbo["read_only"]) == ("Enabled", "Enumeration", False)
    assert sorted(turbo["allowable_values"]) == ["Disabled", "Enabled"]
    assert found.detail["ProcCoreCount"]["read_only"] is True

    wanted = {"ProcTurboMode": "Disabled"}
    prepared = await until_not_again(lambda restart: ironic.prepare(access, wanted, restart=restart))
    assert prepared == Done(), prepared
    found = await until_not_again(lambda _: ironic.firmware(access))
    assert isinstance(found, Done) and found.detail["ProcTurboMode"]["value"] == "Disabled"
    off = await until_not_again(lambda _: ironic.power(access, False, hard=True))
    assert off == Done({"powered_on": False})

    (config.http_root / "disk.raw").write_bytes(b"a disk")
    (config.http_root / "data.iso").write_bytes(b"an ISO")
    image = Image(f"{config.http_url}/disk.raw", "ab" * 32, "sha256", "raw")
    async with files(config):
        assert await until_not_again(lambda restart: ironic.adopt(access, image, restart=restart)) == Done()
        missing = await until_not_again(lambda _: ironic.media(access, f"{config.http_url}/no.iso"))
        assert isinstance(missing, Failed) and "attach device" in missing.message
        url = f"{config.http_url}/data.iso"
        put = await until_not_again(lambda restart: ironic.media(access, url, restart=restart), restart=True)
        assert put == Done(), put
        state = await metal.observe("server-0")
        assert state and state.media and state.media.read_bytes() == b"an ISO"
        assert await until_not_again(lambda _: ironic.media(access, None)) == Done()
        state = await metal.observe("server-0")
        assert state and state.media is None

    receiver = EventReceiver(f"http://{ADDRESS}:9/events", "lab", RECEIVED)
    made = await until_not_again(lambda _: ironic.subscribe(access, receiver))
    assert isinstance(made, Done) and made.detail["id"], made
    for _ in range(2):
        assert await until_not_again(lambda _: ironic.unsubscribe(access, made.detail["id"])) == Done()
    refused = await until_not_again(
        lambda _: ironic.subscribe(access, EventReceiver(f"ftp://{ADDRESS}/", "", RECEIVED))
    )
    assert isinstance(refused, Failed) and "Destination" in refused.message and "a word" not in refused.message, refused
    assert await until_not_again(lambda _: ironic.delete(access)) == Done()
