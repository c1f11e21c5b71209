"""Requests by the ten thousand, made of the protocol's own words put together wrongly, and of bytes that are no request.

No address of anybody is in them: what they ask to be fetched, or told, cannot be reached by any name.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from rackless.bmc.redfish.resource import Resource
from rackless.bmc.redfish.tree import MODULES
from tests.bmc.conftest import ADMIN, Rack, basic

pytestmark = pytest.mark.slow

REQUESTS = 10_000
CLIENTS = 8
WATCHED = 2_000
WORDS = (
    "redfish v1 Systems Managers Chassis 1 2 Cd VirtualMedia Actions ComputerSystem.Reset Bios Settings Storage Drives "
    "EventService Subscriptions SessionService Sessions AccountService Accounts TaskService Tasks Registries Base "
    "LogServices EventLog Entries VirtualMedia.InsertMedia VirtualMedia.EjectMedia Power x %00 .. ~ $metadata %ff %2f "
    "UpdateService FirmwareInventory BIOS EthernetInterfaces NIC1 SecureBoot Roles Manager.Reset Administrator"
).split()
NAMES = (
    "ResetType Boot AssetTag Image Inserted UserName Password RoleId Attributes Destination Protocol Enabled "
    "HttpHeaders Context SessionTimeout Members @odata.id BootSourceOverrideTarget NumLock BootSourceOverrideEnabled "
    "SecureBootEnable IndicatorLED EventTypes ImageURI MessageId WriteProtected Accounts Links DateTime"
).split()
VALUES: list[object] = [
    None, 1, -1, 1.5, 1e308, 2**70, True, "", "x" * 300, "\0", "\ud800", [], {}, [{}], {"a": {"b": [1]}}, "Off", "On",
    "Pxe", "Once", "http://[", "Redfish", "ReadOnly", "Administrator", ["x"] * 50,
]  # fmt: skip
ENTRIES = [entry for module in MODULES for entry in module.RESOURCES if entry.stream is None]


class Fuzzer:
    """The same requests for the same seed."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def request(self) -> tuple[str, str, bytes]:
        dice, entry = self._dice, self._dice.choice(ENTRIES)
        method = dice.choice([*entry.methods * 3, "PUT", "OPTIONS", "DELETE", "HEAD", "BREW"])
        body = self._body() if method in ("PATCH", "POST", "PUT") else b""
        return method, self._path(entry), body

    def garbled(self, raw: bytes) -> bytes:
        """A few bytes of it changed, lost or doubled."""
        dice, changed = self._dice, bytearray(raw)
        for _ in range(dice.randrange(1, 6)):
            at = dice.randrange(len(changed))
            match dice.randrange(4):
                case 0:
                    changed[at] = dice.randrange(256)
                case 1:
                    del changed[at : at + dice.randrange(1, 9)]
                case 2:
                    changed[at:at] = changed[at : at + dice.randrange(1, 40)]
                case 3:
                    changed[at:at] = dice.choice(
                        [b"\r\n", b"\0", b": ", b"chunked", b"Content-Length: 7\r\n", b"99999"]
                    )
            if not changed:
                changed = bytearray(b"\r\n")
        return bytes(changed)

    def _path(self, entry: Resource) -> str:
        dice = self._dice
        path = entry.path.replace("{system}", "1").replace("{manager}", "1").replace("{chassis}", "1")
        path = "/".join(dice.choice(WORDS) if part.startswith("{") else part for part in path.split("/"))
        if dice.random() < 0.2:
            path += "/" + dice.choice(WORDS)
        if dice.random() < 0.2:
            path += (
                "?" + dice.choice(["$select", "$expand", "$top", "$skip", "only", "$filter"]) + "=" + dice.choice(WORDS)
            )
        return path

    def _body(self) -> bytes:
        dice = self._dice
        body = {dice.choice(NAMES): dice.choice(VALUES) for _ in range(dice.randrange(4))}
        if dice.random() < 0.5:
            body = {dice.choice(NAMES): body}
        raw = json.dumps(body).encode()
        return self.garbled(raw) if dice.random() < 0.2 else raw


def raw(method: str, path: str, body: bytes, head: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"{method} {path} HTTP/1.1\r\nHost: bmc\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Client:
    """Speaks HTTP by hand, so that nothing is put right on the way."""

    def __init__(self, rack: Rack) -> None:
        self._place = (rack.addresses[0], rack.port)
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, data: bytes, *, answered: bool = True, head: bool = False) -> int:
        """The status; 0 where there was no whole answer, which only garbage may come to."""
        if self._stream is not None and self._stream[0].at_eof():
            await self.close()  # they hung up after the last answer
        reader, writer = self._stream = self._stream or await asyncio.open_connection(*self._place)
        writer.write(data)
        if not answered:
            writer.write(b"\r\n" * 200)  # half a request would be waited for
        try:
            async with asyncio.timeout(10 if answered else 0.05):
                text = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = text.partition(b"content-length:")[2].split(b"\r", 1)[0]
                if length and not head:
                    await reader.readexactly(int(length))
        except (asyncio.IncompleteReadError, ConnectionResetError, TimeoutError):
            assert not answered, data
            text = b"http/1.1 000"
        if not answered or b"connection: close" in text:
            await self.close()
        return int(text[9:12])

    async def close(self) -> None:
        if self._stream is not None:
            self._stream[1].close()
            self._stream = None


async def play(rack: Rack, count: int, one: Callable[[Client], Any]) -> None:
    async def client() -> None:
        client = Client(rack)
        for _ in range(count // CLIENTS):
            await one(client)
        await client.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


def state_of(rack: Rack) -> object:
    service = rack.fleet.service(rack.addresses[0])
    chassis = rack.fleet.chassis("server-0")
    calls = [call for call in rack.hypervisor.calls if call[0] not in ("observe", "servers")]
    return (
        chassis.memory, chassis.server(), len(chassis.log.entries()), calls, dict(service.accounts.by_id),
        sorted(path.name for path in rack.state.iterdir()), sorted(path.name for path in rack.media.iterdir()),
    )  # fmt: skip


async def test_ten_thousand_requests_of_who_may_do_everything_break_nothing(rack: Rack) -> None:
    """Also not the memory: it does not grow any more when everything there can be of was made."""
    fuzzer, codes = Fuzzer(7), Counter[int]()
    who = {**basic(ADMIN.username, ADMIN.password), "Content-Type": "application/json"}

    async def one(client: Client) -> None:
        method, path, body = fuzzer.request()
        status = await client.send(raw(method, path, body, who), head=method == "HEAD")
        assert status < 500 or status == 501, (method, path, body)
        codes[status] += 1

    await play(rack, REQUESTS - WATCHED, one)
    tracemalloc.start()
    try:
        await play(rack, WATCHED, one)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert [note for note in rack.notes if "Error" in note] == []
    assert sum(codes.values()) == REQUESTS
    assert codes[200] > 1000 and codes[400] > 1000 and codes[404] > 100 and codes[405] > 100, codes
    assert grown < 400_000, f"{grown} bytes more after {WATCHED} requests"
    assert (await rack.get("/redfish/v1/Systems/1"))["Name"] == "server-0"


async def test_ten_thousand_requests_of_nobody_have_no_effect(rack: Rack) -> None:
    fuzzer, codes, dice = Fuzzer(8), Counter[int](), random.Random(8)
    nobody: list[dict[str, str]] = [
        {},
        basic(ADMIN.username, "wrong"),
        basic("", ""),
        {"Authorization": "Basic ####"},
        {"Authorization": "Bearer x"},
        {"X-Auth-Token": "x" * 40},
        {"Authorization": "Basic " + "A" * 4000},
    ]
    public = {entry.path.rstrip("/") for entry in ENTRIES if "GET" in entry.public}
    before = state_of(rack)

    async def one(client: Client) -> None:
        method, path, body = fuzzer.request()
        head = {**dice.choice(nobody), "Content-Type": "application/json"}
        status = await client.send(raw(method, path, body, head), head=method == "HEAD")
        read = method in ("GET", "HEAD", "OPTIONS") and path.partition("?")[0].replace("%2f", "").rstrip("/") in public
        refused = status in (400, 401, 405) or (status == 501 and method == "BREW")
        assert refused or read or (path.endswith("/Sessions") and 400 <= status < 500), (method, path, status)
        codes[status] += 1

    await play(rack, REQUESTS, one)
    assert codes[401] > REQUESTS / 2, codes
    assert state_of(rack) == before


async def test_ten_thousand_garbled_requests_are_refused_or_hung_up_on(rack: Rack) -> None:
    """HTTP itself is broken: heads, lengths, line ends. Nobody gets in by it, and who is let in still is."""
    fuzzer, codes = Fuzzer(9), Counter[int]()
    before = state_of(rack)

    async def one(client: Client) -> None:
        method, path, body = fuzzer.request()
        garbage = fuzzer.garbled(raw(method, path, body, {"Content-Type": "application/json"}))
        status = await client.send(garbage, answered=False)
        assert status < 500 or status == 501, garbage
        codes[status] += 1

    await play(rack, REQUESTS, one)
    assert codes[400] > 1000 and codes[401] > 500, codes
    assert rack.notes == []
    assert state_of(rack) == before
    assert (await rack.get("/redfish/v1/Systems/1"))["Name"] == "server-0"
