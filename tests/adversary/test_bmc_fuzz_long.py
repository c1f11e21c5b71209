"""A hundred thousand fuzzed requests at a fleet of its own process, by Redfish and by IPMI: no 500, no stall, no growth."""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rackless.bmc.ipmi.suites import SUITES
from tests.adversary.bmc_clients import Bystander, idle_turn, turn_of
from tests.adversary.bmc_host import Host, bmc_host
from tests.bmc.conftest import ADMIN, basic
from tests.bmc.ipmi.client import Client as IpmiClient
from tests.bmc.ipmi.test_malformed import mutations
from tests.bmc.test_fuzz import Client, Fuzzer, raw

pytestmark = pytest.mark.long

REQUESTS = 100_000
ROUND = 10_000
CLIENTS = 8
TURNS = 60
"""A turn may be so many times the longest of an idle BMC: several clients at once, and the collector's full rounds."""
WARM = 3
"""Rounds before memory is compared: everything there can be of is made by then."""
GROWTH = 8 << 20


def http(host: Host, fuzzer: Fuzzer, dice: random.Random, codes: Counter[int]) -> None:
    who = {**basic(ADMIN.username, ADMIN.password), "Content-Type": "application/json"}
    nobody: dict[str, str] = {"Content-Type": "application/json"}
    place = cast(Any, SimpleNamespace(addresses=host.addresses, port=host.port))

    async def client() -> None:
        client = Client(place)
        for _ in range(ROUND // CLIENTS):
            method, path, body = fuzzer.request()
            request = raw(method, path, body, who if dice.random() < 0.7 else nobody)
            garbled = dice.random() < 0.02
            if garbled:
                request = fuzzer.garbled(request)
            status = await client.send(request, answered=not garbled, head=method == "HEAD")
            assert status < 500 or status in (501, 503, 507), (status, request)
            codes[status] += 1
        await client.close()

    async def all_of_them() -> None:
        await asyncio.gather(*(client() for _ in range(CLIENTS)))

    asyncio.run(all_of_them())


def test_a_hundred_thousand_requests_by_redfish() -> None:
    codes, sizes = Counter[int](), []
    with bmc_host(2) as host:
        idle = idle_turn(host)
        for number in range(REQUESTS // ROUND):

            def round_of_requests(number: int = number) -> None:
                http(host, Fuzzer(100 + number), random.Random(100 + number), codes)
                assert Bystander(host).looks(5)

            assert turn_of(host, round_of_requests, TURNS * idle) < TURNS * idle
            told = host.tell()
            assert [note for note in told.notes if "Error" in note] == []
            sizes.append(told.memory)
    assert (done := sum(codes.values())) >= REQUESTS
    assert codes[200] > done / 20 and codes[400] > done / 20
    assert sizes[-1] - sizes[WARM] < GROWTH, sizes


class _Recorder:
    """A wire to a real port that keeps what a client said."""

    def __init__(self, host: Host) -> None:
        self._line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._line.connect((host.addresses[0], host.ipmi_port))
        self._line.settimeout(10)
        self.log: list[bytes] = []

    def say(self, datagram: bytes, peer: object = None) -> None:
        self.log.append(datagram)
        self._line.send(datagram)

    async def hear(self, within: float = 3.0) -> bytes:
        return self._line.recv(2048)

    def flood(self, datagrams: list[bytes]) -> None:
        """In small bunches: what the kernel throws away tests nothing."""
        for at in range(0, len(datagrams), 64):
            for datagram in datagrams[at : at + 64]:
                self._line.send(datagram)
            self._line.setblocking(False)
            try:
                while True:
                    self._line.recv(2048)
            except BlockingIOError:
                pass
            self._line.settimeout(10)

    def close(self) -> None:
        self._line.close()


async def _say_everything(wire: _Recorder) -> None:
    client = IpmiClient(cast(Any, wire), SUITES[17])
    await client.login(ADMIN.username, ADMIN.password)
    await client.as_(4)
    for netfn, command in (
        (0x06, 0x01),
        (0x00, 0x01),
        (0x0A, 0x40),
        (0x0A, 0x20),
        (0x06, 0x44),
        (0x0C, 0x02),
        (0x2C, 0x01),
    ):
        await client.ask(netfn, command, b"\x01\x02\x03\x00"[: 4 if netfn in (0x06, 0x0C) else 0])


def test_a_hundred_thousand_datagrams_by_ipmi() -> None:
    sizes = []
    with bmc_host(2) as host:
        idle = idle_turn(host)
        for number in range(REQUESTS // ROUND):

            def round_of_datagrams(number: int = number) -> None:
                wire = _Recorder(host)
                try:
                    asyncio.run(_say_everything(wire))
                    wire.flood(list(mutations(wire.log, ROUND, seed=number)))
                finally:
                    wire.close()
                assert Bystander(host).looks(5)

            assert turn_of(host, round_of_datagrams, TURNS * idle) < TURNS * idle
            told = host.tell()
            assert not told.notes
            sizes.append(told.memory)
            again = _Recorder(host)
            asyncio.run(_say_everything(again))  # it still lets in who may come in
            again.close()
    assert sizes[-1] - sizes[WARM] < GROWTH, sizes
