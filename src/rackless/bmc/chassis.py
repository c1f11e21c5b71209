"""One BMC's view of its server: power, boot override and media, whatever protocol asks.

What can be read is in memory (`server()`, `memory`), kept true by the fleet from the hypervisor's events; reading never
asks the hypervisor and never writes. Everything that changes something runs under one lock. Redfish and IPMI are two
languages for this object, and it knows neither.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from yarl import URL

from rackless.bmc import bios
from rackless.bmc.faults import Faults, Operation, Trouble
from rackless.bmc.log import Kind, Log
from rackless.bmc.media import FetchFailed, MediaShelf
from rackless.bmc.starts import Starts
from rackless.bmc.state import BootOverride, InsertedMedia, JsonFile, Memory, When, load_memory
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.hypervisor import (
    Change,
    Hypervisor,
    NoSuchServer,
    Power,
    ServerState,
    Unreachable,
)


class Reset(StrEnum):
    """What the power and reset buttons can be made to do, in Redfish's words."""

    ON = "On"
    FORCE_ON = "ForceOn"
    FORCE_OFF = "ForceOff"
    GRACEFUL_SHUTDOWN = "GracefulShutdown"
    GRACEFUL_RESTART = "GracefulRestart"
    FORCE_RESTART = "ForceRestart"
    POWER_CYCLE = "PowerCycle"
    NMI = "Nmi"
    PUSH_POWER_BUTTON = "PushPowerButton"


class Cause(StrEnum):
    """Why the server started the last time."""

    UNKNOWN = "unknown"
    COMMAND = "command"
    BUTTON = "button"
    WATCHDOG = "watchdog"
    GUEST = "guest"


class PoweredOff(Exception):
    """Asked of a server that is off, and makes sense only when it is on."""


@dataclass(frozen=True, slots=True)
class Drive:
    """The CD drive as it is: what the hypervisor says is in it, and what we know about that."""

    file: Path | None
    url: str | None
    username: str | None

    @property
    def inserted(self) -> bool:
        return self.file is not None


_OWN_RESET_SECONDS = 3.0


class Chassis:
    def __init__(
        self,
        name: str,
        address: str,
        hypervisor: Hypervisor,
        shelf: MediaShelf,
        file: JsonFile,
        bus: Bus,
        *,
        source: str | None = None,
        starts: Starts | None = None,
        faults: Faults | None = None,
        graceful_seconds: float = 300.0,
    ) -> None:
        self.name = name
        self.address = address
        self.lock = asyncio.Lock()
        self.log = Log()
        self.memory: Memory = load_memory(file)
        self._hypervisor = hypervisor
        self._shelf = shelf
        self._file = file
        self._bus = bus
        self._server: ServerState | None = None
        self._blind = True
        self._looking = asyncio.Lock()
        self._look_again = False
        self.glances = 0
        """How often the server was seen, to know whether a look at all servers is older than one at this."""
        self._off = asyncio.Event()
        self._graceful_seconds = graceful_seconds
        self._source = source
        """The address images are asked for from."""
        self._starts = starts
        self._faults = faults or Faults()
        self._restarting: asyncio.Task[None] | None = None
        self._in_line: asyncio.Task[None] | None = None
        self._reset_at = float("-inf")
        self._start_at = float("-inf")
        self._told_to_start = False
        """It was told to start, and the hypervisor has not said yet that it did."""
        self.cause = Cause.UNKNOWN

    # reading: never asks, never writes

    def server(self) -> ServerState:
        """The server as last seen. Unreachable while we cannot see, NoSuchServer when it is gone."""
        if self._blind:
            raise Unreachable(f"the hypervisor of {self.name} does not answer")
        if self._server is None:
            raise NoSuchServer(f"there is no server {self.name}")
        return self._server

    @property
    def blind(self) -> bool:
        return self._blind

    @property
    def exists(self) -> bool:
        """False only when it was seen that there is no such server."""
        return self._blind or self._server is not None

    def present(self) -> ServerState | None:
        with suppress(NoSuchServer):
            return self.server()
        return None

    @property
    def starting(self) -> bool:
        """It was switched on, and waits for its turn to start."""
        return self._in_line is not None or self._told_to_start

    def drive(self) -> Drive:
        file = self.server().media
        known = self.memory.media
        if file is not None and known is not None and Path(known.file) == file:
            return Drive(file, known.url, known.username)
        return Drive(file, None, None)

    # what the fleet tells us

    def saw(self, server: ServerState | None) -> None:
        self._note_difference(self._server, server)
        self._blind = False
        self._server = server
        self.glances += 1
        if server is None or server.power is Power.OFF:
            self._off.set()
            if self._starts is not None:
                self._starts.stopped(self.name)
        else:
            self._off.clear()

    def lost_sight(self) -> None:
        self._blind = True

    async def look(self) -> None:
        """Ask the hypervisor how the server is. Calls that come while one is under way share the next one."""
        self._look_again = True
        async with self._looking:
            if not self._look_again:
                return
            self._look_again = False
            try:
                self.saw(await self._hypervisor.observe(self.name))
            except Unreachable:
                self.lost_sight()
                raise

    async def changed(self, change: Change) -> None:
        """Something happened to the server, by whoever's hand."""
        self._note_cause(change)
        if not self._knows(change):
            await self.look()
        if change in (Change.POWERED_ON, Change.REBOOTED) and bios.pending(self.memory):
            async with self.lock:
                await self._remember(bios.after_start(self.memory))
        if change is Change.REBOOTED and time.monotonic() - self._reset_at > _OWN_RESET_SECONDS:
            await self._override_reboot()

    # changing: under the lock

    async def reset(self, what: Reset) -> None:
        async with self.lock:
            server = self.server()
            if self._faults.strike(Trouble.STUCK_POWER, self.name, Operation.POWER):
                return
            self._forget_restart()
            on = server.power is Power.ON
            if self._in_line is not None and await self._keeps_place(what, on):
                return
            try:
                await self._press(what, on)
            finally:
                with suppress(Unreachable):
                    await self.look()

    async def update(self, change: Callable[[Memory], Memory]) -> None:
        """Change what is remembered. `change` sees the newest, so that parallel changes are all kept."""
        async with self.lock:
            self.server()
            await self._remember(change(self.memory))

    async def insert(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        verify: bool = True,
    ) -> None:
        """Fetch the image and put it into the drive, whatever was in it. Fetching does not hold the lock."""
        self.server()
        shown, username, password = _credentials(url, username, password)
        if self._faults.strike(Trouble.FAILING_MEDIA, self.name, Operation.MEDIA):
            raise FetchFailed("unreachable", shown, "a fault was asked for")
        slow = self._faults.strike(Trouble.SLOW_DOWNLOAD, self.name, Operation.MEDIA)
        holder = f"{self.name}:{id(asyncio.current_task())}"
        file = await self._shelf.fetch(
            shown, holder, username=username, password=password, verify=verify, source=self._source,
            rate=slow.rate if slow else None,
        )  # fmt: skip
        try:
            async with self.lock:
                before = self.server().media
                await self._hypervisor.insert_media(self.name, file)
                self._shelf.hold(file, self.name)
                await self._remember(replace(self.memory, media=InsertedMedia(shown, str(file), username)))
                await self.look()
                if before is not None and before != file:
                    self._shelf.release(before, self.name)
        finally:
            self._shelf.release(file, holder)

    async def eject(self) -> None:
        async with self.lock:
            before = self.server().media
            await self._hypervisor.eject_media(self.name)
            await self._remember(replace(self.memory, media=None))
            await self.look()
            if before is not None:
                self._shelf.release(before, self.name)

    def close(self) -> None:
        self._forget_restart()
        if self._in_line is not None:
            self._in_line.cancel()

    # inside

    def _note_cause(self, change: Change) -> None:
        """What we did ourselves is told to us too, a moment later."""
        now = time.monotonic()
        if change is Change.POWERED_ON and not self._told_to_start and now - self._start_at > _OWN_RESET_SECONDS:
            self.cause = Cause.BUTTON
        if change is Change.REBOOTED and now - self._reset_at > _OWN_RESET_SECONDS:
            self.cause = Cause.GUEST

    def _knows(self, change: Change) -> bool:
        """Most changes are of our own making and were seen. Every change is told, so the last one told is the truth."""
        wanted = {Change.POWERED_ON: Power.ON, Change.POWERED_OFF: Power.OFF}.get(change)
        server = self._server
        return not self._blind and server is not None and server.power is wanted

    def _note_difference(self, before: ServerState | None, after: ServerState | None) -> None:
        if self.glances == 0 or before == after:
            return
        if before is None or after is None:
            kind, text = (Kind.CREATED, "is there again") if before is None else (Kind.REMOVED, "is gone")
            self.log.add(kind, f"{self.name} {text}.", warning=after is None)
            return
        if before.power is not after.power:
            kind = Kind.POWERED_ON if after.power is Power.ON else Kind.POWERED_OFF
            self.log.add(kind, f"{self.name} was switched {after.power.value}.")
        if before.media != after.media:
            self.log.add(Kind.CHANGED, f"The drive was {'filled' if after.media else 'emptied'}.")

    async def _remember(self, memory: Memory) -> None:
        """On disk first, then in memory."""
        if memory != self.memory:
            await self._file.save(memory.to_json())
            self.memory = memory

    async def _press(self, what: Reset, on: bool) -> None:
        match what:
            case Reset.ON | Reset.FORCE_ON:
                if not on:
                    await self._start()
            case Reset.FORCE_OFF:
                await self._hypervisor.power_off(self.name)
            case Reset.GRACEFUL_SHUTDOWN:
                if on:
                    await self._hypervisor.shut_down(self.name)
            case Reset.PUSH_POWER_BUTTON:
                await (self._hypervisor.shut_down(self.name) if on else self._start())
            case Reset.POWER_CYCLE:
                await self._cycle()
            case Reset.FORCE_RESTART:
                if on and self.memory.boot.effective is None:
                    self._reset_at, self.cause = time.monotonic(), Cause.COMMAND
                    await self._hypervisor.reset(self.name)
                else:  # the reset button does not change the boot order of a running machine
                    await self._cycle()
            case Reset.GRACEFUL_RESTART:
                if on:
                    await self._hypervisor.shut_down(self.name)
                    self._restarting = asyncio.create_task(self._start_when_off())
                else:
                    await self._start()
            case Reset.NMI:
                if not on:
                    raise PoweredOff(self.name)
                await self._hypervisor.interrupt(self.name)

    async def _start(self) -> None:
        """Start, at once or when it is this server's turn."""
        if self._starts is None or self._starts.take(self.name):
            await self._start_now()
        elif self._in_line is None:
            self._in_line = asyncio.create_task(self._start_in_turn(self._starts))

    async def _start_now(self) -> None:
        """Start from the device wanted for this start; an override for one start is spent by it."""
        boot = self.memory.boot
        self._told_to_start, self.cause, self._start_at = True, Cause.COMMAND, time.monotonic()
        try:
            await self._hypervisor.power_on(self.name, boot=boot.effective)
        except BaseException:
            if self._starts is not None:
                self._starts.release(self.name)
            raise
        finally:
            self._told_to_start, self._start_at = False, time.monotonic()
        if self._starts is not None:
            self._starts.started(self.name)
        memory = bios.after_start(self.memory)
        await self._remember(replace(memory, boot=BootOverride()) if boot.when is When.ONCE else memory)

    async def _start_in_turn(self, starts: Starts) -> None:
        try:
            await starts.wait(self.name)
            try:
                async with self.lock:
                    await self._start_now()
                    await self.look()
            except asyncio.CancelledError:
                starts.release(self.name)
                raise
        except RacklessError as error:
            self._bus.warn(f"{self.name} could not be started when it was its turn: {error}")
            self.log.add(Kind.CHANGED, f"{self.name} could not be started.", warning=True)
        finally:
            self._in_line = None

    async def _keeps_place(self, what: Reset, on: bool) -> bool:
        """The server waits for its turn to start, and another command comes: True when that changes nothing."""
        if not on and what not in (Reset.FORCE_OFF, Reset.GRACEFUL_SHUTDOWN, Reset.PUSH_POWER_BUTTON, Reset.NMI):
            return True
        if what is not Reset.NMI and self._in_line is not None:
            self._in_line.cancel()
            await asyncio.gather(self._in_line, return_exceptions=True)
        return what is Reset.PUSH_POWER_BUTTON and not on

    async def _cycle(self) -> None:
        await self._hypervisor.power_off(self.name)
        await self._start()

    async def _start_when_off(self) -> None:
        """The second half of a graceful restart. A guest that ignores the button is left alone, as on metal."""
        try:
            async with asyncio.timeout(self._graceful_seconds):
                await self._off.wait()
            async with self.lock:
                await self._start()
                await self.look()
        except TimeoutError:
            self._bus.warn(f"{self.name} did not shut down when asked to restart")
        except (Unreachable, NoSuchServer) as error:
            self._bus.warn(f"{self.name} could not be started again: {error}")

    async def _override_reboot(self) -> None:
        """The guest restarts by itself while an override waits: on metal its firmware would follow the override."""
        async with self.lock:
            server = self.present()
            boot = self.memory.boot
            if server is None or server.power is Power.OFF or boot.effective is None:
                return
            if boot.when is When.CONTINUOUS and boot.effective is server.boot_first:
                return
            await self._cycle()
            await self.look()

    def _forget_restart(self) -> None:
        if self._restarting is not None:
            self._restarting.cancel()
            self._restarting = None


def _credentials(url: str, username: str | None, password: str | None) -> tuple[str, str | None, str | None]:
    """A URL may carry a password; it must not be read back by everybody who may read."""
    with suppress(ValueError):
        parsed = URL(url)
        if parsed.user is not None:
            return str(parsed.with_user(None)), username or parsed.user, password or parsed.password
    return url, username, password
