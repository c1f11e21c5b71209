"""BMCs as sites have them: several at one address, by port or by path, by plain HTTP, each with its own account."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from rackless.bmc.core.accounts import Account
from rackless.bmc.fleet import Bmc, Fleet
from rackless.bmc.ipmi.sites import Ipmi
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.events import Bus
from tests.bmc.conftest import basic, free_port, server

HERE = "127.0.77.1"
ONE, TWO, THREE = (Account(f"user{n}", f"word-{n}") for n in range(3))


async def _status(client: aiohttp.ClientSession, url: str, account: Account) -> int:
    async with client.get(url, headers=basic(account.username, account.password), ssl=False) as response:
        return response.status


async def test_one_address_has_bmcs_by_path_by_port_and_without_tls(
    tmp_path: Path, authority: Callable[[list[str]], tuple[ssl.SSLContext, Path]]
) -> None:
    hypervisor = FakeHypervisor()
    hypervisor.define(server(number) for number in range(5))
    usual, other, plain, ipmi = (free_port() for _ in range(4))
    wanted = [
        Bmc("server-0", HERE, port=other, system="System.Embedded.1", account=ONE, ipmi=None),
        Bmc("server-1", HERE, port=other, system="node-1", account=TWO, ipmi=None),
        Bmc("server-2", HERE, port=plain, http=True, system="1", account=THREE, ipmi=None),
        Bmc("server-3", HERE, account=ONE, redfish=False, ipmi=ipmi),
        Bmc("server-4", "127.0.77.2", ipmi=None),
    ]
    fleet = Fleet(
        wanted, hypervisor, [Account("admin", "fleet")], state=tmp_path / "state", media=tmp_path / "media", bus=Bus(),
        tls=authority([HERE])[0], port=usual, ipmi=Ipmi(),
    )  # fmt: skip
    await fleet.start()
    try:
        async with aiohttp.ClientSession() as client:
            first = f"https://{HERE}:{other}/redfish/v1/Systems"
            assert await _status(client, f"{first}/System.Embedded.1", ONE) == 200
            assert await _status(client, f"{first}/node-1", TWO) == 200
            assert await _status(client, f"{first}/1", TWO) == 404
            assert await _status(client, f"{first}/node-1", THREE) == 401, "an account of another place"
            assert await _status(client, f"http://{HERE}:{plain}/redfish/v1/Systems/1", THREE) == 200
            assert (
                await _status(client, f"https://127.0.77.2:{usual}/redfish/v1/Systems/1", Account("admin", "fleet"))
                == 200
            )
            with pytest.raises(aiohttp.ClientConnectorError):
                await _status(client, f"https://{HERE}:{usual}/redfish/v1/Systems/1", ONE)
            assert (
                fleet.ipmi is not None and fleet.ipmi.port("server-3") == ipmi and fleet.ipmi.port("server-0") is None
            )
            assert await fleet.ensure(wanted[1:])
            assert await _status(client, f"{first}/System.Embedded.1", TWO) == 404
            assert await _status(client, f"{first}/node-1", TWO) == 200, "who shares the place goes on"
    finally:
        await fleet.stop()
