"""All BMCs of a lab in one asyncio process: what they remember, what they see, and where they listen.

The one thing the daemon knows of this package. `ensure` adds and takes away BMCs while the others go on.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from rackless.bmc import restore
from rackless.bmc.accounts import Account, Accounts
from rackless.bmc.audit import Audit
from rackless.bmc.buttons import Reset
from rackless.bmc.chassis import Chassis
from rackless.bmc.disk import Disk
from rackless.bmc.faults import Faults
from rackless.bmc.ipmi.sites import Ipmi, Sites
from rackless.bmc.media import Limits, MediaShelf
from rackless.bmc.redfish.events import record
from rackless.bmc.redfish.http import HttpServer
from rackless.bmc.redfish.resource import ROOT
from rackless.bmc.redfish.server import RedfishServer
from rackless.bmc.redfish.service import Service
from rackless.bmc.redfish.subscriptions import Subscriptions
from rackless.bmc.redfish.tree import routes
from rackless.bmc.sight import Sight
from rackless.bmc.sockets import Forbids, MakeSocket, no_site
from rackless.bmc.starts import Starts
from rackless.bmc.state import BootOverride, JsonFile
from rackless.errors import MachineError
from rackless.events import Bus
from rackless.ports.hypervisor import Hypervisor, NoSuchServer, Power, ServerState, Unreachable

_EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Bmc:
    """A server's name, and the address its BMC has for itself, or the aggregate's when it has none."""

    server: str
    address: str


@dataclass(frozen=True, slots=True)
class BmcState:
    """One BMC as observed. `power` is None while it cannot be seen, or when the server is gone."""

    server: str
    address: str
    power: Power | None
    boot: BootOverride
    media: str | None
    seen: bool
    starting: bool = False
    """It was switched on, and waits until fewer others are starting."""


class Fleet:
    def __init__(
        self,
        bmcs: Sequence[Bmc],
        hypervisor: Hypervisor,
        accounts: Sequence[Account],
        *,
        state: Path,
        media: Path,
        bus: Bus,
        tls: ssl.SSLContext | None,
        port: int = 443,
        media_ca: ssl.SSLContext | None = None,
        aggregate: str | None = None,
        ipmi: Ipmi | None = None,
        media_limits: Limits | None = None,
        starts: Starts | None = None,
        faults: Faults | None = None,
        audit: Path | None = None,
        retry_seconds: float = 1.0,
        resync_seconds: float = 30.0,
        sockets: MakeSocket = socket.socket,
        forbids: Forbids = no_site,
    ) -> None:
        self._bmcs = tuple(bmcs)
        self._hypervisor = hypervisor
        self._accounts = tuple(accounts)
        self._state = state
        self._sockets = sockets
        self._forbids = forbids
        self._bus = bus
        self._tls = tls
        self._port = port
        self._trust = media_ca
        self._aggregate = aggregate
        self._shelf = MediaShelf(media, trust=media_ca, limits=media_limits, sockets=sockets, forbids=forbids)
        self._starts = starts
        self.faults = faults or Faults()
        self._disk = Disk()
        self._audit = Audit(audit, bus)
        self._swept = False
        self._chassis: dict[str, Chassis] = {}
        self._by_uuid: dict[str, Chassis] = {}
        self._services: dict[str, Service] = {}
        self._sites: dict[str, web.SockSite] = {}
        self._runner: web.ServerRunner | None = None
        self._sight = Sight(
            hypervisor,
            self._chassis,
            bus,
            self._know,
            self._clean_up,
            retry_seconds=retry_seconds,
            resync_seconds=resync_seconds,
        )
        self.ipmi = (
            Sites(ipmi, bus, self._accounts_of, sockets, faults=self.faults, audit=self._audit) if ipmi else None
        )

    async def start(self) -> None:
        """Listen at every BMC's address; returns when all answer."""
        self._state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._shelf.open()
        if self._aggregate is not None:
            self._services[self._aggregate] = self._service(self._aggregate, self._by_uuid)
        for bmc in self._bmcs:
            self._make(bmc)
        server = RedfishServer(self._find, routes(), self._bus, faults=self.faults, audit=self._audit)
        self._runner = web.ServerRunner(HttpServer(server.answer), shutdown_timeout=2.0)
        try:
            await self._sight.start()
            await self._runner.setup()
            await self._listen()
        except BaseException:
            await self.stop()
            raise

    async def ensure(self, bmcs: Iterable[Bmc]) -> bool:
        """Have exactly these BMCs; the others go on undisturbed. True when something changed."""
        wanted = {bmc.server: bmc for bmc in bmcs}
        known = {chassis.name: Bmc(chassis.name, chassis.address) for chassis in self._chassis.values()}
        gone = [bmc for server, bmc in known.items() if wanted.get(server) != bmc]
        new = [bmc for server, bmc in wanted.items() if known.get(server) != bmc]
        for bmc in gone:
            await self._retire(bmc, forget=bmc.server not in wanted)
        for bmc in new:
            self._make(bmc)
        if new:
            with suppress(Unreachable):
                await self._sight.see(bmc.server for bmc in new)
            await self._listen()
        return bool(gone or new)

    async def stop(self) -> None:
        await self._sight.stop()
        if self.ipmi is not None:
            await self.ipmi.stop()
        for service in self._services.values():
            await service.close()
        if self._runner is not None:
            await self._runner.cleanup()
        for chassis in self._chassis.values():
            chassis.close()
        if self._starts is not None:
            await self._starts.close()
        await self._shelf.close()
        await self._disk.close()
        self._audit.close()

    async def power_returned(self, were_on: Collection[str]) -> None:
        """All servers were off for a while: start those that shall be on now, in turn as always."""
        for chassis in self._chassis.values():
            if chassis.exists and restore.starts(chassis.memory, was_on=chassis.name in were_on):
                await chassis.reset(Reset.ON)

    # looking at it

    def observe(self) -> list[BmcState]:
        return [_observe(chassis) for chassis in self._chassis.values()]

    def chassis(self, server: str) -> Chassis:
        return self._chassis[server]

    def service(self, address: str) -> Service:
        return self._services[address]

    # making and retiring

    def _make(self, bmc: Bmc) -> None:
        chassis = Chassis(
            bmc.server,
            bmc.address,
            self._hypervisor,
            self._shelf,
            self._file(bmc.server),
            self._bus,
            source=bmc.address if bmc.address != self._aggregate else None,
            starts=self._starts,
            faults=self.faults,
        )
        if (media := chassis.memory.media) is not None:
            self._shelf.hold(Path(media.file), bmc.server)
        self._chassis[bmc.server] = chassis
        if bmc.address != self._aggregate:
            self._services[bmc.address] = self._service(bmc.address, {"1": chassis})

    def _file(self, name: str) -> JsonFile:
        return JsonFile(self._state / f"{quote(name, safe='')}.json", self._disk)

    def _service(self, address: str, systems: Mapping[str, Chassis]) -> Service:
        accounts = Accounts(self._accounts, file=self._file(f"accounts-{address}"))
        subscriptions = Subscriptions(
            self._file(f"subscriptions-{address}"),
            self._bus,
            trust=self._trust,
            sockets=self._sockets,
            source=address if address != self._aggregate else None,
            forbids=self._forbids,
        )
        service = Service(address, systems, accounts, subscriptions, self._port, self._tls is not None)
        for id, chassis in systems.items():
            _tell_subscribers(service, id, chassis)
        return service

    async def _retire(self, bmc: Bmc, *, forget: bool) -> None:
        chassis = self._chassis.pop(bmc.server)
        if self.ipmi is not None:
            await self.ipmi.retire(bmc.server)
        for id in [id for id, known in self._by_uuid.items() if known is chassis]:
            del self._by_uuid[id]
        if bmc.address != self._aggregate:
            await self._services.pop(bmc.address).close()
            if (site := self._sites.pop(bmc.address, None)) is not None:
                await site.stop()
        chassis.close()
        if forget:
            if chassis.memory.media is not None:
                self._shelf.release(Path(chassis.memory.media.file), bmc.server)
            own = () if bmc.address == self._aggregate else (f"accounts-{bmc.address}", f"subscriptions-{bmc.address}")
            for name in (bmc.server, *own):
                self._file(name).retire()

    def _accounts_of(self, chassis: Chassis) -> Accounts:
        return self._services[chassis.address].accounts

    async def _listen(self) -> None:
        assert self._runner is not None
        for address in self._services.keys() - self._sites.keys():
            try:
                site = web.SockSite(
                    self._runner, _open_listener(address, self._port, self._sockets), ssl_context=self._tls
                )
                await site.start()
            except OSError as error:
                raise MachineError(
                    f"the BMC address {address} cannot be listened at",
                    why=f"port {self._port}: {error}",
                    hint="is the address on an interface of this lab, and the port free? `ss -ltnp` shows who has it",
                ) from error
            self._sites[address] = site
        if self.ipmi is not None:
            self.ipmi.ensure(self._chassis)

    def _find(self, address: str) -> Service | None:
        """The service a client came to; one that listens everywhere is met at any address."""
        found = self._services.get(address)
        return self._services.get(self._aggregate) if found is None and self._aggregate in _EVERYWHERE else found

    # seeing

    def _know(self, chassis: Chassis, server: ServerState) -> None:
        """A server was seen: the aggregate finds it by its UUID, and what its drive holds is not swept away."""
        id = str(server.uuid)
        if self._by_uuid.get(id) is not chassis:
            for old in [key for key, known in self._by_uuid.items() if known is chassis]:
                del self._by_uuid[old]
            self._by_uuid[id] = chassis
            if self._aggregate is not None:
                _tell_subscribers(self._services[self._aggregate], id, chassis)
        if not self._swept and server.media is not None:
            self._shelf.hold(server.media, chassis.name)

    def _clean_up(self) -> None:
        """Once, when it is known what all drives hold: images that none of them holds are of a former life."""
        if not self._swept:
            self._shelf.sweep()
            self._swept = True


def _observe(chassis: Chassis) -> BmcState:
    boot = chassis.memory.boot
    try:
        power, media = chassis.server().power, chassis.drive().url
        return BmcState(chassis.name, chassis.address, power, boot, media, seen=True, starting=chassis.starting)
    except NoSuchServer:
        return BmcState(chassis.name, chassis.address, None, boot, None, seen=True)
    except Unreachable:
        return BmcState(chassis.name, chassis.address, None, boot, None, seen=False)


def _tell_subscribers(service: Service, id: str, chassis: Chassis) -> None:
    origin = f"{ROOT}/Systems/{id}"
    chassis.log.listen(lambda entry: service.subscriptions.publish(record(entry, origin, chassis.name)))


def _open_listener(address: str, port: int, make: MakeSocket) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = make(family, socket.SOCK_STREAM, 0)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except BaseException:
        listener.close()
        raise
    return listener
