"""Faults planted before the real Ironic: BMCs that it cannot use or that fail, an agent whose token is not its own; and its words
for them.

`python -m tests.real.planting_ironic FOLDER` records it; `tests/diagnosis/data` is what it wrote. Ironic is the one of the
computer's cache, in a network namespace of its own; the BMCs are ours, before a server that is fake, or a stand-in.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from ipaddress import IPv4Address
from pathlib import Path

import aiohttp
from aiohttp import web

from rackless.bmc.core.accounts import Account
from rackless.bmc.core.faults import BmcFault, Trouble
from rackless.bmc.core.media import Limits
from rackless.bmc.fleet import Bmc, Fleet
from rackless.diagnosis.evidence import BootChain
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.drivers.ironic.client import IronicClient
from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.environment import ensure_environment
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.drivers.ironic.service import IronicService
from rackless.drivers.process import LocalProcesses
from rackless.events import Bus
from rackless.ports.provisioner import Again, BmcLogin, Failed, HostAccess, Result
from rackless.run.paths import Roots
from tests.bmc.conftest import basic, server
from tests.drivers.ironic.certificates import write_certificates
from tests.drivers.ironic.redfish_standin import StandIn

ROOT = Path(__file__).parents[2]
IRONIC, BMC, LOCKED, AGENT = "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.20"
EMPTY, SILENT, AWAY = "192.0.2.4", "192.0.2.5", "198.51.100.2"
"""Where nobody listens, where a filter drops what arrives, and where no way leads."""
FAILING = {"192.0.2.6": Trouble.REFUSE, "192.0.2.7": Trouble.FAILING_MEDIA, "192.0.2.8": Trouble.STUCK_POWER}
"""BMCs with a fault of their own."""
REGISTERING = {
    "bmc-login": f"http://{BMC}", "bmc-refused": f"http://{EMPTY}", "bmc-no-route": f"http://{AWAY}",
    "bmc-silent": f"http://{SILENT}", "bmc-ipmi": EMPTY, "bmc-error": "http://192.0.2.6",
}  # fmt: skip
"""By the rule that is to find it: what cannot be registered."""
INSPECTING = {"media-refused": "http://192.0.2.7", "power": "http://192.0.2.8"}
"""What can be, and cannot be inspected."""
_WITHIN = 900.0
"""Seconds; Ironic's library asks a BMC that is silent ten times, for half a minute each."""
_STALL_SECONDS = 3.0
"""How long these BMCs wait for the next piece of an image; a real one waits longer, and no other way."""


async def _settled(step: Callable[[], Awaitable[Result]]) -> Result:
    async with asyncio.timeout(_WITHIN):
        while isinstance(result := await step(), Again):  # noqa: ASYNC110 - Ironic is asked, as the controller does
            await asyncio.sleep(result.after)
    return result


def _host(name: str, number: int, address: str, ca: Path | None = None, password: str = "secret") -> HostAccess:
    redfish = f"redfish-virtualmedia+{address}/redfish/v1/Systems/1"
    login = BmcLogin(redfish if "://" in address else f"ipmi://{address}", "admin", password, ca)
    uuid = f"00000000-0000-4000-8000-{number:012d}"
    return HostAccess(name, uuid, login, f"02:00:00:00:01:{number:02x}", clean=False)


def make_config(folder: Path) -> IronicConfig:
    ca, certificate, key = write_certificates(folder, IRONIC)
    boot = folder / "boot"
    boot.mkdir()
    for name, size in (("kernel", 8), ("ramdisk", 40), ("esp.img", 2)):
        (boot / name).write_bytes(os.urandom(1000) * (size * 1000))
    return IronicConfig(
        state=folder / "state", address=IPv4Address(IRONIC), certificate=certificate, key=key, ca=ca, username="rackless",
        password="a password", http_url=f"http://{IRONIC}:8080", http_root=folder / "http", kernel=boot / "kernel",
        ramdisk=boot / "ramdisk", esp=boot / "esp.img",
    )  # fmt: skip


@asynccontextmanager
async def _bmc(folder: Path) -> AsyncIterator[Fleet]:
    """Ours; Ironic goes on with a session that it has, so that an account is locked where it has none."""
    hypervisor = FakeHypervisor()
    addresses = (BMC, LOCKED, *FAILING)
    hypervisor.define([server(number) for number in range(len(addresses))])
    bmcs = [Bmc(f"server-{number}", address) for number, address in enumerate(addresses)]
    fleet = Fleet(
        bmcs, hypervisor, (Account("admin", "secret"),), state=folder / "bmc",
        media=folder / "media", bus=Bus(), tls=None, port=80, media_limits=Limits(stall_seconds=_STALL_SECONDS),
    )  # fmt: skip
    await fleet.start()
    for bmc in bmcs[2:]:
        fleet.faults.add(BmcFault(FAILING[str(bmc.address)], bmc.server))
    try:
        yield fleet
    finally:
        await fleet.stop()


@asynccontextmanager
async def _files(root: Path, *, slow: bool) -> AsyncIterator[None]:
    """A server of images; a slow one begins to answer, and then has nothing for longer than a BMC waits."""

    async def answer(request: web.Request) -> web.StreamResponse:
        file = root / request.path.lstrip("/")
        if not slow:
            return web.FileResponse(file)
        response = web.StreamResponse()
        response.content_length = file.stat().st_size
        await response.prepare(request)
        await response.write(file.read_bytes()[:1000])
        await asyncio.sleep(4 * _STALL_SECONDS)
        return response

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, IRONIC, 8080).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def _lock(session: aiohttp.ClientSession) -> None:
    url = f"http://{LOCKED}/redfish/v1/AccountService"
    asked = {"AccountLockoutThreshold": 2, "AccountLockoutDuration": 0}
    async with session.patch(url, json=asked, headers=basic("admin", "secret")) as answer:
        assert answer.status < HTTPStatus.BAD_REQUEST, await answer.text()
    for _ in range(2):
        async with session.get(url, headers=basic("admin", "guess")) as answer:
            assert answer.status == HTTPStatus.UNAUTHORIZED


async def _record(folder: Path, scratch: Path, venv: Path) -> None:
    config = make_config(scratch)
    service = IronicService(config, venv, LocalProcesses())
    await service.start()
    try:
        async with (
            IronicProvisioner(config.url, config.username, config.password, config.ca) as ironic,
            _bmc(scratch) as fleet,
            aiohttp.ClientSession() as session,
        ):

            def keep(name: str, result: Result, *more: str) -> None:
                """As the host's controller writes it into the record."""
                assert isinstance(result, Failed), result
                (folder / f"error-{name}.txt").write_text("\n".join((result.message, *more)) + "\n")

            async with (
                _files(config.http_root, slow=False),
                IronicProvisioner(
                    config.url, config.username, config.password, config.ca, network_boot=True
                ) as by_network,
            ):
                await asyncio.gather(*(
                    _fail(by_network if name == "bmc-ipmi" else ironic, keep, name, number, address)
                    for number, (name, address) in enumerate((REGISTERING | INSPECTING).items(), 11)
                ))  # fmt: skip
            ours = _host("ours", 1, f"http://{BMC}")
            async with _files(config.http_root, slow=True):
                assert not isinstance(await _settled(lambda: ironic.register(ours)), Failed)
                keep("media-slow", await _settled(lambda: ironic.inspect(ours)))

            other = scratch / "other"
            other.mkdir()
            _, certificate, key = write_certificates(other, IRONIC)
            async with StandIn().serving(IRONIC, 8443, certificate, key):
                stranger = _host("stranger", 2, f"https://{IRONIC}:8443", config.ca)
                keep("bmc-certificate", await _settled(lambda: ironic.register(stranger)))

            bmc = StandIn()
            async with bmc.serving(IRONIC, 8444, config.certificate, config.key):
                booted = _host("booted", 3, f"https://{IRONIC}:8444", config.ca)
                assert not isinstance(await _settled(lambda: ironic.register(booted)), Failed)
                async with asyncio.timeout(_WITHIN):
                    while bmc.power != "On":
                        assert isinstance(await ironic.inspect(booted), Again)
                        await asyncio.sleep(0.2)
                await _heartbeat(config, await _node(config, "booted"))
                lines = (config.state / "ironic.log").read_text().splitlines()
                kept = [line for line in lines if "/v1/heartbeat/" in line and AGENT in line]
                (folder / "ironic-token.log").write_text("".join(f"{line}\n" for line in kept))

            await _lock(session)
            locked = _host("locked", 4, f"http://{LOCKED}")
            seen = await _settled(lambda: ironic.register(locked))
            chain = BootChain("off", None, None, [], [], locked=fleet.is_locked("server-1", "admin"))
            keep("bmc-locked", seen, chain.describe())
    finally:
        await service.stop()


async def _fail(
    ironic: IronicProvisioner, keep: Callable[[str, Result], None], name: str, number: int, address: str
) -> None:
    host = _host(name, number, address, password="wrong" if name == "bmc-login" else "secret")
    seen = await _settled(lambda: ironic.register(host))
    if name in INSPECTING:
        assert not isinstance(seen, Failed), seen
        seen = await _settled(lambda: ironic.inspect(host))
    keep(name, seen)


async def _node(config: IronicConfig, name: str) -> str:
    async with IronicClient(config.url, config.username, config.password, config.ca) as client:
        found = await client.node(name)
    assert found is not None
    return str(found["uuid"])


async def _heartbeat(config: IronicConfig, node: str) -> None:
    """What the agent of an earlier start would send: everything is right but its token."""
    own = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=config.ca), local_addr=(AGENT, 0))
    told = {"callback_url": f"https://{AGENT}:9999", "agent_token": "of-an-earlier-start", "agent_version": "11.0.0"}
    async with (
        aiohttp.ClientSession(connector=own) as session,
        session.post(
            f"{config.url}/v1/heartbeat/{node}", json=told, headers={"X-OpenStack-Ironic-API-Version": "1.84"}
        ) as answer,
    ):
        assert HTTPStatus.BAD_REQUEST <= answer.status < HTTPStatus.INTERNAL_SERVER_ERROR, answer.status


def plant(folder: Path, venv: Path) -> None:
    """Call it in a network namespace of its own: `unshare --net`."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in (IRONIC, BMC, LOCKED, EMPTY, SILENT, *FAILING, AGENT):
        subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "lo"], check=True)
    chain = "add table inet t; add chain inet t i { type filter hook input priority 0; }"
    subprocess.run(["nft", f"{chain}; add rule inet t i ip daddr {SILENT} drop"], check=True)
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(_record(folder, Path(name), venv))


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    venv = asyncio.run(ensure_environment(Roots.from_environment().cache, LocalProcesses(), Bus()))
    inside = [sys.executable, "-m", "tests.real.planting_ironic", "--inside", str(folder), str(venv)]
    subprocess.run(["unshare", "--net", *inside], check=True, cwd=ROOT)


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        plant(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        record(Path(sys.argv[1]))
