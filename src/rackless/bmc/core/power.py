"""The power and reset buttons of one server: what each does, at once or when it is the server's turn to start.

A start that waits for its turn is on disk before the client is answered, so it also happens when this process dies
meanwhile. The hypervisor's answer tells what a button did; only when it does not is the server observed again. The chassis
has the lock and the memory (`Housing` is what the buttons need of it); this module knows no protocol.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

from rackless.bmc.core import bios, firmware, updates
from rackless.bmc.core.log import Log, LogKind
from rackless.bmc.core.start_limit import Starts
from rackless.bmc.core.state import BmcMemory, BootOverride, When
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.hypervisor import Hypervisor, NoSuchServer, Power, ServerChange, ServerState, Unreachable


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


class StartCause(StrEnum):
    """Why the server started the last time."""

    UNKNOWN = "unknown"
    COMMAND = "command"
    BUTTON = "button"
    WATCHDOG = "watchdog"
    GUEST = "guest"


class PoweredOff(Exception):
    """Asked of a server that is off, and makes sense only when it is on."""


Act = Callable[[], Awaitable[Power | None]]
"""Does something to the server; returns how it is then, None where that is not known."""

_OWN_RESET_SECONDS = 3.0
_AGAIN_SECONDS = 1.0
"""After so long a promised start is tried again when the hypervisor did not answer."""
_POWER = {ServerChange.POWERED_ON: Power.ON, ServerChange.POWERED_OFF: Power.OFF}


class Housing(Protocol):
    """What the buttons sit in: the chassis, with its lock, what it remembers and what it last saw of its server."""

    name: str
    lock: asyncio.Lock
    log: Log
    memory: BmcMemory
    off: asyncio.Event

    @property
    def blind(self) -> bool: ...
    def server(self) -> ServerState: ...
    def present(self) -> ServerState | None: ...
    def saw(self, server: ServerState | None) -> None: ...
    async def look(self) -> ServerState | None: ...
    async def remember(self, memory: BmcMemory) -> None: ...


class ServerPower:
    def __init__(
        self, chassis: Housing, hypervisor: Hypervisor, bus: Bus, *, starts: Starts | None, graceful_seconds: float
    ) -> None:
        self._chassis = chassis
        self._name = chassis.name
        self._hypervisor = hypervisor
        self._bus = bus
        self._starts = starts
        self._graceful_seconds = graceful_seconds
        self._told: list[Power] | None = None
        """What the hypervisor told of the server's power while a button is pressed."""
        self._restarting: asyncio.Task[None] | None = None
        self._in_line: asyncio.Task[None] | None = None
        self._reset_at = float("-inf")
        self._start_at = float("-inf")
        self._told_to_start = False
        """It was told to start, and the hypervisor has not said yet that it did."""
        self.cause = StartCause.UNKNOWN

    @property
    def starting(self) -> bool:
        return self._in_line is not None or self._told_to_start

    @property
    def pressing(self) -> bool:
        return self._told is not None

    def saw(self, server: ServerState | None) -> None:
        off = server is None or server.power is Power.OFF
        if off and self._starts is not None:
            self._starts.stopped(self._name)
        if server is not None and self._chassis.memory.start_promised and not self.starting:
            self._in_line = asyncio.create_task(self._start_in_turn())

    def told(self, change: ServerChange) -> None:
        """What we did ourselves is told to us too, a moment later."""
        now = time.monotonic()
        if change is ServerChange.POWERED_ON and not self._told_to_start and now - self._start_at > _OWN_RESET_SECONDS:
            self.cause = StartCause.BUTTON
        if change is ServerChange.REBOOTED and now - self._reset_at > _OWN_RESET_SECONDS:
            self.cause = StartCause.GUEST
        if self._told is not None and change in _POWER:
            self._told.append(_POWER[change])

    async def press(self, what: Reset) -> None:
        """The caller has the lock."""
        self._forget_restart()
        on = self._chassis.server().power is Power.ON
        if self._in_line is not None and await self._keeps_place(what, on):
            return
        await self._act(lambda: self._press(what, on))

    async def guest_restarted(self) -> None:
        """While something waits for the next start: on metal the firmware would follow it."""
        if time.monotonic() - self._reset_at <= _OWN_RESET_SECONDS:
            return
        async with self._chassis.lock:
            server = self._chassis.present()
            if server is not None and server.power is Power.ON and self._waits_for_start():
                await self._act(self._cycle)

    def close(self) -> None:
        self._forget_restart()
        if self._in_line is not None:
            self._in_line.cancel()

    # inside

    async def _act(self, act: Act) -> None:
        """Do it and know what became of it: what the hypervisor answered, unless it told otherwise meanwhile."""
        chassis, power = self._chassis, None
        told: list[Power] = []
        self._told = told
        try:
            power = await act()
        finally:
            self._told = None
            server = None if chassis.blind else chassis.present()
            if power is None or server is None or not server.lasting or (told and told[-1] is not power):
                with suppress(Unreachable):
                    await chassis.look()
            else:
                chassis.saw(replace(server, power=power) if server.power is not power else server)

    async def _press(self, what: Reset, on: bool) -> Power | None:
        match what:
            case Reset.ON | Reset.FORCE_ON:
                return None if on else await self._start()
            case Reset.FORCE_OFF:
                await self._hypervisor.power_off(self._name)
                return Power.OFF
            case Reset.GRACEFUL_SHUTDOWN:
                if on:
                    await self._hypervisor.shut_down(self._name)
            case Reset.PUSH_POWER_BUTTON:
                if not on:
                    return await self._start()
                await self._hypervisor.shut_down(self._name)
            case Reset.POWER_CYCLE:
                return await self._cycle()
            case Reset.FORCE_RESTART:
                if not on or self._waits_for_start():
                    return await self._cycle()  # the reset button does not change what a running machine starts with
                self._reset_at, self.cause = time.monotonic(), StartCause.COMMAND
                await self._hypervisor.reset(self._name)
            case Reset.GRACEFUL_RESTART:
                if not on:
                    return await self._start()
                await self._hypervisor.shut_down(self._name)
                self._restarting = asyncio.create_task(self._start_when_off())
            case Reset.NMI:
                if not on:
                    raise PoweredOff(self._name)
                await self._hypervisor.interrupt(self._name)
        return None

    def _waits_for_start(self) -> bool:
        """Something that a start must bring about, which a reset inside QEMU does not."""
        server, memory = self._chassis.server(), self._chassis.memory
        if firmware.pending(memory, server):
            return True
        lasting = memory.boot.when is When.CONTINUOUS and memory.boot.effective is server.boot_first
        return memory.boot.effective is not None and not lasting

    async def _start(self) -> Power:
        """Start, at once or when it is this server's turn."""
        if self._starts is None or self._starts.take(self._name):
            await self._start_now()
            return Power.ON
        if self._in_line is None:
            await self._promise(True)
            self._in_line = asyncio.create_task(self._start_in_turn())
        return Power.OFF

    async def _start_now(self) -> None:
        """Start from the device wanted for this start; an override for one start is spent by it."""
        chassis = self._chassis
        boot = chassis.memory.boot
        self._told_to_start, self.cause, self._start_at = True, StartCause.COMMAND, time.monotonic()
        try:
            await self._set_firmware()
            await self._hypervisor.power_on(self._name, boot=boot.effective)
        except BaseException:
            if self._starts is not None:
                self._starts.release(self._name)
            raise
        finally:
            self._told_to_start, self._start_at = False, time.monotonic()
        if self._starts is not None:
            self._starts.started(self._name)
        started = updates.after_start(bios.after_start(chassis.memory))
        memory = replace(firmware.after_start(started), start_promised=False)
        await chassis.remember(replace(memory, boot=BootOverride()) if boot.when is When.ONCE else memory)

    async def _set_firmware(self) -> None:
        memory, server = self._chassis.memory, self._chassis.server()
        if firmware.pending(memory, server):
            await self._hypervisor.set_firmware(self._name, firmware.wished(memory, server))
            await self._chassis.look()

    async def _start_in_turn(self) -> None:
        try:
            while self._chassis.memory.start_promised:
                if self._starts is not None:
                    await self._starts.wait(self._name)
                try:
                    async with self._chassis.lock:
                        await self._act(self._keep_promise)
                except Unreachable:
                    await asyncio.sleep(_AGAIN_SECONDS)
                except asyncio.CancelledError:
                    if self._starts is not None:
                        self._starts.release(self._name)
                    raise
        except RacklessError as error:
            self._bus.tell("server-not-started", subject=f"server/{self._name}", server=self._name, why=str(error))
            self._chassis.log.add(LogKind.CHANGED, f"{self._name} could not be started.", warning=True)
        finally:
            self._in_line = None

    async def _keep_promise(self) -> Power:
        if self._chassis.server().power is Power.ON:  # by other hands meanwhile, who knew of no override
            if self._starts is not None:
                self._starts.release(self._name)
            await self._promise(False)
            return Power.ON
        try:
            await self._start_now()
        except Unreachable:
            raise
        except RacklessError:
            await self._promise(False)
            raise
        return Power.ON

    async def _promise(self, promised: bool) -> None:
        await self._chassis.remember(replace(self._chassis.memory, start_promised=promised))

    async def _keeps_place(self, what: Reset, on: bool) -> bool:
        """The server waits for its turn to start, and another command comes: True when that changes nothing."""
        if not on and what not in (Reset.FORCE_OFF, Reset.GRACEFUL_SHUTDOWN, Reset.PUSH_POWER_BUTTON, Reset.NMI):
            return True
        if what is not Reset.NMI and self._in_line is not None:
            await self._promise(False)
            self._in_line.cancel()
            await asyncio.gather(self._in_line, return_exceptions=True)
        return what is Reset.PUSH_POWER_BUTTON and not on

    async def _cycle(self) -> Power:
        await self._hypervisor.power_off(self._name)
        return await self._start()

    async def _start_when_off(self) -> None:
        """The second half of a graceful restart. A guest that ignores the button is left alone, as on metal."""
        try:
            async with asyncio.timeout(self._graceful_seconds):
                await self._chassis.off.wait()
            async with self._chassis.lock:
                await self._act(self._start)
        except TimeoutError:
            waited = self._graceful_seconds
            self._bus.tell("server-not-shut-down", subject=f"server/{self._name}", server=self._name, seconds=waited)
        except (Unreachable, NoSuchServer) as error:
            self._bus.tell("server-not-restarted", subject=f"server/{self._name}", server=self._name, why=str(error))

    def _forget_restart(self) -> None:
        if self._restarting is not None:
            self._restarting.cancel()
            self._restarting = None
