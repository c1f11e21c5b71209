"""Carries out a message: finds the command, checks the privilege, runs it, writes the audit log.

Between the pure endpoint and the commands. A command that takes time is a task, and its answer goes out when it is done. An
exception of ours is published on the bus and answered with an error code.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from rackless.bmc.core.power import PoweredOff
from rackless.bmc.ipmi.command import Code, Command, CommandCall, CommandRefused, Table
from rackless.bmc.ipmi.controller import ManagementController
from rackless.bmc.ipmi.endpoint import Endpoint
from rackless.bmc.ipmi.faults import Stumble, strike
from rackless.bmc.ipmi.session import IpmiSession, Peer, Privilege
from rackless.bmc.ipmi.wire import Request
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.hypervisor import NoSuchServer, Unreachable

_MOST_AT_WORK = 64
"""Commands that wait for something, each of them a task; whoever sends more is told to come again."""


class Work:
    endpoint: Endpoint
    """Where answers that come later are sealed. Set once both exist."""

    def __init__(
        self, controller: ManagementController, table: Table, bus: Bus, send: Callable[[bytes, Peer], None]
    ) -> None:
        self._controller = controller
        self._table = table
        self._bus = bus
        self._send = send
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, session: IpmiSession | None, request: Request, peer: Peer) -> bytes | None:
        command = self._table.get((request.netfn, request.command))
        if command is None:
            return bytes((Code.INVALID_COMMAND,))
        if (session.privilege if session else Privilege.NONE) < command.privilege:
            return self._answered(command, session, request, bytes((Code.INSUFFICIENT_PRIVILEGE,)))
        faults = self._controller.faults
        if session is not None and faults.any:
            stumble = strike(faults, self._controller.chassis.name, command.operation)
            if stumble is not None:
                self._later(session, request, self._stumble(stumble, command, session, request, peer))
                return None
        if len(self._tasks) >= _MOST_AT_WORK:
            return bytes((Code.BUSY,))
        answer = self._run(command, session, request, peer)
        if isinstance(answer, bytes):
            return answer
        assert session is not None, "what takes time needs a session"
        self._later(session, request, answer)
        return None

    def only_reads(self, request: Request) -> bool:
        command = self._table.get((request.netfn, request.command))
        return command is not None and command.only_reads

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(
        self, command: Command, session: IpmiSession | None, request: Request, peer: Peer
    ) -> bytes | Coroutine[Any, Any, bytes]:
        try:
            result = command.run(CommandCall(self._controller, self.endpoint, request.data, peer, session))
        except Exception as error:  # the edge
            return self._answered(command, session, request, self._refusal(request, error))
        if isinstance(result, bytes):
            return self._answered(command, session, request, b"\x00" + result)
        return self._finish(command, session, request, result)

    async def _finish(
        self, command: Command, session: IpmiSession | None, request: Request, work: Awaitable[bytes]
    ) -> bytes:
        try:
            answer = b"\x00" + await work
        except Exception as error:  # the edge
            answer = self._refusal(request, error)
        return self._answered(command, session, request, answer)

    async def _stumble(
        self, stumble: Stumble, command: Command, session: IpmiSession, request: Request, peer: Peer
    ) -> bytes | None:
        """A fault that was asked for comes first."""
        await asyncio.sleep(stumble.seconds)
        if stumble.lost:
            return None
        if stumble.code is not None:
            return self._answered(command, session, request, bytes((stumble.code,)))
        answer = self._run(command, session, request, peer)
        return answer if isinstance(answer, bytes) else await answer

    def _later(self, session: IpmiSession, request: Request, work: Coroutine[Any, Any, bytes | None]) -> None:
        task = asyncio.create_task(self._answer(session, request, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, session: IpmiSession, request: Request, work: Coroutine[Any, Any, bytes | None]) -> None:
        answer = await work
        if answer is None:
            session.answers.pop(request, None)  # as if it had never come
            return
        for datagram in self.endpoint.answer(session, request, answer):
            self._send(datagram, session.peer)

    def _answered(self, command: Command, session: IpmiSession | None, request: Request, answer: bytes) -> bytes:
        """Write changes, and refused ones, into the audit log."""
        if session is not None and not command.only_reads:
            self._controller.audit(
                session.login.name,
                session.peer,
                command.name,
                f"{answer[0]:#04x}",
                ok=answer[0] == Code.OK,
                details=command.details(request.data),
            )
        return answer

    def _refusal(self, request: Request, error: Exception) -> bytes:
        match error:
            case CommandRefused():
                return bytes((error.code,))
            case Unreachable():
                return bytes((Code.BUSY,))
            case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self._tell(request, str(error))
                return bytes((Code.OUT_OF_SPACE,))
            case NoSuchServer():
                return bytes((Code.NOT_PRESENT,))
            case PoweredOff():
                return bytes((Code.NOT_IN_THIS_STATE,))
        self._tell(request, str(error) if isinstance(error, RacklessError) else f"{type(error).__name__}: {error}")
        return bytes((Code.UNSPECIFIED,))

    def _tell(self, request: Request, why: str) -> None:
        server = self._controller.chassis.name
        what = f"command {request.netfn:#04x} {request.command:#04x}"
        self._bus.tell("ipmi-failed", subject=f"server/{server}", server=server, request=what, why=why)
