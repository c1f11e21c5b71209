"""The IPMI side of one BMC: what it remembers beyond the chassis, and what it does on its own time.

Commands act on this object. It reads and changes the server only through the chassis, which Redfish shares, and keeps
what must survive in the chassis's memory. It knows no packets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid5

from rackless.bmc.core import audit
from rackless.bmc.core.accounts import Account, Accounts
from rackless.bmc.core.audit import Audit
from rackless.bmc.core.chassis import Chassis
from rackless.bmc.core.faults import Faults, Operation, Trouble
from rackless.bmc.core.log import LogEntry, LogKind
from rackless.bmc.core.power import Reset, StartCause
from rackless.bmc.core.state import BmcMemory
from rackless.bmc.ipmi import sdr
from rackless.bmc.ipmi.ontime import OnTime
from rackless.bmc.ipmi.rakp import RakpStatus
from rackless.bmc.ipmi.sdr import Discrete
from rackless.bmc.ipmi.sel import SystemEventLog
from rackless.bmc.ipmi.session import IpmiSession, Login, Peer, Privilege
from rackless.bmc.ipmi.suites import KEY_LENGTH, password_key
from rackless.bmc.ipmi.watchdog import Watchdog
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.console import Consoles
from rackless.ports.hypervisor import NoSuchServer, Power, Unreachable

_NAMESPACE = UUID("4f0c2f6e-8c7c-5d0a-8a86-9e4c1d7b6a52")
ROLES = {
    "Administrator": Privilege.ADMINISTRATOR,
    "Operator": Privilege.OPERATOR,
    "ReadOnly": Privilege.USER,
}
MOST_USERS = 16
_WORTH_SAVING = 1.0
_SEL_ENABLED = 0x08
_DO_NOT_LOG = 0x80
_WATCHDOG_ACTIONS = {1: Reset.FORCE_RESTART, 2: Reset.FORCE_OFF, 3: Reset.POWER_CYCLE}
_PATIENCE = 0.5
"""So long a client waits for what it started; after that it is told yes, and a failure is told in the event log."""


@dataclass(frozen=True, slots=True)
class Lan:
    """The BMC's place in the network, as it is told to clients."""

    address: str
    mask: str = "255.255.255.0"
    gateway: str = "0.0.0.0"
    port: int = 623


@dataclass
class BootScratch:
    """Boot parameters that are only kept and read back; the flags themselves are the chassis's boot override."""

    in_progress: int = 0
    clearing: int = 0x08
    acknowledge: bytes = b"\x00\x00"
    initiator: bytes = bytes(9)


class ManagementController:
    def __init__(
        self,
        chassis: Chassis,
        accounts: Accounts,
        bus: Bus,
        *,
        lan: Lan | None = None,
        consoles: Consoles | None = None,
        faults: Faults | None = None,
        audit: Audit | None = None,
        now: Callable[[], float] = lambda: time.monotonic(),
        wall: Callable[[], float] = lambda: time.time(),
    ) -> None:
        self.chassis = chassis
        self.accounts = accounts
        self.lan = lan or Lan(chassis.address)
        self.now = now
        self.wall = wall
        self.boot = BootScratch()
        self._bus = bus
        self.sel = SystemEventLog(chassis.log, wall)
        self.watchdog = Watchdog(self._watchdog_ran_out, lambda: self._spawn_press(Reset.NMI))
        self.enables = _SEL_ENABLED
        self.consoles = consoles
        self.faults = faults or Faults()
        self._audit = audit
        self.lan_in_progress = 0
        self.sol_in_progress = 0
        self._on = OnTime(now)
        self._saved_on = 0.0
        self._guid: UUID | None = None
        self._starting = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._identify_off: asyncio.TimerHandle | None = None
        self.restart: Callable[[float], None] = lambda seconds: None
        """Ends every session after a while, as a BMC that restarts does. Set by whoever serves it."""
        self.review: Callable[[], None] = lambda: None
        """Ends the sessions of users who may not log in any more as they did. Set by whoever serves it."""
        self.emit: Callable[[IpmiSession, int, bytes], None] = lambda session, kind, payload: None
        """Sends a payload by itself. Set by whoever serves it."""
        with suppress(Unreachable, NoSuchServer):
            self._on.note(chassis.server().power is Power.ON)
        chassis.log.listen(self._heard)
        accounts.listen(self._account_changed)

    # letting in

    @property
    def guid(self) -> bytes:
        return self.uuid.bytes[::-1]

    @property
    def uuid(self) -> UUID:
        """The server's; one of our own as long as the server was never seen."""
        if self._guid is None:
            with suppress(Unreachable, NoSuchServer):
                self._guid = self.chassis.server().uuid
        return self._guid or uuid5(_NAMESPACE, self.chassis.name)

    @property
    def group_key(self) -> bytes | None:
        key = bytes.fromhex(self.setting("group_key", ""))
        return key.ljust(KEY_LENGTH, b"\0") if any(key) else None

    def find(self, name: bytes) -> Login | None:
        for user, account in self.users().items():
            if account.username.encode() == name:
                key = password_key(account.password)
                if not self.accounts.admits(account) or key is None or not self.may_use_ipmi(user):
                    return None
                return Login(user, account.username, ROLES[account.role], key)
        return None

    def admits(self, login: Login) -> bool:
        """The account may have changed since it was named."""
        if self.find(login.name.encode()) != login:
            return False
        return not self.faults.strike(Trouble.WRONG_PASSWORD, self.chassis.name, Operation.LOGIN)

    def told(self, name: str, peer: Peer, outcome: RakpStatus) -> None:
        if outcome is RakpStatus.INVALID_CHECK_VALUE:
            self.accounts.failed(name)
        elif outcome is RakpStatus.OK:
            self.accounts.succeeded(name)
        self.audit(name, peer, "login", outcome.name.lower().replace("_", " "), ok=outcome is RakpStatus.OK)

    def _account_changed(self, name: str) -> None:
        self.review()

    def audit(
        self, user: str | None, peer: Peer, action: str, outcome: str, *, ok: bool, details: Mapping[str, str] = {}
    ) -> None:
        if self._audit is not None:
            entry = audit.AuditEntry(
                protocol="ipmi", bmc=self.lan.address, client=peer[0], user=user, action=action, outcome=outcome, ok=ok,
                server=self.chassis.name, details=details,
            )  # fmt: skip
            self._audit.record(entry)

    # reading

    def users(self) -> dict[int, Account]:
        """Accounts by IPMI's number of them. Number 1 has no name, by the specification, and is never enabled."""
        numbered = {int(id) + 1: account for id, account in self.accounts.by_id.items() if id.isdecimal()}
        return {user: account for user, account in sorted(numbered.items()) if user <= MOST_USERS}

    def may_use_ipmi(self, user: int) -> bool:
        return user not in self.setting("barred", [])

    def is_on(self) -> bool:
        """A server that waits for its turn to start is on: that is what was asked, and what comes."""
        on = self.chassis.server().power is Power.ON
        return on or self._starting > 0 or self.chassis.starting

    def on_seconds(self) -> float:
        """How long the server has been on in its life, as far as its BMC knows."""
        return float(self.setting("on_seconds", 0.0)) + self._on.seconds - self._saved_on

    def on_share(self) -> tuple[float, float]:
        """Which part of the time the server was on, and of how many seconds."""
        return self._on.share, self._on.watched

    def states(self, sensor: Discrete) -> int:
        """Bits of the states a sensor is in."""
        if sensor is sdr.WATCHDOG_SENSOR:
            return int(bool(self.watchdog.expired))
        server = self.chassis.server()
        if sensor is sdr.CD_DRIVE:
            return int(server.media is not None)
        return 1 << (0 if self.is_on() else 5)

    @property
    def mac(self) -> bytes:
        """Locally administered, and always the same."""
        return b"\x02" + uuid5(_NAMESPACE, f"mac {self.chassis.name} {self.chassis.address}").bytes[:5]

    def setting(self, name: str, default: Any) -> Any:
        return self.chassis.memory.settings.get("ipmi", {}).get(name, default)

    # changing

    async def keep(self, **changes: Any) -> None:
        def changed(memory: BmcMemory) -> BmcMemory:
            ours = {**memory.settings.get("ipmi", {}), **changes}
            return replace(memory, settings={**memory.settings, "ipmi": ours})

        await self.chassis.update(changed)

    async def press(self, what: Reset) -> None:
        """Press a power button; the client waits a moment for the outcome, not until the server is up."""
        starts = what in (Reset.ON, Reset.POWER_CYCLE)
        task = self.spawn(self._press(what, starts))
        done, _ = await asyncio.wait({task}, timeout=_PATIENCE)
        if done and (error := task.exception()) is not None:
            raise error

    async def _press(self, what: Reset, starts: bool) -> None:
        self._starting += starts
        try:
            await self.chassis.reset(what)
        except RacklessError:
            self.sel.power_failed(what.value)
            raise
        finally:
            self._starting -= starts
        if what in (Reset.FORCE_RESTART, Reset.POWER_CYCLE):  # the server is on before and after: nobody else tells
            self.sel.restarted(what.value)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), RacklessError):
            name = self.chassis.name
            self._bus.tell("ipmi-failed", subject=f"server/{name}", server=name, request="power", why=str(error))

    def _spawn_press(self, what: Reset) -> None:
        self.spawn(self._press(what, what in (Reset.ON, Reset.POWER_CYCLE)))

    def _watchdog_ran_out(self, action: int) -> None:
        if not self.watchdog.use & _DO_NOT_LOG:
            self.sel.watchdog(action)
        if (what := _WATCHDOG_ACTIONS.get(action)) is not None:
            self.spawn(self._watchdog_acts(what))

    async def _watchdog_acts(self, what: Reset) -> None:
        if self.is_on():
            await self._press(what, what is Reset.POWER_CYCLE)
            self.chassis.cause = StartCause.WATCHDOG

    def _heard(self, entry: LogEntry) -> None:
        if entry.kind in (LogKind.POWERED_ON, LogKind.POWERED_OFF):
            self._on.note(entry.kind is LogKind.POWERED_ON)
        if entry.kind is LogKind.POWERED_OFF:
            self.spawn(self._save_on_time())

    async def _save_on_time(self) -> None:
        new = self._on.seconds
        if new - self._saved_on >= _WORTH_SAVING:
            await self.keep(on_seconds=float(self.setting("on_seconds", 0.0)) + new - self._saved_on)
            self._saved_on = new

    def forget(self) -> None:
        """What a BMC forgets when it starts anew."""
        self.watchdog.stop()
        self.boot = BootScratch()
        self.enables, self.lan_in_progress, self.sol_in_progress = _SEL_ENABLED, 0, 0
        self.sel.offset = 0.0

    async def identify(self, seconds: float | None) -> None:
        """Light the lamp for so long; None is until further notice, 0 puts it out."""
        if self._identify_off is not None:
            self._identify_off.cancel()
            self._identify_off = None
        await self._light(seconds is None or seconds > 0)
        if seconds:
            loop = asyncio.get_running_loop()
            self._identify_off = loop.call_later(seconds, lambda: self.spawn(self._light(False)))

    async def _light(self, lit: bool) -> None:
        await self.chassis.update(
            lambda memory: replace(memory, settings={**memory.settings, "locate": lit}),
        )

    @property
    def identifying(self) -> int:
        """0 not, 1 for a while, 2 until further notice."""
        if not self.chassis.memory.settings.get("locate"):
            return 0
        return 1 if self._identify_off is not None else 2

    async def close(self) -> None:
        self.watchdog.stop()
        self.chassis.log.forget(self._heard)
        self.accounts.forget(self._account_changed)
        with suppress(RacklessError):
            await self._save_on_time()
        if self._identify_off is not None:
            self._identify_off.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
