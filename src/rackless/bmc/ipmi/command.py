"""What a command is: something to do, the privilege it needs, and how it says no.

The tables in `commands/` are made of these. A command gets a `CommandCall` and returns its data, at once or when it is done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from rackless.bmc.core.faults import Operation
from rackless.bmc.ipmi.session import IpmiSession, Peer, Privilege

if TYPE_CHECKING:
    from rackless.bmc.ipmi.controller import ManagementController
    from rackless.bmc.ipmi.endpoint import Endpoint


class Code(IntEnum):
    """Completion codes (table 5-2). Those below 0xC0 mean something else for each command."""

    OK = 0x00
    BUSY = 0xC0
    INVALID_COMMAND = 0xC1
    OUT_OF_SPACE = 0xC4
    RESERVATION_CANCELLED = 0xC5
    LENGTH_INVALID = 0xC7
    OUT_OF_RANGE = 0xC9
    TOO_MANY_BYTES = 0xCA
    NOT_PRESENT = 0xCB
    INVALID_FIELD = 0xCC
    ILLEGAL = 0xCD
    NO_RESPONSE = 0xCE
    INSUFFICIENT_PRIVILEGE = 0xD4
    NOT_IN_THIS_STATE = 0xD5
    UNSPECIFIED = 0xFF


class CommandRefused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"completion code {code:#04x}")
        self.code = code


@dataclass(frozen=True, slots=True)
class CommandCall:
    """One request, at one BMC, by whoever has the session."""

    controller: ManagementController
    endpoint: Endpoint
    data: bytes
    peer: Peer
    caller: IpmiSession | None
    """None outside a session: only commands that need no privilege see that."""

    @property
    def session(self) -> IpmiSession:
        if self.caller is None:
            raise CommandRefused(Code.INSUFFICIENT_PRIVILEGE)
        return self.caller

    def need(self, least: int, most: int | None = None) -> bytes:
        """The data, when it has the length it must have."""
        if not least <= len(self.data) <= (least if most is None else most):
            raise CommandRefused(Code.LENGTH_INVALID)
        return self.data


Run = Callable[[CommandCall], bytes | Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Command:
    run: Run
    privilege: Privilege
    about: Operation | None = None
    """For faults and the audit. Left out, whatever a user may do is reading."""
    details: Callable[[bytes], Mapping[str, str]] = lambda data: {}
    """What of its data may be written down."""

    @property
    def operation(self) -> Operation:
        return self.about or (Operation.READ if self.privilege <= Privilege.USER else Operation.OTHER)

    @property
    def only_reads(self) -> bool:
        return self.operation is Operation.READ

    @property
    def name(self) -> str:
        return f"{self.run.__module__.rpartition('.')[2]} {self.run.__name__.replace('_', ' ')}"


Table = Mapping[tuple[int, int], Command]
"""By network function and command."""
