"""Faults on demand as IPMI shows them: an answer that is late, lost or a refusal.

Checked before a command is carried out. `endpoint` has the faults of login, the chassis that of stuck power.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rackless.bmc.core.faults import Faults, Operation, Trouble
from rackless.bmc.ipmi import wire
from rackless.bmc.ipmi.command import Code

_CODES: Final = {
    400: Code.INVALID_FIELD,
    401: Code.INSUFFICIENT_PRIVILEGE,
    403: Code.INSUFFICIENT_PRIVILEGE,
    404: Code.NOT_PRESENT,
    409: Code.NOT_IN_THIS_STATE,
    503: Code.BUSY,
}


@dataclass(frozen=True, slots=True)
class Stumble:
    seconds: float = 0.0
    lost: bool = False
    code: int | None = None


def strike(faults: Faults, server: str, operation: Operation) -> Stumble | None:
    """What shall go wrong with this request, if anything."""
    if not faults.any:
        return None
    late = faults.strike(Trouble.DELAY, server, operation)
    lost = faults.strike(Trouble.DROP, server, operation)
    refused = faults.strike(Trouble.REFUSE, server, operation)
    if late is None and lost is None and refused is None:
        return None
    code = _CODES.get(refused.status, Code.UNSPECIFIED) if refused else None
    return Stumble(late.seconds if late else 0.0, lost is not None, code)


def begins_login(datagram: bytes) -> bool:
    return len(datagram) > 5 and datagram[4] == wire.AUTH_RMCPP and datagram[5] == wire.OPEN_REQUEST
