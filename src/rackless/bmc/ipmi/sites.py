"""Where a fleet's BMCs listen for IPMI: port 623 on each one's own address, or one port each on a common address.

The fleet says which chassis there are; this keeps one port open for each of them.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rackless.bmc.core.accounts import Accounts
from rackless.bmc.core.audit import Audit
from rackless.bmc.core.chassis import Chassis
from rackless.bmc.core.faults import Faults
from rackless.bmc.core.sockets import MakeSocket
from rackless.bmc.ipmi.controller import Lan, ManagementController
from rackless.bmc.ipmi.server import PORT, IpmiServer
from rackless.bmc.ipmi.session import Peer
from rackless.bmc.ipmi.suites import SAFE
from rackless.events import Bus
from rackless.ports.console import Consoles


@dataclass(frozen=True, slots=True)
class Ipmi:
    """How a fleet speaks IPMI."""

    port: int = PORT
    base_port: int | None = None
    """One port per server from here on, in the order of their names, instead of one address each."""
    address: str | None = None
    """The common address of those ports; None is each BMC's own."""
    suites: tuple[int, ...] = SAFE
    """Cipher suites. Those that do not encrypt must be asked for."""
    mask: str = "255.255.255.0"
    gateway: str = "0.0.0.0"
    consoles: Consoles | None = None
    """For Serial over LAN; without them it is switched off."""


class Sites:
    def __init__(
        self,
        options: Ipmi,
        bus: Bus,
        accounts: Callable[[Chassis], Accounts],
        sockets: MakeSocket = socket.socket,
        *,
        faults: Faults | None = None,
        audit: Audit | None = None,
    ) -> None:
        self._options = options
        self._bus = bus
        self._accounts = accounts
        self._faults = faults
        self._audit = audit
        self._server = IpmiServer(bus, suites=options.suites, sockets=sockets)
        self._open: dict[str, Peer] = {}

    def ensure(self, wanted: Mapping[str, Chassis], ports: Mapping[str, int | None] | None = None) -> None:
        """A port for each of these; those that have one keep it. `ports` says which, and of whom there is none."""
        for number, name in enumerate(sorted(wanted)):
            port = (ports or {}).get(name, self._options.port)
            if name not in self._open and port is not None:
                self._listen(wanted[name], number, self._options.port if port == PORT else port)

    async def retire(self, server: str) -> None:
        if (place := self._open.pop(server, None)) is not None:
            await self._server.close(*place)

    async def stop(self) -> None:
        await self._server.stop()
        self._open.clear()

    def place(self, server: str) -> Peer:
        """The address and port of a server's BMC."""
        return self._open[server]

    def port(self, server: str) -> int | None:
        place = self._open.get(server)
        return place[1] if place else None

    def controller(self, server: str) -> ManagementController:
        return self._server.port(*self.place(server)).controller

    def _listen(self, chassis: Chassis, number: int, port: int | None = None) -> None:
        options = self._options
        port = (port or options.port) if options.base_port is None else self._free_port(options.base_port + number)
        address = options.address or chassis.address
        lan = Lan(address, options.mask, options.gateway, port)
        controller = ManagementController(
            chassis,
            self._accounts(chassis),
            self._bus,
            lan=lan,
            consoles=options.consoles,
            faults=self._faults,
            audit=self._audit,
        )
        self._server.listen(controller, address, port)
        self._open[chassis.name] = (address, port)

    def _free_port(self, port: int) -> int:
        """A server that comes later does not move the others."""
        taken = {place[1] for place in self._open.values()}
        while port in taken:
            port += 1
        return port
