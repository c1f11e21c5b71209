"""The BMC network of a lab: BMC addresses on a bridge of the lab, or, with `access: routed`, in a network namespace of their own
behind a router."""

from __future__ import annotations

import socket

from rackless.events import Bus
from rackless.lab.firewall import render_bmcs, render_lab
from rackless.plan.model import LabPlan
from rackless.ports.fabric import Leg, Links
from rackless.ports.firewall import Firewall
from rackless.ports.namespaces import Namespaces, Room

LEG = "bmc-up"


class BmcWiring:
    def __init__(self, plan: LabPlan, links: Links, namespaces: Namespaces, firewall: Firewall, bus: Bus) -> None:
        self._plan = plan
        self._links = links
        self._namespaces = namespaces
        self._firewall = firewall
        self._bus = bus
        self._room: Room | None = None
        self._ruled = False

    @property
    def there(self) -> bool:
        return self._room is not None

    @property
    def ruled(self) -> bool:
        """Whether the firewall's rules for the BMCs were written since labd started."""
        return self._ruled

    async def ensure(self) -> None:
        plan = self._plan
        route, router = plan.bmc_route, plan.bmc_site.router
        if route is None or router is None:
            await self._firewall.replace(render_lab(plan))  # also without a list of clients: earlier rules must go
            self._ruled = True
            return
        with self._bus.step("BMC router") as step:
            if self._room is None:
                await self._links.remove(LEG)  # of a labd that was killed: the kernel may still be taking it away
                self._room = self._namespaces.open_room("bmc")
            room = self._room
            leg = Leg(LEG, plan.cluster.bridge, "router", router, gateway=plan.gateway.ip)
            changed = await self._links.ensure_leg(leg, room, plan.bmc)
            changed |= await self._links.ensure_route(route)
            await self._firewall.replace(render_lab(plan))
            await self._firewall.replace(render_bmcs(plan), namespace=room.path)
            self._ruled = True
            if not changed:
                step.unchanged()

    def make_socket(self, family: int, kind: int, protocol: int) -> socket.socket:
        """A socket in the BMCs' network namespace: they listen there, and fetch virtual media from there."""
        if self._room is not None:
            return self._room.call(lambda: self._namespaces.socket(family, kind, protocol))
        return self._namespaces.socket(family, kind, protocol)

    def close(self) -> None:
        if self._room is not None:
            self._room.close()
            self._room = None
