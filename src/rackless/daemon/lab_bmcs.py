"""The BMCs of a lab as labd runs them: the fleet with the lab's certificate, and what goes wrong with it on demand."""

from __future__ import annotations

import ssl
from collections.abc import Collection
from typing import Any

from rackless.bmc.accounts import Account
from rackless.bmc.fleet import Bmc, BmcState, Fleet
from rackless.bmc.ipmi.sites import Ipmi
from rackless.bmc.sockets import not_of_a_lab
from rackless.bmc.starts import Starts, default_limit
from rackless.daemon.bmc_site import BmcSite
from rackless.daemon.fault_desk import FaultDesk
from rackless.daemon.identity import USERNAME, Identity
from rackless.drivers.libvirt.hypervisor import LibvirtHypervisor
from rackless.errors import LabError
from rackless.events import Bus, count
from rackless.plan.model import LabPlan
from rackless.ports.clock import Clock
from rackless.ports.console import Consoles
from rackless.run.paths import LabPaths


class LabBmcs:
    def __init__(
        self,
        plan: LabPlan,
        paths: LabPaths,
        identity: Identity,
        site: BmcSite,
        hypervisor: LibvirtHypervisor,
        consoles: Consoles,
        clock: Clock,
        bus: Bus,
    ) -> None:
        self._plan = plan
        self._paths = paths
        self._identity = identity
        self._site = site
        self._hypervisor = hypervisor
        self._consoles = consoles
        self._clock = clock
        self._bus = bus
        self._fleet: Fleet | None = None

    async def ensure(self) -> None:
        with self._bus.step(count(len(self._plan.servers), "BMC")) as step:
            if self._fleet is not None:
                step.unchanged()
                return
            fleet = self._make()
            await fleet.start()
            self._fleet = fleet

    async def stop(self) -> None:
        if self._fleet is not None:
            await self._fleet.stop()
            self._fleet = None

    async def power_returned(self, were_on: Collection[str]) -> None:
        if self._fleet is not None:
            await self._fleet.power_returned(were_on)

    def observe(self) -> dict[str, BmcState]:
        """By server; empty while there are none."""
        return {bmc.server: bmc for bmc in self._fleet.observe()} if self._fleet else {}

    def faults(self) -> list[dict[str, Any]]:
        """What goes wrong because somebody asked for it."""
        return self._desk(self._fleet).list() if self._fleet else []

    def add_fault(self, wish: dict[str, Any]) -> dict[str, Any]:
        if self._fleet is None:
            raise LabError("the lab has no BMCs yet", hint="`rackless up --until bmc` makes them")
        return self._desk(self._fleet).add(wish)

    def clear_faults(self, ids: list[int]) -> int:
        return self._desk(self._fleet).clear(ids) if self._fleet else 0

    def _desk(self, fleet: Fleet) -> FaultDesk:
        return FaultDesk(fleet.faults, lambda: (server.name for server in self._plan.servers), self._bus)

    def _make(self) -> Fleet:
        authority = self._identity.authority()
        leaf = authority.ensure_leaf("bmc", [str(server.bmc_address) for server in self._plan.servers])
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(leaf.certificate, leaf.key)
        return Fleet(
            [Bmc(server.name, str(server.bmc_address)) for server in self._plan.servers],
            self._hypervisor,
            [Account(USERNAME, self._identity.password("bmc"))],
            state=self._paths.bmc,
            media=self._paths.media,
            bus=self._bus,
            tls=tls,
            media_ca=ssl.create_default_context(cafile=authority.certificate),
            ipmi=Ipmi(
                mask=str(self._plan.bmc_site.network.netmask),
                gateway=str(self._plan.bmc_site.network[1]),
                consoles=self._consoles,
            ),
            starts=Starts(default_limit(), self._clock, self._hypervisor.processor_seconds),
            audit=self._paths.logs / "bmc-audit.jsonl",
            sockets=self._site.make_socket,
            forbids=not_of_a_lab,
        )
