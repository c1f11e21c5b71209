"""All BMCs of a lab in one asyncio process: their state files, their view of the servers, their listeners.

labd and `rackless bmc serve` make one `Fleet` each. `ensure` adds and removes BMCs while the others keep serving.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from urllib.parse import quote

from rackless.bmc.core import restore
from rackless.bmc.core.accounts import Account, Accounts
from rackless.bmc.core.audit import Audit
from rackless.bmc.core.chassis import Chassis
from rackless.bmc.core.disk import StateDisk
from rackless.bmc.core.faults import Faults
from rackless.bmc.core.media import Limits, MediaShelf
from rackless.bmc.core.observer import FleetObserver
from rackless.bmc.core.power import Reset
from rackless.bmc.core.sockets import Forbids, MakeSocket, Names, no_site, plain
from rackless.bmc.core.start_limit import Starts
from rackless.bmc.core.state import BootOverride, JsonFile
from rackless.bmc.ipmi.server import PORT as IPMI_PORT
from rackless.bmc.ipmi.sites import Ipmi, Sites
from rackless.bmc.redfish.doors import Bounds, Doors
from rackless.bmc.redfish.events import record
from rackless.bmc.redfish.http import HttpServer
from rackless.bmc.redfish.resource import ROOT
from rackless.bmc.redfish.server import RedfishServer
from rackless.bmc.redfish.service import Service
from rackless.bmc.redfish.subscriptions import Subscriptions
from rackless.bmc.redfish.tree import routes
from rackless.errors import HypervisorError
from rackless.events import Bus
from rackless.ports.hypervisor import Hypervisor, NoSuchServer, Power, ServerState, Unreachable

_EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Bmc:
    """A server's name, and the address its BMC has for itself, or the aggregate's when it has none.

    A site may have several BMCs at one address: by port, or by the ids of their systems behind one port.
    """

    server: str
    address: str
    port: int | None = None
    """Of Redfish, where it is not the fleet's."""
    http: bool = False
    """Redfish without TLS, in a fleet that has it."""
    system: str = "1"
    account: Account | None = None
    """Who may log in, besides those of the other BMCs at the same place; None is the fleet's accounts."""
    redfish: bool = True
    """False where it answers IPMI only."""
    ipmi: int | None = IPMI_PORT
    """Its port of IPMI at its address; None where it answers none."""


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
        bounds: Bounds | None = None,
        shared: Collection[str] = (),
    ) -> None:
        """`shared` are addresses that BMCs have together with others, whom BMCs may ask."""
        self._bmcs = tuple(bmcs)
        self._shared = frozenset(shared)
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
        self._names = Names()
        self._shelf = MediaShelf(
            media, trust=media_ca, limits=media_limits, sockets=sockets, forbids=self._is_forbidden, names=self._names
        )
        self._starts = starts
        self.faults = faults or Faults()
        self._disk = StateDisk(complain=bus.warn)
        self._audit = Audit(audit, bus)
        self._swept = False
        self._chassis: dict[str, Chassis] = {}
        self._by_uuid: dict[str, Chassis] = {}
        self._services: dict[str, Service] = {}
        """By their place: the address, with `:PORT` where that is not the fleet's."""
        self._known: dict[str, Bmc] = {}
        self._bounds = bounds
        self._doors: Doors | None = None
        self._observer = FleetObserver(
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
        self._doors = Doors(HttpServer(server.answer), self._tls, self._bounds)
        try:
            await self._observer.start()
            self._listen()
        except BaseException:
            await self.stop()
            raise

    async def ensure(self, bmcs: Iterable[Bmc]) -> bool:
        """Have exactly these BMCs; the others go on undisturbed. True when something changed."""
        wanted = {bmc.server: bmc for bmc in bmcs}
        known = dict(self._known)
        gone = [bmc for server, bmc in known.items() if wanted.get(server) != bmc]
        new = [bmc for server, bmc in wanted.items() if known.get(server) != bmc]
        for bmc in gone:
            await self._retire(bmc, forget=bmc.server not in wanted)
        self._bmcs = tuple(wanted.values())
        for bmc in new:
            self._make(bmc)
        if new:
            with suppress(Unreachable):
                await self._observer.see(bmc.server for bmc in new)
            self._listen()
        return bool(gone or new)

    async def stop(self) -> None:
        await self._observer.stop()
        if self.ipmi is not None:
            await self.ipmi.stop()
        for service in self._services.values():
            await service.close()
        if self._doors is not None:
            await self._doors.stop()
        for chassis in self._chassis.values():
            chassis.close()
        if self._starts is not None:
            await self._starts.close()
        await self._shelf.close()
        await self._names.close()
        await self._disk.close()
        self._audit.close()

    async def power_returned(self, were_on: Collection[str]) -> None:
        """All servers were off for a while: start those that shall be on now, in turn as always."""
        for chassis in self._chassis.values():
            if chassis.exists and restore.starts(chassis.memory, was_on=chassis.name in were_on):
                await chassis.reset(Reset.ON)

    # looking at it

    def fetches(self, address: str, path: str) -> bool:
        """Whether the BMC at this address fetches media from this path of a URL now."""
        return self._shelf.fetches(address, path)

    def observe(self) -> list[BmcState]:
        return [_observe(chassis) for chassis in self._chassis.values()]

    def is_locked(self, server: str, username: str) -> bool:
        """Whether the account is locked for now, after wrong passwords."""
        return server in self._chassis and self._accounts_of(self._chassis[server]).is_locked(username)

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
        self._known[bmc.server] = bmc
        if bmc.address == self._aggregate:
            return
        place = self._place(bmc)
        if (there := self._services.get(place)) is None:
            self._services[place] = self._service(bmc.address, {bmc.system: chassis}, place, bmc)
        else:
            there.systems[bmc.system] = chassis
            _tell_subscribers(there, bmc.system, chassis)

    def _place(self, bmc: Bmc) -> str:
        if bmc.address == self._aggregate:
            return bmc.address
        if not bmc.redfish:
            return f"{bmc.address}/{bmc.server}"
        return bmc.address if bmc.port in (None, self._port) else f"{bmc.address}:{bmc.port}"

    def _accounts_at(self, place: str) -> tuple[Account, ...]:
        """One Redfish service has one set of accounts, whichever of its systems they were given for."""
        own = [bmc.account for bmc in self._bmcs if self._place(bmc) == place and bmc.account is not None]
        return tuple({account.username: account for account in own}.values()) or self._accounts

    def _file(self, name: str) -> JsonFile:
        return JsonFile(self._state / f"{quote(name, safe='')}.json", self._disk)

    def _service(self, address: str, systems: dict[str, Chassis], place: str = "", bmc: Bmc | None = None) -> Service:
        place = place or address
        accounts = Accounts(self._accounts_at(place), file=self._file(f"accounts-{place}"))
        subscriptions = Subscriptions(
            self._file(f"subscriptions-{place}"),
            self._bus,
            trust=self._trust,
            sockets=self._sockets,
            source=address if address != self._aggregate else None,
            forbids=self._is_forbidden,
            names=self._names,
        )
        service = Service(
            address,
            systems,
            accounts,
            subscriptions,
            (bmc.port if bmc else None) or self._port,
            self._tls is not None and not (bmc and bmc.http),
            ipmi_port=self._ipmi_port,
            redfish=bmc is None or bmc.redfish,
            aggregate=bmc is None,
            place=place,
        )
        accounts.listen(lambda _: subscriptions.review())
        manager = f"{ROOT}/Managers" if address == self._aggregate else f"{ROOT}/Managers/{next(iter(systems))}"
        service.log.listen(lambda entry: subscriptions.publish(record(entry, manager, address)))
        for id, chassis in systems.items():
            _tell_subscribers(service, id, chassis)
        return service

    def _is_forbidden(self, address: IPv4Address | IPv6Address) -> bool:
        """No BMC asks another one, or itself. An aggregate shares its address with whatever else that computer is."""
        own = str(plain(address))
        ours = own in {bmc.address for bmc in self._known.values()} - self._shared
        return self._forbids(address) or (ours and own != self._aggregate)

    async def _retire(self, bmc: Bmc, *, forget: bool) -> None:
        chassis = self._chassis.pop(bmc.server)
        self._known.pop(bmc.server)
        if self.ipmi is not None:
            await self.ipmi.retire(bmc.server)
        for id in [id for id, known in self._by_uuid.items() if known is chassis]:
            del self._by_uuid[id]
        place, alone = self._place(bmc), bmc.address != self._aggregate
        if alone:
            there = self._services[place].systems
            there.pop(bmc.system, None)
            alone = not there
        if alone:
            await self._services.pop(place).close()
            if self._doors is not None:
                self._doors.shut(place)
        chassis.close()
        if forget:
            if chassis.memory.media is not None:
                self._shelf.release(Path(chassis.memory.media.file), bmc.server)
            own = (f"accounts-{place}", f"subscriptions-{place}") if alone else ()
            for name in (bmc.server, *own):
                self._file(name).retire()

    def _ipmi_port(self, server: str) -> int | None:
        return self.ipmi.port(server) if self.ipmi is not None else None

    def _accounts_of(self, chassis: Chassis) -> Accounts:
        return self._services[self._place(self._known[chassis.name])].accounts

    def _listen(self) -> None:
        assert self._doors is not None
        for place, service in self._services.items():
            if place in self._doors or not service.redfish:
                continue
            try:
                listener = _open_listener(service.address, service.port, self._sockets)
            except OSError as error:
                raise HypervisorError(
                    f"the BMC address {service.address} cannot be listened at",
                    why=f"port {service.port}: {error}",
                    hint="is the address on an interface of this lab, and the port free? `ss -ltnp` shows who has it",
                ) from error
            self._doors.open(place, listener, tls=service.tls)
        if self.ipmi is not None:
            ports = {name: self._known[name].ipmi for name in self._chassis}
            self.ipmi.ensure(self._chassis, ports)

    def _find(self, address: str, port: int) -> Service | None:
        """The service a client came to; one that listens everywhere is met at any address."""
        found = self._services.get(f"{address}:{port}") or self._services.get(address)
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
