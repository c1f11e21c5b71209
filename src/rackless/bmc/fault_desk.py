"""Takes requests for faults (`rackless bmc fault`), for the BMCs of a lab and for those of `rackless bmc serve` alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import TypeVar

from rackless.bmc.core.faults import BmcFault, Faults, Operation, Trouble
from rackless.codec import decode, encode
from rackless.errors import InputError
from rackless.events import Bus
from rackless.protocol.exchange import Nothing, Served
from rackless.protocol.messages import (
    ADD_FAULT,
    CLEAR_FAULTS,
    FAULTS,
    HEALTH,
    ClearedFaults,
    ClearFaults,
    Daemon,
    FaultList,
    FaultStatus,
    FaultWish,
)

Known = TypeVar("Known", bound=StrEnum)

CONTROL = "control"
"""The control socket of `rackless bmc serve`, in its folder."""


class FaultDesk:
    def __init__(self, faults: Faults, servers: Callable[[], Iterable[str]], bus: Bus) -> None:
        self._faults = faults
        self._servers = servers
        self._bus = bus

    def list(self) -> tuple[FaultStatus, ...]:
        return tuple(_shown(fault) for fault in self._faults.list())

    def add(self, wish: FaultWish) -> FaultStatus:
        servers = list(self._servers())
        if wish.server is not None and wish.server not in servers:
            raise InputError(f"there is no server {wish.server}", hint=f"there is: {', '.join(servers)}")
        fault = self._faults.add(
            BmcFault(
                _one_of(Trouble, wish.trouble),
                wish.server,
                _one_of(Operation, wish.operation) if wish.operation else None,
                probability=wish.probability,
                count=wish.count,
                seconds=wish.seconds,
                status=wish.status,
                rate=wish.rate,
            )
        )
        self._bus.tell("fault-added", level="info", id=fault.id, text=fault.describe())
        return _shown(fault)

    def clear(self, ids: Iterable[int]) -> int:
        return self._faults.clear(ids)

    def serve(self) -> Iterator[Served]:
        """As a control socket wants them."""

        async def health(_: Nothing) -> Daemon:
            return Daemon()

        async def faults(_: Nothing) -> FaultList:
            return FaultList(self.list())

        async def add(asked: FaultWish) -> FaultStatus:
            return self.add(asked)

        async def clear(asked: ClearFaults) -> ClearedFaults:
            return ClearedFaults(self.clear(asked.ids))

        yield from (HEALTH.by(health), FAULTS.by(faults), ADD_FAULT.by(add), CLEAR_FAULTS.by(clear))


def _one_of(kind: type[Known], word: str) -> Known:
    try:
        return kind(word)
    except ValueError as error:
        known = ", ".join(one.value for one in kind)
        raise InputError(f"there is no {kind.__name__.lower()} {word}", hint=f"there is: {known}") from error


def _shown(fault: BmcFault) -> FaultStatus:
    return decode(FaultStatus, {**encode(fault), "text": fault.describe()})
