"""BMCs for the domains of any libvirt connection, without a lab: what `rackless bmc serve` runs.

One address, every domain by its UUID, as sushy-tools has it. Domains come and go while it runs. Like labd, it only puts
parts together: the fleet, a hypervisor, a certificate authority.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rackless.bmc.core.accounts import Account
from rackless.bmc.core.start_limit import Starts, default_limit
from rackless.bmc.fault_desk import CONTROL, FaultDesk
from rackless.bmc.fleet import Bmc, Fleet
from rackless.bmc.ipmi.sites import Ipmi
from rackless.errors import HypervisorError
from rackless.events import Bus
from rackless.ports.clock import Clock
from rackless.ports.drivers import Drivers
from rackless.ports.hypervisor import Hypervisor, ServerChange, ServerState, Unreachable
from rackless.protocol.server import ControlServer
from rackless.run.connections import allow_many_files
from rackless.run.files import write
from rackless.trust.authority import Authority, Use

_WILDCARDS = {"0.0.0.0": ("127.0.0.1", "localhost"), "::": ("::1", "127.0.0.1", "localhost")}
_FEW = 8
_GATHER_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class ServeSettings:
    uri: str
    username: str
    password: str = field(repr=False)
    folder: Path
    """Where boot overrides, images and the certificate are kept."""
    address: str = "127.0.0.1"
    port: int = 8000
    tls: bool = True
    ipmi_base_port: int | None = None
    """The first of the ports of IPMI, one for each server in the order of their names; None is no IPMI."""
    starting: int = 0
    """How many servers may start at once; 0 is as many as this computer can bear."""


@dataclass(frozen=True, slots=True)
class ServedAddress:
    name: str
    uuid: str
    redfish: str
    ipmi_port: int | None = None


Announce = Callable[[ServedAddress], None]


async def serve(
    settings: ServeSettings, bus: Bus, announce: Announce, ready: Callable[[Path | None], None], drivers: Drivers
) -> None:
    """Serve until cancelled. `ready` is told the CA's file once everything answers; `announce` every BMC, also later."""
    allow_many_files()
    try:
        async with drivers.open_hypervisor(settings.uri) as hypervisor:
            await serve_fleet(settings, hypervisor, bus, announce, ready, drivers.clock)
    except Unreachable as error:
        raise HypervisorError(
            f"libvirt at {settings.uri} does not answer",
            why=error.why,
            hint=f"does `virsh -c {settings.uri} list --all` work?",
        ) from error


async def serve_fleet(
    settings: ServeSettings,
    hypervisor: Hypervisor,
    bus: Bus,
    announce: Announce,
    ready: Callable[[Path | None], None],
    clock: Clock,
) -> None:
    tls, ca = _certificate(settings) if settings.tls else (None, None)
    servers = {server.name: server for server in sorted(await hypervisor.servers(), key=lambda server: server.name)}
    fleet = Fleet(
        [Bmc(name, settings.address) for name in servers],
        hypervisor,
        [Account(settings.username, settings.password)],
        state=settings.folder / "state",
        media=settings.folder / "media",
        bus=bus,
        tls=tls,
        port=settings.port,
        aggregate=settings.address,
        ipmi=Ipmi(base_port=settings.ipmi_base_port, address=settings.address) if settings.ipmi_base_port else None,
        starts=Starts(settings.starting or default_limit(), clock, hypervisor.processor_seconds),
        audit=settings.folder / "audit.jsonl",
    )
    await fleet.start()
    control = _Control(settings, fleet, bus)
    try:
        await control.start()
        following = _Following(fleet, hypervisor, settings, announce, set(servers))
        for server in servers.values():
            announce(_endpoint(settings, fleet, server))
        ready(ca)
        await following.run()
    finally:
        await control.stop()
        await fleet.stop()


class _Control:
    """The socket by which faults are asked for."""

    def __init__(self, settings: ServeSettings, fleet: Fleet, bus: Bus) -> None:
        desk = FaultDesk(fleet.faults, lambda: (bmc.server for bmc in fleet.observe()), bus)
        path = settings.folder / CONTROL
        self._path = path
        self._bus = bus
        self._server = ControlServer(path, bus, log=settings.folder / "audit.jsonl", serves=desk.serve())

    async def start(self) -> None:
        try:
            await self._server.start()
        except OSError as error:  # the path may be longer than a socket's can be; everything else works
            self._bus.tell("faults-unavailable", socket=str(self._path), why=str(error))

    async def stop(self) -> None:
        await self._server.stop()


class _Following:
    """Domains that are defined get a BMC, and lose it when they are undefined."""

    def __init__(
        self, fleet: Fleet, hypervisor: Hypervisor, settings: ServeSettings, announce: Announce, known: set[str]
    ) -> None:
        self._fleet = fleet
        self._hypervisor = hypervisor
        self._settings = settings
        self._announce = announce
        self._known = known
        self._changed: set[str] = set()
        self._stopped: set[str] = set()
        self._something = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._work())

    async def _listen(self) -> None:
        while True:
            with suppress(Unreachable):
                async for event in self._hypervisor.events():
                    if event.name not in self._known or event.change is ServerChange.UNDEFINED:
                        self._changed.add(event.name)
                        self._something.set()
                    elif event.change is ServerChange.POWERED_OFF:
                        self._stopped.add(event.name)
                        self._something.set()
            await asyncio.sleep(1)
            self._changed.add("")  # anything may have happened meanwhile
            self._something.set()

    async def _work(self) -> None:
        while True:
            await self._something.wait()
            await asyncio.sleep(_GATHER_SECONDS)  # whoever defines one domain defines more
            self._something.clear()
            names, self._changed = self._changed | self._vanished(), set()
            try:
                if names:
                    await self._look(names)
            except Unreachable:
                self._changed |= names  # `_listen` wakes us when there is somebody to ask again

    def _vanished(self) -> set[str]:
        """A transient domain is gone when it stops; its BMC, which saw that, is removed."""
        stopped, self._stopped = self._stopped & self._known, set()
        return {name for name in stopped if not self._fleet.chassis(name).exists}

    async def _look(self, names: set[str]) -> None:
        if "" in names or len(names) > _FEW:
            found = {server.name: server for server in await self._hypervisor.servers()}
            known = set(found)
        else:
            seen = [await self._hypervisor.observe(name) for name in sorted(names)]
            found = {server.name: server for server in seen if server is not None}
            known = (self._known - names) | set(found)
        new = known - self._known
        self._known = known
        await self._fleet.ensure(_bmcs(known, self._settings.address))
        for name in sorted(new):
            self._announce(_endpoint(self._settings, self._fleet, found[name]))


def _bmcs(names: Iterable[str], address: str) -> list[Bmc]:
    return [Bmc(name, address) for name in sorted(names)]


def _endpoint(settings: ServeSettings, fleet: Fleet, server: ServerState) -> ServedAddress:
    host = f"[{settings.address}]" if ":" in settings.address else settings.address
    scheme = "https" if settings.tls else "http"
    url = f"{scheme}://{host}:{settings.port}/redfish/v1/Systems/{server.uuid}"
    ipmi_port = fleet.ipmi.place(server.name)[1] if fleet.ipmi is not None else None
    return ServedAddress(server.name, str(server.uuid), url, ipmi_port)


def _certificate(settings: ServeSettings) -> tuple[ssl.SSLContext, Path]:
    names = _WILDCARDS.get(settings.address, (settings.address,))
    authority = Authority.ensure(settings.folder / "tls", "rackless BMCs")
    leaf = authority.ensure_leaf("bmc", names, uses=(Use.SERVER,))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(leaf.certificate, leaf.key)
    ca = settings.folder / "ca.crt"  # the authority's own folder is private
    write(ca, authority.certificate.read_bytes())
    return context, ca
