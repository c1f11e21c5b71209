"""The BMCs of a lab as labd runs them: the fleet with the lab's certificate, and faults that a person asked for."""

from __future__ import annotations

import ssl
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from rackless.bmc.core.accounts import Account
from rackless.bmc.core.chassis import Chassis
from rackless.bmc.core.power import Reset
from rackless.bmc.core.sockets import not_of_a_lab
from rackless.bmc.core.start_limit import Starts, default_limit
from rackless.bmc.core.state import BootOverride, When
from rackless.bmc.fault_desk import FaultDesk
from rackless.bmc.fleet import Bmc, BmcState, Fleet
from rackless.bmc.ipmi.sites import Ipmi
from rackless.errors import InputError, LabError
from rackless.events import Bus
from rackless.lab.bmc_network import BmcWiring
from rackless.labd.bmc_records import read_audit, read_log, read_sensors
from rackless.plan.exposure import LOOPBACK, bmc_name
from rackless.plan.model import LabPlan, PlannedServer
from rackless.ports.clock import Clock
from rackless.ports.console import Consoles
from rackless.ports.hypervisor import BootDevice, Hypervisor
from rackless.protocol.messages import BmcInside, BmcSeen, BootTarget, FaultStatus, FaultWish
from rackless.run.paths import LabPaths
from rackless.spec.servers import BmcScheme
from rackless.trust.authority import Use
from rackless.trust.bmc_passwords import secret_of
from rackless.trust.identity import USERNAME, Identity

TARGETS: dict[BootDevice | None, BootTarget] = {
    None: "none",
    BootDevice.DISK: "disk",
    BootDevice.CDROM: "cdrom",
    BootDevice.NETWORK: "network",
    BootDevice.REMOVABLE: "removable",
    BootDevice.SETUP: "setup",
}


class LabBmcs:
    def __init__(
        self,
        plan: LabPlan,
        paths: LabPaths,
        identity: Identity,
        site: BmcWiring,
        hypervisor: Hypervisor,
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
        with self._bus.step("BMCs", BMCs=len(self._plan.servers)) as step:
            if self._fleet is not None:
                if not await self._fleet.ensure([self._bmc(server) for server in self._plan.servers]):
                    step.unchanged()
                return
            fleet = self._make()
            await fleet.start()
            self._fleet = fleet

    def replan(self, plan: LabPlan) -> None:
        """Servers were made or taken away on demand; `ensure` follows."""
        self._plan = plan

    @property
    def running(self) -> bool:
        return self._fleet is not None

    async def stop(self) -> None:
        if self._fleet is not None:
            await self._fleet.stop()
            self._fleet = None

    async def power_returned(self, were_on: Collection[str]) -> None:
        if self._fleet is not None:
            await self._fleet.power_returned(were_on)

    def is_locked(self, server: str) -> bool:
        """Whether the server's BMC has locked the account that labd uses, after wrong passwords."""
        return self._fleet is not None and self._fleet.is_locked(server, USERNAME)

    def observe(self) -> dict[str, BmcState]:
        """The state of each server's BMC; empty while no BMCs run."""
        return {bmc.server: bmc for bmc in self._fleet.observe()} if self._fleet else {}

    def seen(self) -> tuple[BmcSeen, ...]:
        return tuple(self._shown(bmc) for bmc in self.observe().values())

    def inside(self, server: str) -> BmcInside:
        """One BMC's sensors, its event log, and its audit log of changes."""
        chassis = self._chassis(server)
        return BmcInside(
            server,
            sensors=read_sensors(chassis),
            audit=read_audit(self._audit, server, chassis.address),
            log=read_log(chassis.log),
        )

    async def insert(self, server: str, url: str) -> BmcSeen:
        """Have a server's BMC fetch an image and put it into its virtual drive."""
        chassis = self._chassis(server)
        if not url.startswith(("http://", "https://")):
            raise InputError(f"{url} is no URL that a BMC fetches from", hint="give it with http:// or https://")
        await chassis.insert(url, verify=bool(chassis.memory.settings.get("verify_media", True)))
        return self._shown(self.observe()[server])

    async def eject(self, server: str) -> BmcSeen:
        await self._chassis(server).eject()
        return self._shown(self.observe()[server])

    async def set_boot(self, server: str, device: BootTarget, *, once: bool) -> BmcSeen:
        """Set a server's boot override: for its next start, or for every start from now on."""
        wanted = BootOverride(BootDevice(device), When.ONCE if once else When.CONTINUOUS) if device != "none" else None
        await self._chassis(server).update(lambda memory: replace(memory, boot=wanted or BootOverride()))
        return self._shown(self.observe()[server])

    async def press(self, server: str, what: Reset) -> bool:
        """Switch a server's power through its BMC when that has a boot override: only a start by the BMC follows the override.
        False when there is no override or no BMC; then libvirt switches the server."""
        if self._fleet is None or server not in self.observe():
            return False
        chassis = self._fleet.chassis(server)
        if chassis.memory.boot.effective is None:
            return False
        await chassis.look()
        await chassis.reset(what)
        return True

    def _chassis(self, server: str) -> Chassis:
        if self._fleet is None:
            raise _no_bmcs()
        if server not in self.observe():
            known = ", ".join(self.observe())
            raise InputError(f"there is no server {server}", why=f"there is {known}", hint="name one of those")
        return self._fleet.chassis(server)

    def fetches(self, address: str, path: str) -> bool:
        """Whether the BMC at this address fetches media from this path of a URL now."""
        return self._fleet is not None and self._fleet.fetches(address, path)

    def faults(self) -> tuple[FaultStatus, ...]:
        """The faults that a person asked for (`rackless fault`)."""
        return self._desk(self._fleet).list() if self._fleet else ()

    def add_fault(self, wish: FaultWish) -> FaultStatus:
        if self._fleet is None:
            raise _no_bmcs()
        return self._desk(self._fleet).add(wish)

    def clear_faults(self, ids: Collection[int]) -> int:
        return self._desk(self._fleet).clear(ids) if self._fleet else 0

    def _desk(self, fleet: Fleet) -> FaultDesk:
        return FaultDesk(fleet.faults, lambda: (server.name for server in self._plan.servers), self._bus)

    def _make(self) -> Fleet:
        authority = self._identity.authority()
        hosts = dict.fromkeys(str(server.bmc_address) for server in self._plan.places)
        # clients outside the lab use the hypervisor's loopback address, or a name (`rackless expose`)
        hosts |= dict.fromkeys([LOOPBACK, *(bmc_name(server.name, self._plan) for server in self._plan.places)])
        leaf = authority.ensure_leaf("bmc", list(hosts), uses=(Use.SERVER,))
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(leaf.certificate, leaf.key)
        return Fleet(
            [self._bmc(server) for server in self._plan.servers],
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
            audit=self._audit,
            sockets=self._site.make_socket,
            forbids=not_of_a_lab,
            shared=[str(self._plan.gateway.ip)],
        )

    @property
    def _audit(self) -> Path:
        return self._paths.logs / "bmc-audit.jsonl"

    def _shown(self, bmc: BmcState) -> BmcSeen:
        target = TARGETS[bmc.boot.effective]
        power = bmc.power.value if bmc.power is not None else None
        first = None
        if self._fleet is not None and bmc.seen and (state := self._fleet.chassis(bmc.server).present()) is not None:
            first = TARGETS[state.boot_first]
        return BmcSeen(bmc.server, power, bmc.media, target, bmc.boot.when is When.ONCE, first)

    def _bmc(self, server: PlannedServer) -> Bmc:
        own, address = server.bmc, str(server.bmc_address)
        if own is None:
            return Bmc(server.name, address)
        password = self._identity.password(secret_of(server.name) if own.own_password else "bmc")
        return Bmc(
            server.name,
            address,
            port=None if server.bmc_scheme is BmcScheme.IPMI else own.port,
            http=own.http,
            system=own.system,
            account=Account(own.username, password),
            redfish=server.redfish_port is not None,
            ipmi=server.ipmi_port,
        )


def _no_bmcs() -> LabError:
    return LabError("the lab has no BMCs yet", hint="`rackless up --until bmc` makes them")
