"""Where a fleet's BMCs listen for IPMI: port 623 on each one's own address, or one port each on a common address.

The fleet says which chassis there are; this keeps a port open for each of them and for nobody else.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rackless.bmc.accounts import Accounts
from rackless.bmc.audit import Audit
from rackless.bmc.chassis import Chassis
from rackless.bmc.faults import Faults
from rackless.bmc.ipmi.controller import Controller, Lan
from rackless.bmc.ipmi.server import PORT, IpmiServer
from rackless.bmc.ipmi.session import Peer
from rackless.bmc.ipmi.suites import SAFE
from rackless.bmc.sockets import MakeSocket
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

    def ensure(self, wanted: Mapping[str, Chassis]) -> None:
        """A port for each of these; those that have one keep it."""
        for number, name in enumerate(sorted(wanted)):
            if name not in self._open:
                self._listen(wanted[name], number)

    async def retire(self, server: str) -> None:
        if (place := self._open.pop(server, None)) is not None:
            await self._server.close(*place)

    async def stop(self) -> None:
        await self._server.stop()
        self._open.clear()

    def place(self, server: str) -> Peer:
        """The address and port of a server's BMC."""
        return self._open[server]

    def controller(self, server: str) -> Controller:
        return self._server.port(*self.place(server)).controller

    def _listen(self, chassis: Chassis, number: int) -> None:
        options = self._options
        port = options.port if options.base_port is None else self._free_port(options.base_port + number)
        address = options.address or chassis.address
        lan = Lan(address, options.mask, options.gateway, port)
        controller = Controller(
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
