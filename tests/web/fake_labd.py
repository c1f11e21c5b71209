"""A labd for the page's tests: the real control socket and event log, with answers that a test sets. No lab is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rackless import __version__
from rackless.errors import InputError
from rackless.events import Bus
from rackless.plan.addressing import plan_lab
from rackless.plan.stages import INSIDE, own_stages, stages_of
from rackless.ports.console import Heard, Write
from rackless.protocol import messages as say
from rackless.protocol.build import fingerprint
from rackless.protocol.event_log import EventLog
from rackless.protocol.exchange import Nothing, Served
from rackless.protocol.server import ControlServer
from rackless.run.ledger import Ledger
from rackless.run.parts import Part
from rackless.run.paths import LabPaths, Roots
from rackless.spec.lab import LabSpec
from rackless.spec.load import parse

WHOLE = "name: {name}\nservers: {{ctrl: {{role: control-plane, count: 3}}, worker: {{count: {workers}}}}}"


def make_roots(folder: Path) -> Roots:
    return Roots(folder / "state", folder / "run", folder / "cache")


@dataclass
class FakeLabd:
    paths: LabPaths
    spec: LabSpec
    status: say.LabStatus
    hosts: tuple[say.Record, ...] = ()
    objects: say.LabObjects = field(default_factory=say.LabObjects)
    asked: list[object] = field(default_factory=list)
    said: dict[str, bytes] = field(default_factory=dict)
    """By server: what its console showed before somebody sat down."""
    typed: dict[str, bytes] = field(default_factory=dict)
    bus: Bus = field(default_factory=Bus)
    looks: int = 0
    insides: dict[str, say.BmcInside] = field(default_factory=dict)
    """By server: what its BMC knows."""
    object_events: tuple[say.Record, ...] = ()
    _listeners: dict[str, list[asyncio.Queue[bytes]]] = field(default_factory=dict)
    _server: ControlServer | None = None

    async def start(self) -> None:
        log = EventLog(self.paths.events)
        self.bus = Bus(prefix=f"s{log.last}-")
        self.bus.subscribe(log.append)
        self._server = ControlServer(
            self.paths.socket, self.bus, log=self.paths.logs / "labd.log", serves=self._serves(),
            console=self._sit_down, events_log=log,
        )  # fmt: skip
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
            self._server = None

    def set_server(self, name: str, **changes: Any) -> None:
        servers = tuple(replace(one, **changes) if one.name == name else one for one in self.status.servers)
        self.status = replace(self.status, servers=servers)

    def bmc(self, name: str) -> say.BmcSeen:
        """As its server's status tells it."""
        one = next((one for one in self.status.servers if one.name == name), None)
        if one is None:
            raise InputError(f"there is no server {name}")
        return say.BmcSeen(
            name, one.power, one.media, (one.boot or "none") if one.boot_once else "none", one.boot_once, "disk"
        )

    def say(self, server: str, text: bytes) -> None:
        self.said[server] = self.said.get(server, b"") + text
        for listener in self._listeners.get(server, []):
            listener.put_nowait(text)

    def _sit_down(self, server: str, lines: int) -> tuple[Heard, Write]:
        if all(one.name != server for one in self.status.servers):
            raise InputError(f"there is no server {server}")
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        if before := self.said.get(server):
            queue.put_nowait(before)
        self._listeners.setdefault(server, []).append(queue)

        async def heard() -> AsyncGenerator[bytes, None]:
            while True:
                yield await queue.get()

        def write(keys: bytes) -> None:
            self.typed[server] = self.typed.get(server, b"") + keys
            self.say(server, keys.replace(b"\r", b"\r\n"))

        return heard(), write

    def _serves(self) -> list[Served]:
        async def health(_: Nothing) -> say.Daemon:
            return say.Daemon(1, __version__, fingerprint())

        async def status(_: Nothing) -> say.LabStatus:
            self.looks += 1
            return self.status

        async def hosts(_: Nothing) -> say.HostList:
            return say.HostList(self.hosts)

        async def objects(_: Nothing) -> say.LabObjects:
            return self.objects

        async def observe(_: Nothing) -> say.LabSeen:
            names = {one.name: "same" for one in self.status.servers}
            return say.LabSeen(names, ("cluster", "baremetal", "bmc"), ("daemon", "networks", "servers", "bmc"))

        async def power(asked: say.PressPower) -> say.PowerState:
            self.asked.append(asked)
            before = next((one for one in self.status.servers if one.name == asked.server), None)
            if before is None:
                raise InputError(f"there is no server {asked.server}")
            state = {"on": "on", "off": "off", "cycle": "on"}.get(asked.action)
            if state is not None:
                with self.bus.step(f"power {asked.action}", subject=f"server/{asked.server}"):
                    self.set_server(asked.server, power=state)
            return say.PowerState(asked.server, state or before.power)  # a system takes its time to shut down

        async def host(asked: say.HostWish) -> say.HostDone:
            self.asked.append(asked)
            return say.HostDone(asked.host, True, "inspecting")

        async def add_fault(asked: say.FaultWish) -> say.FaultStatus:
            self.asked.append(asked)
            added = fault(len(self.status.faults) + 1, asked)
            self.status = replace(self.status, faults=(*self.status.faults, added))
            self.bus.tell("fault-added", id=added.id, text=added.text)
            return added

        async def clear_faults(asked: say.ClearFaults) -> say.ClearedFaults:
            self.asked.append(asked)
            left = tuple(one for one in self.status.faults if asked.ids and one.id not in asked.ids)
            cleared = len(self.status.faults) - len(left)
            self.status = replace(self.status, faults=left)
            return say.ClearedFaults(cleared)

        async def faults(_: Nothing) -> say.FaultList:
            return say.FaultList(self.status.faults)

        async def object_events(asked: say.WantObjectEvents) -> say.ObjectEvents:
            def about(event: Any) -> bool:
                return not asked.kind or (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (
                    asked.kind, asked.name,
                )  # fmt: skip

            return say.ObjectEvents(tuple(one for one in self.object_events if about(one)))

        return [
            *self._serves_bmcs(), say.FAULTS.by(faults), say.OBJECT_EVENTS.by(object_events),
            say.HEALTH.by(health), say.STATUS.by(status), say.HOSTS.by(hosts), say.OBJECTS.by(objects),
            say.OBSERVE.by(observe), say.OBSERVE_ALL.by(observe), say.POWER.by(power), say.HOST.by(host),
            say.ADD_FAULT.by(add_fault), say.CLEAR_FAULTS.by(clear_faults),
        ]  # fmt: skip

    def _serves_bmcs(self) -> list[Served]:
        async def bmcs(_: Nothing) -> say.BmcsSeen:
            return say.BmcsSeen(tuple(self.bmc(one.name) for one in self.status.servers))

        async def bmc(asked: say.WantBmc) -> say.BmcInside:
            return self.insides.get(asked.server, say.BmcInside(asked.server))

        async def insert(asked: say.InsertMedia) -> say.BmcSeen:
            self.asked.append(asked)
            self.set_server(asked.server, media=asked.image)
            return self.bmc(asked.server)

        async def eject(asked: say.EjectMedia) -> say.BmcSeen:
            self.asked.append(asked)
            self.set_server(asked.server, media=None)
            return self.bmc(asked.server)

        async def set_boot(asked: say.SetBoot) -> say.BmcSeen:
            self.asked.append(asked)
            none = asked.device == "none"
            self.set_server(asked.server, boot="disk" if none else asked.device, boot_once=asked.once and not none)
            return self.bmc(asked.server)

        return [
            say.BMCS.by(bmcs), say.BMC.by(bmc), say.INSERT_MEDIA.by(insert), say.EJECT_MEDIA.by(eject),
            say.SET_BOOT.by(set_boot),
        ]  # fmt: skip


def fault(number: int, asked: say.FaultWish) -> say.FaultStatus:
    text = f"{asked.trouble} at {asked.operation or 'every operation'} of {asked.server or 'every server'}"
    return say.FaultStatus(
        asked.trouble, asked.server, asked.operation, asked.probability, asked.count, asked.seconds, asked.status,
        asked.rate, number, 0, text,
    )  # fmt: skip


def make_labd(roots: Roots, name: str = "lab", workers: int = 1, more: str = "") -> FakeLabd:
    """A lab that stands at its hosts; its folder has what a real one's has for those who look from outside. `more` is added to
    its lab.yaml."""
    spec = parse(WHOLE.format(name=name, workers=workers) + more, "lab.yaml")
    paths = LabPaths(roots, name)
    paths.logs.mkdir(parents=True)
    paths.spec.write_text(spec.model_dump_json())
    Ledger(paths.ledger).own("folder", paths.state)
    plan = plan_lab(spec)
    servers = tuple(
        say.ServerStatus(
            one.name, one.role.value, str(one.address), one.bmc_origin, "on", "provisioned", "",
            "up" if one.role.value == "control-plane" else None, "Running", "disk",
        )
        for one in plan.servers
    )  # fmt: skip
    status = say.LabStatus(
        name, plan.domain, "running", "hosts",
        tuple(
            say.StageStatus(stage, stage not in stages_of(["cluster"])) for stage in INSIDE if stage in own_stages(spec)
        ),
        (), servers, say.ApiPlaces(f"https://{plan.gateway.ip}:6443", "https://127.0.0.1:40001"), (),
        (Part("ironic", True, 4242, 0, "", str(paths.logs / "ironic.log")),), (),
        say.EtcdStatus(
            3, tuple(say.EtcdMember(one.name, True, one.name == "ctrl-0", "3.5.16", "") for one in plan.control_planes),
            "ctrl-0", True, "3 of 3 members are healthy, ctrl-0 leads",
        ),
        say.VipStatus(str(plan.api_vip), ("ctrl-0",), "ctrl-0", True, "ctrl-0 holds it"),
    )  # fmt: skip
    return FakeLabd(paths, spec, status)


@asynccontextmanager
async def running(labd: FakeLabd) -> AsyncIterator[FakeLabd]:
    await labd.start()
    try:
        yield labd
    finally:
        await labd.stop()
