"""All BMCs of a lab in one asyncio process: their listeners, and the one pair of eyes they share.

The fleet listens at every BMC's address and follows the hypervisor's events into the chassis, so that reading never
costs the hypervisor anything. When the hypervisor goes away every chassis says that it cannot see, until all servers
were looked at again; a wrong answer is worse than none.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from rackless.bmc.accounts import Account, Accounts
from rackless.bmc.chassis import Chassis
from rackless.bmc.ipmi.sites import Ipmi, Sites
from rackless.bmc.media import Limits, MediaShelf
from rackless.bmc.redfish.events import record
from rackless.bmc.redfish.http import HttpServer
from rackless.bmc.redfish.resource import ROOT
from rackless.bmc.redfish.server import RedfishServer
from rackless.bmc.redfish.service import Service
from rackless.bmc.redfish.subscriptions import Subscriptions
from rackless.bmc.redfish.tree import routes
from rackless.bmc.state import BootOverride, JsonFile
from rackless.errors import MachineError, RacklessError
from rackless.events import Bus
from rackless.ports.hypervisor import Change, Hypervisor, NoSuchServer, Power, ServerEvent, ServerState, Unreachable


@dataclass(frozen=True, slots=True)
class Bmc:
    """A server's name, and the address its BMC has for itself."""

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
        retry_seconds: float = 1.0,
        resync_seconds: float = 30.0,
    ) -> None:
        self._hypervisor = hypervisor
        self._aggregate = aggregate
        self._by_uuid: dict[str, Chassis] = {}
        self._bus = bus
        self._tls = tls
        self._port = port
        self._state = state
        self._retry_seconds = retry_seconds
        self._resync_seconds = resync_seconds
        self._media_ca = media_ca
        self._shelf = MediaShelf(media, trust=media_ca, limits=media_limits)
        self._bmcs = tuple(bmcs)
        self._accounts = tuple(accounts)
        self._chassis: dict[str, Chassis] = {}
        self._services: dict[str, Service] = {}
        self._runner: web.ServerRunner | None = None
        self._following: asyncio.Task[None] | None = None
        self._reactions: set[asyncio.Task[None]] = set()
        self._swept = False
        self._seeing = True
        self.ipmi = Sites(ipmi, bus, lambda chassis: self._services[chassis.address].accounts) if ipmi else None

    async def start(self) -> None:
        """Listen at every BMC's address; returns when all answer."""
        self._state.mkdir(parents=True, exist_ok=True, mode=0o700)
        for bmc in self._bmcs:
            file = JsonFile(self._state / f"{bmc.server}.json")
            chassis = Chassis(bmc.server, bmc.address, self._hypervisor, self._shelf, file, self._bus)
            self._chassis[bmc.server] = chassis
            self._services[bmc.address] = self._service(bmc.address, {"1": chassis})
        if self._aggregate is not None:
            self._services[self._aggregate] = self._service(self._aggregate, self._by_uuid)
        held = {name: chassis.memory.media for name, chassis in self._chassis.items()}
        self._shelf.open({name: Path(media.file) for name, media in held.items() if media})
        with suppress(Unreachable):
            await self._see_all()
        self._following = asyncio.create_task(self._follow())
        try:
            await self._listen()
            if self.ipmi is not None:
                await self.ipmi.ensure(self._chassis)
        except BaseException:
            await self.stop()
            raise

    def _service(self, address: str, systems: Mapping[str, Chassis]) -> Service:
        accounts = Accounts(self._accounts, file=JsonFile(self._state / f"accounts-{address}.json"))
        told = Subscriptions(JsonFile(self._state / f"subscriptions-{address}.json"), self._bus, trust=self._media_ca)
        service = Service(address, systems, accounts, told, self._port, self._tls is not None)
        for id, chassis in systems.items():
            self._tell_subscribers(service, id, chassis)
        return service

    def _tell_subscribers(self, service: Service, id: str, chassis: Chassis) -> None:
        origin = f"{ROOT}/Systems/{id}"
        chassis.log.listen(lambda entry: service.subscriptions.publish(record(entry, origin, chassis.name)))

    async def stop(self) -> None:
        if self._following is not None:
            self._following.cancel()
        for reaction in self._reactions:
            reaction.cancel()
        await asyncio.gather(*([self._following] if self._following else []), *self._reactions, return_exceptions=True)
        if self.ipmi is not None:
            await self.ipmi.stop()
        for service in self._services.values():
            await service.close()
        if self._runner is not None:
            await self._runner.cleanup()
        for chassis in self._chassis.values():
            chassis.close()
        await self._shelf.close()

    def observe(self) -> list[BmcState]:
        return [self._observe(chassis) for chassis in self._chassis.values()]

    def chassis(self, server: str) -> Chassis:
        return self._chassis[server]

    def service(self, address: str) -> Service:
        return self._services[address]

    def _observe(self, chassis: Chassis) -> BmcState:
        boot = chassis.memory.boot
        try:
            return BmcState(chassis.name, chassis.address, chassis.server().power, boot, chassis.drive().url, seen=True)
        except NoSuchServer:
            return BmcState(chassis.name, chassis.address, None, boot, None, seen=True)
        except Unreachable:
            return BmcState(chassis.name, chassis.address, None, boot, None, seen=False)

    # listening

    async def _listen(self) -> None:
        server = RedfishServer(self._services.get, routes(), self._bus)
        self._runner = web.ServerRunner(HttpServer(server.answer), shutdown_timeout=2.0)
        await self._runner.setup()
        for address in self._services:
            try:
                await web.SockSite(
                    self._runner, _socket(address, self._port), ssl_context=self._tls, backlog=128
                ).start()
            except OSError as error:
                raise MachineError(
                    f"the BMC address {address} cannot be listened at",
                    why=f"port {self._port}: {error}",
                    hint="is the address on an interface of this lab, and the port free? `ss -ltnp` shows who has it",
                ) from error

    # seeing

    async def _follow(self) -> None:
        """Keep every chassis true, for ever."""
        while True:
            try:
                await self._listen_to_changes()
            except RacklessError as error:
                for chassis in self._chassis.values():
                    chassis.lost_sight()
                if self._seeing:
                    self._seeing = False
                    self._bus.warn(f"the BMCs cannot see their servers: {error}")
            await asyncio.sleep(self._retry_seconds)

    async def _listen_to_changes(self) -> None:
        events = aiter(self._hypervisor.events())
        next_event: asyncio.Task[ServerEvent] = asyncio.ensure_future(anext(events))
        try:
            await asyncio.sleep(0)  # be listening before looking, so that nothing falls between
            await self._see_all()
            while True:
                done, _ = await asyncio.wait({next_event}, timeout=self._resync_seconds)
                if not done:
                    await self._see_all()
                    continue
                try:
                    event = next_event.result()
                except StopAsyncIteration:
                    raise Unreachable("the hypervisor tells nothing any more") from None
                next_event = asyncio.ensure_future(anext(events))
                self._react(event)
        finally:
            next_event.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration, RacklessError):
                await next_event

    def _react(self, event: ServerEvent) -> None:
        chassis = self._chassis.get(event.name)
        if chassis is not None:
            task = asyncio.create_task(self._tell(chassis, event.change))
            self._reactions.add(task)
            task.add_done_callback(self._reactions.discard)

    async def _tell(self, chassis: Chassis, change: Change) -> None:
        try:
            await chassis.changed(change)
            if (server := chassis.present()) is not None:
                self._know(chassis, server)
        except (Unreachable, NoSuchServer):
            pass  # the first is told by `_follow`, the second seen by the next look
        except RacklessError as error:
            self._bus.warn(f"{chassis.name} could not follow its boot override: {error}")

    def _know(self, chassis: Chassis, server: ServerState) -> None:
        """The aggregate finds servers by UUID, which is known when a server is first seen."""
        id = str(server.uuid)
        if self._by_uuid.get(id) is chassis:
            return
        for old in [key for key, known in self._by_uuid.items() if known is chassis]:
            del self._by_uuid[old]
        self._by_uuid[id] = chassis
        if self._aggregate is not None:
            self._tell_subscribers(self._services[self._aggregate], id, chassis)

    async def _see_all(self) -> None:
        before = {name: chassis.glances for name, chassis in self._chassis.items()}
        servers = {server.name: server for server in await self._hypervisor.servers()}
        for name, chassis in self._chassis.items():
            server = servers.get(name)
            if chassis.glances == before[name]:
                chassis.saw(server)
            if server is not None:
                self._know(chassis, server)
            if not self._swept and server is not None and server.media is not None:
                self._shelf.hold(server.media, name)
        self._seeing = True
        if not self._swept:
            self._shelf.sweep()
            self._swept = True


def _socket(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except BaseException:
        listener.close()
        raise
    return listener
