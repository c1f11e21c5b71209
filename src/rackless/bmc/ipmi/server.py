"""IPMI on UDP: sockets, timers and tasks around the pure endpoint of each BMC.

`IpmiServer` has any number of ports, each with one BMC behind it: 623 on every BMC's own address, or one port each on
one address. A mistake of ours while answering is told to the bus and is an answer too, never the end of a socket.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

from rackless.bmc.chassis import PoweredOff
from rackless.bmc.ipmi.command import Call, Code, Refused, Table
from rackless.bmc.ipmi.commands import TABLE
from rackless.bmc.ipmi.controller import Controller
from rackless.bmc.ipmi.endpoint import Endpoint
from rackless.bmc.ipmi.session import Peer, Privilege, Session
from rackless.bmc.ipmi.suites import SAFE
from rackless.bmc.ipmi.udp import UdpTransport
from rackless.bmc.ipmi.wire import Request
from rackless.bmc.sockets import MakeSocket
from rackless.errors import MachineError, RacklessError
from rackless.events import Bus
from rackless.ports.hypervisor import NoSuchServer, Unreachable

PORT = 623
_IN_WORK = 8
_SWEEP_SECONDS = 5.0


class Port(asyncio.DatagramProtocol):
    """One BMC at one address and port."""

    def __init__(
        self,
        controller: Controller,
        bus: Bus,
        *,
        suites: tuple[int, ...] = SAFE,
        table: Table = TABLE,
        now: Callable[[], float] = time.monotonic,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.controller = controller
        self.endpoint = Endpoint(controller, self, now=now, random=random, suites=suites)
        controller.restart = self._restart
        controller.emit = self._emit
        self._bus = bus
        self._table = table
        self._transport: asyncio.DatagramTransport | None = None
        self._work: set[asyncio.Task[None]] = set()

    # the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        peer = (addr[0], addr[1])
        for answer in self.endpoint.receive(data, peer):
            self.send(answer, peer)

    def send(self, datagram: bytes, peer: Peer) -> None:
        if self._transport is not None:
            self._transport.sendto(datagram, peer)

    def _emit(self, session: Session, kind: int, payload: bytes) -> None:
        self.send(self.endpoint.seal(session, kind, payload), session.peer)

    # what is asked

    def __call__(self, session: Session | None, request: Request, peer: Peer) -> bytes | None:
        command = self._table.get((request.netfn, request.command))
        if command is None:
            return bytes((Code.INVALID_COMMAND,))
        privilege = session.privilege if session else Privilege.NONE
        if privilege < command.privilege:
            return bytes((Code.INSUFFICIENT_PRIVILEGE,))
        try:
            result = command.run(Call(self.controller, self.endpoint, request.data, peer, session))
        except Exception as error:  # the edge: a mistake of ours is an answer too, and is told
            return self._refusal(request, error)
        if isinstance(result, bytes):
            return b"\x00" + result
        return self._later(session, request, result)

    def only_reads(self, request: Request) -> bool:
        command = self._table.get((request.netfn, request.command))
        return command is not None and command.privilege <= Privilege.USER

    def _later(self, session: Session | None, request: Request, work: Awaitable[bytes]) -> bytes | None:
        assert session is not None, "what takes time needs a session"
        task = asyncio.create_task(self._finish(session, request, work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return None

    async def _finish(self, session: Session, request: Request, work: Awaitable[bytes]) -> None:
        try:
            answer = b"\x00" + await work
        except Exception as error:  # as above
            answer = self._refusal(request, error)
        for datagram in self.endpoint.answer(session, request, answer):
            self.send(datagram, session.peer)

    def _refusal(self, request: Request, error: Exception) -> bytes:
        match error:
            case Refused():
                return bytes((error.code,))
            case Unreachable():
                return bytes((Code.BUSY,))
            case NoSuchServer():
                return bytes((Code.NOT_PRESENT,))
            case PoweredOff():
                return bytes((Code.NOT_IN_THIS_STATE,))
        what = f"IPMI at {self.controller.chassis.name}: command {request.netfn:#04x} {request.command:#04x}"
        text = str(error) if isinstance(error, RacklessError) else f"{type(error).__name__}: {error}"
        self._bus.warn(f"{what}: {text}")
        return bytes((Code.UNSPECIFIED,))

    # time

    def sweep(self) -> None:
        """End the sessions nobody uses, and those of users who may not log in any more."""
        self.endpoint.expire()
        for session in list(self.endpoint.sessions.values()):
            if self.controller.find(session.login.name.encode()) != session.login:
                self.endpoint.close(session)

    def _restart(self, seconds: float) -> None:
        sessions = list(self.endpoint.sessions.values())
        asyncio.get_running_loop().call_later(seconds, self._end, sessions)

    def _end(self, sessions: list[Session]) -> None:
        for session in sessions:
            self.endpoint.close(session)

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        self._end(list(self.endpoint.sessions.values()))
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await self.controller.close()


class IpmiServer:
    def __init__(self, bus: Bus, *, suites: tuple[int, ...] = SAFE, sockets: MakeSocket = socket.socket) -> None:
        self._bus = bus
        self._suites = suites
        self._sockets = sockets
        self._ports: dict[Peer, Port] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    def listen(self, controller: Controller, address: str, port: int = PORT) -> Port:
        protocol = Port(controller, self._bus, suites=self._suites)
        try:
            UdpTransport(address, port, protocol, self._sockets)
        except OSError as error:
            raise MachineError(
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
