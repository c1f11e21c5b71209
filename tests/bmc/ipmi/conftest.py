from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rackless.bmc.core.accounts import Accounts
from rackless.bmc.core.audit import Audit
from rackless.bmc.core.chassis import Chassis
from rackless.bmc.core.faults import Faults
from rackless.bmc.core.media import MediaShelf
from rackless.bmc.core.state import JsonFile
from rackless.bmc.ipmi.controller import ManagementController
from rackless.bmc.ipmi.server import Port
from rackless.bmc.ipmi.suites import SUITES
from rackless.cli import words
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
    controller: ManagementController
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

    def audited(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.state / "audit.jsonl").read_text().splitlines()]


MakeDesk = Callable[..., Awaitable[Desk]]


@pytest.fixture
async def make_desk(tmp_path: Path) -> AsyncIterator[MakeDesk]:
    desks: list[Desk] = []

    async def make(suites: tuple[int, ...] = (3, 17), **changes: Any) -> Desk:
        hypervisor, bus, clock = FakeHypervisor(), Bus(), Clock()
        hypervisor.define([server(0, **changes)])
        (tmp_path / "media").mkdir(exist_ok=True)
        shelf = MediaShelf(tmp_path / "media")
        faults = Faults()
        file = JsonFile(tmp_path / "server-0.json")
        chassis = Chassis("server-0", "192.0.2.9", hypervisor, shelf, file, bus, faults=faults)
        await chassis.look()
        accounts = Accounts((ADMIN, OPERATOR, VIEWER), file=JsonFile(tmp_path / "accounts.json"))
        audit = tmp_path / "audit.jsonl"
        controller = ManagementController(chassis, accounts, bus, now=clock, faults=faults, audit=Audit(audit, bus))
        port = Port(controller, bus, suites=suites, now=clock)
        desk = Desk(hypervisor, chassis, controller, port, Wire(port), clock, tmp_path)

        def note(event: Event) -> None:
            if isinstance(event, Note) and event.level != "progress":
                desk.notes.append(words.message(event))

        bus.subscribe(note)
        desks.append(desk)
        return desk

    yield make
    for desk in desks:
        await desk.port.close()
        if desk.controller._audit is not None:
            desk.controller._audit.close()
        desk.chassis.close()


@pytest.fixture
async def desk(make_desk: MakeDesk) -> Desk:
    return await make_desk()
