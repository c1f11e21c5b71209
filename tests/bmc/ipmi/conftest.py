from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rackless.bmc.accounts import Accounts
from rackless.bmc.chassis import Chassis
from rackless.bmc.ipmi.controller import Controller
from rackless.bmc.ipmi.server import Port
from rackless.bmc.ipmi.suites import SUITES
from rackless.bmc.media import MediaShelf
from rackless.bmc.state import JsonFile
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.events import Bus, Event, Note
from tests.bmc.conftest import ADMIN, OPERATOR, VIEWER, server
from tests.bmc.ipmi.client import Client, Wire


@dataclass
class Clock:
    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Desk:
    """One BMC with IPMI on the table, its server beside it, and a clock that goes when told to."""

    hypervisor: FakeHypervisor
    chassis: Chassis
    controller: Controller
    port: Port
    wire: Wire
    clock: Clock
    state: Path
    notes: list[str] = field(default_factory=list)

    def client(self, suite: int = 17, **kwargs: Any) -> Client:
        return Client(self.wire, SUITES[suite], **kwargs)

    async def admin(self, suite: int = 17) -> Client:
        client = self.client(suite)
        await client.login(ADMIN.username, ADMIN.password)
        await client.as_(4)
        return client

    async def see(self) -> None:
        await self.chassis.look()


MakeDesk = Callable[..., Awaitable[Desk]]


@pytest.fixture
async def make_desk(tmp_path: Path) -> AsyncIterator[MakeDesk]:
    desks: list[Desk] = []

    async def make(suites: tuple[int, ...] = (3, 17), **changes: Any) -> Desk:
        hypervisor, bus, clock = FakeHypervisor(), Bus(), Clock()
        hypervisor.define([server(0, **changes)])
        (tmp_path / "media").mkdir(exist_ok=True)
        shelf = MediaShelf(tmp_path / "media")
        chassis = Chassis("server-0", "192.0.2.9", hypervisor, shelf, JsonFile(tmp_path / "server-0.json"), bus)
        await chassis.look()
        accounts = Accounts((ADMIN, OPERATOR, VIEWER), file=JsonFile(tmp_path / "accounts.json"))
        controller = Controller(chassis, accounts, bus, now=clock)
        port = Port(controller, bus, suites=suites, now=clock)
        desk = Desk(hypervisor, chassis, controller, port, Wire(port), clock, tmp_path)

        def note(event: Event) -> None:
            if isinstance(event, Note):
                desk.notes.append(event.message)

        bus.subscribe(note)
        desks.append(desk)
        return desk

    yield make
    for desk in desks:
        await desk.port.close()
        desk.chassis.close()


@pytest.fixture
async def desk(make_desk: MakeDesk) -> Desk:
    return await make_desk()
