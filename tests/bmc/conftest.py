from __future__ import annotations

import asyncio
import base64
import ipaddress
import itertools
import random
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rackless.bmc.core.accounts import Account
from rackless.bmc.fleet import Bmc, Fleet
from rackless.cli import words
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.events import Bus, Event, Note
from rackless.ports.hypervisor import BootDevice, Disk, Firmware, Power, ServerState

ADMIN = Account("admin", "s3cret:with:colons")
OPERATOR = Account("operator", "oper4tor", "Operator")
VIEWER = Account("viewer", "v1ewer", "ReadOnly")
_NETS = itertools.count(random.randrange(1, 200))


def server(number: int, **changes: Any) -> ServerState:
    values: dict[str, Any] = {
        "name": f"server-{number}",
        "uuid": UUID(int=0xABC000 + number),
        "power": Power.OFF,
        "memory_mib": 1536,
        "vcpus": 2,
        "firmware": Firmware.UEFI,
        "macs": (f"02:00:00:00:00:{number:02x}",),
        "disks": (Disk(Path("/disks/a"), 20 << 30, f"disk-{number}"),),
        "media": None,
        "boot_first": BootDevice.DISK,
    }
    return ServerState(**(values | changes))


@dataclass
class Rack:
    """A fleet with its fake hypervisor, and clients of it."""

    fleet: Fleet
    hypervisor: FakeHypervisor
    addresses: list[str]
    port: int
    scheme: str
    media: Path
    state: Path
    client: aiohttp.ClientSession
    notes: list[str] = field(default_factory=list)
    ca: Path | None = None

    def base(self, number: int = 0) -> str:
        return f"{self.scheme}://{self.addresses[number]}:{self.port}"

    async def ask(
        self, method: str, path: str, body: Any = None, *, as_: Account | None = ADMIN, number: int = 0, **kwargs: Any
    ) -> tuple[int, Any, Mapping[str, str]]:
        if as_ is not None:
            kwargs["headers"] = {**basic(as_.username, as_.password), **kwargs.get("headers", {})}
        if body is not None:
            kwargs["json"] = body
        url = path if path.startswith("http") else self.base(number) + path
        async with self.client.request(method, url, **kwargs) as response:
            text = await response.read()
            value = await response.json() if text and "json" in response.content_type else text
            return response.status, value, response.headers

    async def get(self, path: str, **kwargs: Any) -> Any:
        status, value, _ = await self.ask("GET", path, **kwargs)
        assert status == 200, (path, status, value)
        return value

    async def reset(self, kind: str, number: int = 0) -> int:
        status, _, _ = await self.ask(
            "POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", {"ResetType": kind}, number=number
        )
        return status

    async def until(self, what: Callable[[], Awaitable[bool]], within: float = 30.0) -> None:
        async with asyncio.timeout(within):
            while not await what():  # noqa: ASYNC110 - what we wait for is behind HTTP
                await asyncio.sleep(0.005)

    async def power(self, number: int = 0) -> str:
        return str((await self.get("/redfish/v1/Systems/1", number=number))["PowerState"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def basic(username: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()}


MakeRack = Callable[..., Awaitable[Rack]]


@pytest.fixture
async def make_rack(tmp_path: Path) -> AsyncIterator[MakeRack]:
    async with AsyncExitStack() as stack:

        async def make(
            count: int = 1,
            *,
            hypervisor: FakeHypervisor | None = None,
            tls: tuple[ssl.SSLContext, Path] | None = None,
            accounts: tuple[Account, ...] = (ADMIN, OPERATOR, VIEWER),
            **kwargs: Any,
        ) -> Rack:
            if hypervisor is None:
                hypervisor = FakeHypervisor()
                hypervisor.define(server(number) for number in range(count))
            net = next(_NETS) % 250 + 1
            addresses = [f"127.0.{net}.{number + 1}" for number in range(count)]
            bus, notes, port = Bus(), [], free_port()

            def note(event: Event) -> None:
                if isinstance(event, Note) and event.level != "progress":
                    notes.append(words.message(event))

            bus.subscribe(note)
            fleet = Fleet(
                [Bmc(f"server-{number}", address) for number, address in enumerate(addresses)],
                hypervisor,
                accounts,
                state=tmp_path / "state",
                media=tmp_path / "media",
                bus=bus,
                tls=tls[0] if tls else None,
                port=port,
                retry_seconds=0.02,
                **kwargs,
            )
            await fleet.start()
            stack.push_async_callback(fleet.stop)
            trust = ssl.create_default_context(cafile=str(tls[1])) if tls else True
            client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust))
            stack.push_async_callback(client.close)
            scheme = "https" if tls else "http"
            return Rack(
                fleet, hypervisor, addresses, port, scheme, tmp_path / "media", tmp_path / "state", client, notes,
                tls[1] if tls else None,
            )  # fmt: skip

        yield make


@pytest.fixture
async def rack(make_rack: MakeRack) -> Rack:
    return await make_rack()


@dataclass
class Files:
    """A file server that can be slow, large or absent, and counts what it is asked."""

    url: str
    contents: dict[str, bytes]
    asked: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    seconds: float = 0.0
    open: asyncio.Event = field(default_factory=asyncio.Event)
    """Nothing is sent while it is not set."""


@pytest.fixture
async def files() -> AsyncIterator[Files]:
    found = Files("", {})
    found.open.set()

    async def serve(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        found.asked.append(name)
        await asyncio.sleep(found.seconds)
        await found.open.wait()
        if name not in found.contents:
            raise web.HTTPNotFound
        if name == "locked.iso" and request.headers.get("Authorization") != basic("u", "p")["Authorization"]:
            raise web.HTTPUnauthorized
        content = found.contents[name]
        tag = f'"{hash(content)}"'
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304)
        found.sent.append(name)
        response = web.StreamResponse(headers={"ETag": tag})
        await response.prepare(request)
        await response.write(content)
        return response

    application = web.Application()
    application.router.add_get("/{name}", serve)
    runner = web.AppRunner(application, shutdown_timeout=0.05)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    found.url = f"http://127.0.0.1:{port}"
    yield found
    await runner.cleanup()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[str]], tuple[ssl.SSLContext, Path]]:
    """A certificate for these addresses, and the file of the authority to trust."""

    def make(addresses: list[str]) -> tuple[ssl.SSLContext, Path]:
        directory = tmp_path_factory.mktemp("tls")
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a BMC")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]), False
            )
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
            .sign(key, hashes.SHA256())
        )
        cert, private = directory / "cert.pem", directory / "key.pem"
        cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(cert, private)
        return context, cert

    return make
