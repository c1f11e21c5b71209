"""IPMI on UDP: sockets and timers around the pure endpoint of each BMC.

`IpmiServer` has any number of ports, each with one BMC behind it: 623 on every BMC's own address, or one port each on
one address.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from typing import Any, cast

from rackless.bmc.core.faults import Operation
from rackless.bmc.core.sockets import MakeSocket
from rackless.bmc.ipmi.command import Table
from rackless.bmc.ipmi.commands import TABLE
from rackless.bmc.ipmi.controller import ManagementController
from rackless.bmc.ipmi.endpoint import Endpoint
from rackless.bmc.ipmi.faults import begins_login, strike
from rackless.bmc.ipmi.session import IpmiSession, Peer
from rackless.bmc.ipmi.suites import SAFE
from rackless.bmc.ipmi.udp import UdpTransport
from rackless.bmc.ipmi.work import Work
from rackless.errors import HypervisorError
from rackless.events import Bus

PORT = 623
_SWEEP_SECONDS = 5.0


class Port(asyncio.DatagramProtocol):
    """One BMC at one address and port."""

    def __init__(
        self,
        controller: ManagementController,
        bus: Bus,
        *,
        suites: tuple[int, ...] = SAFE,
        table: Table = TABLE,
        now: Callable[[], float] = lambda: time.monotonic(),
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.controller = controller
        self._work = Work(controller, table, bus, self.send)
        self.endpoint = self._work.endpoint = Endpoint(controller, self._work, now=now, random=random, suites=suites)
        controller.restart = self._restart
        controller.emit = self._emit
        controller.review = self.review
        self._transport: asyncio.DatagramTransport | None = None

    # the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        peer = (addr[0], addr[1])
        if self.controller.faults.any and begins_login(data):
            stumble = strike(self.controller.faults, self.controller.chassis.name, Operation.LOGIN)
            if stumble is not None:
                if not stumble.lost and stumble.code is None:
                    asyncio.get_running_loop().call_later(stumble.seconds, self._receive, data, peer)
                return
        self._receive(data, peer)

    def _receive(self, datagram: bytes, peer: Peer) -> None:
        for answer in self.endpoint.receive(datagram, peer):
            self.send(answer, peer)

    def send(self, datagram: bytes, peer: Peer) -> None:
        if self._transport is not None:
            self._transport.sendto(datagram, peer)

    def _emit(self, session: IpmiSession, kind: int, payload: bytes) -> None:
        self.send(self.endpoint.seal(session, kind, payload), session.peer)

    # time

    def sweep(self) -> None:
        """End the sessions nobody uses, and those of users who may not log in any more as they did."""
        self.endpoint.expire()
        self.review()

    def review(self) -> None:
        for session in list(self.endpoint.sessions.values()):
            if session.changes_itself or session.closing:  # it is answered first
                continue
            if self.controller.find(session.login.name.encode()) != session.login:
                self.endpoint.close(session)

    def _restart(self, seconds: float) -> None:
        sessions = list(self.endpoint.sessions.values())
        asyncio.get_running_loop().call_later(seconds, self._end, sessions)

    def _end(self, sessions: list[IpmiSession]) -> None:
        for session in sessions:
            self.endpoint.close(session)

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        self._end(list(self.endpoint.sessions.values()))
        await self._work.close()
        await self.controller.close()


class IpmiServer:
    def __init__(self, bus: Bus, *, suites: tuple[int, ...] = SAFE, sockets: MakeSocket = socket.socket) -> None:
        self._bus = bus
        self._suites = suites
        self._sockets = sockets
        self._ports: dict[Peer, Port] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    def listen(self, controller: ManagementController, address: str, port: int = PORT) -> Port:
        protocol = Port(controller, self._bus, suites=self._suites)
        try:
            UdpTransport(address, port, protocol, self._sockets)
        except OSError as error:
            raise HypervisorError(
                f"the BMC of {controller.chassis.name} cannot be listened at by IPMI",
                why=f"UDP {address}, port {port}: {error}",
                hint="is the address on an interface of this lab, and the port free? `ss -lunp` shows who has it",
            ) from error
        self._ports[address, port] = protocol
        if self._sweeping is None:
            self._sweep()
        return protocol

    def port(self, address: str, port: int = PORT) -> Port:
        return self._ports[address, port]

    async def close(self, address: str, port: int = PORT) -> None:
        if (known := self._ports.pop((address, port), None)) is not None:
            await known.close()

    async def stop(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for address, port in list(self._ports):
            await self.close(address, port)

    def _sweep(self) -> None:
        for port in self._ports.values():
            port.sweep()
        self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)
