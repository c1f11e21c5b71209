"""Where faults are asked for: the same words for the BMCs of a lab and for those of `rackless bmc serve`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from rackless.bmc.faults import Fault, Faults, Operation, Trouble
from rackless.errors import InputError
from rackless.events import Bus

CONTROL = "control"
"""The control socket of `rackless bmc serve`, in its folder."""


class FaultDesk:
    def __init__(self, faults: Faults, servers: Callable[[], Iterable[str]], bus: Bus) -> None:
        self._faults = faults
        self._servers = servers
        self._bus = bus

    def list(self) -> list[dict[str, Any]]:
        return [_shown(fault) for fault in self._faults.list()]

    def add(self, wish: dict[str, Any]) -> dict[str, Any]:
        servers = list(self._servers())
        if wish["server"] is not None and wish["server"] not in servers:
            raise InputError(f"there is no server {wish['server']}", hint=f"there is: {', '.join(servers)}")
        operation = Operation(wish["operation"]) if wish["operation"] else None
        fault = self._faults.add(Fault(**{**wish, "trouble": Trouble(wish["trouble"]), "operation": operation}))
        self._bus.info(f"fault {fault.id}: {fault.describe()}")
        return _shown(fault)

    def clear(self, ids: Iterable[int]) -> int:
        return self._faults.clear(ids)

    # as a control socket wants them

    @property
    def looks(self) -> dict[str, Callable[[], Awaitable[Any]]]:
        async def faults() -> Any:
            return self.list()

        async def health() -> Any:
            return {}

        return {"faults": faults, "health": health}

    @property
    def works(self) -> dict[str, Callable[[dict[str, Any]], Awaitable[Any]]]:
        async def add(arguments: dict[str, Any]) -> Any:
            return self.add(arguments)

        async def clear(arguments: dict[str, Any]) -> Any:
            return self.clear(arguments["ids"])

        return {"add-fault": add, "clear-faults": clear}


def _shown(fault: Fault) -> dict[str, Any]:
    return {**fault.to_json(), "text": fault.describe()}
