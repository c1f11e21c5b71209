"""Where the BMCs of a lab live: on a bridge of the lab, or, routed, in a namespace of their own behind a router."""

from __future__ import annotations

import socket

from rackless.drivers.netlink.links import NetlinkLinks, furnish_leg
from rackless.drivers.netlink.room import Room
from rackless.events import Bus
from rackless.lab.firewall import ensure_rules, render_bmcs, render_lab
from rackless.plan.model import LabPlan
from rackless.ports.fabric import Leg
from rackless.ports.process import Processes

LEG = "bmc-up"


class BmcSite:
    def __init__(self, plan: LabPlan, links: NetlinkLinks, processes: Processes, bus: Bus) -> None:
        self._plan = plan
        self._links = links
        self._processes = processes
        self._bus = bus
        self._room: Room | None = None

    @property
    def there(self) -> bool:
        return self._room is not None

    async def ensure(self) -> None:
        plan = self._plan
        route, router = plan.bmc_route, plan.bmc_site.router
        if route is None or router is None:
            await ensure_rules(render_lab(plan), self._processes)  # also when nothing is left of a list there was
            return
        with self._bus.step("BMC router") as step:
            if self._room is None:
                await self._links.remove(LEG)  # of a labd that was killed: the kernel may still be taking it away
                self._room = Room("bmc")
            room = self._room
            leg = Leg(LEG, plan.cluster.bridge, "router", router, gateway=plan.gateway.ip)
            changed = await self._links.ensure_leg(leg, room.path)
            await room.acall(lambda: furnish_leg(leg, plan.bmc))
            changed |= await self._links.ensure_route(route)
            await ensure_rules(render_lab(plan), self._processes)
            await ensure_rules(render_bmcs(plan), self._processes, room.path)
            if not changed:
                step.unchanged()

    def make_socket(self, family: int, kind: int, protocol: int) -> socket.socket:
        """BMCs listen, and fetch their media, where they live."""
        if self._room is not None:
            return self._room.call(lambda: socket.socket(family, kind, protocol))
        return socket.socket(family, kind, protocol)

    def close(self) -> None:
        if self._room is not None:
            self._room.close()
            self._room = None
