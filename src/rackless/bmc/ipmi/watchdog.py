"""The watchdog: a timer that the guest must restart in time, or the server is reset.

Counts in tenths of a second. `controller` acts when it runs out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

ACTIONS = ("none", "hard reset", "power down", "power cycle")


@dataclass
class Watchdog:
    run_out: Callable[[int], None]
    """Told the action, when the time is up."""
    warn: Callable[[], None]
    """The non-maskable interrupt before that, where it was asked for."""
    use: int = 0
    actions: int = 0
    pretimeout: int = 0
    expired: int = 0
    initial: int = 0
    was_set: bool = False
    _ends: float = 0.0
    _timers: tuple[asyncio.TimerHandle, ...] = ()

    @property
    def running(self) -> bool:
        return bool(self._timers)

    @property
    def left(self) -> int:
        if not self.running:
            return self.initial
        return max(0, round((self._ends - asyncio.get_running_loop().time()) * 10))

    def set(self, use: int, actions: int, pretimeout: int, clear: int, initial: int) -> None:
        self.use, self.actions, self.pretimeout, self.initial = use, actions, pretimeout, initial
        self.expired &= ~clear
        self.was_set = True
        was_running = self.running
        self.stop()
        if use & 0x40 and was_running:
            self.wind()

    def wind(self) -> None:
        self.stop()
        loop = asyncio.get_running_loop()
        seconds = self.initial / 10
        self._ends = loop.time() + seconds
        timers = [loop.call_later(seconds, self._time_is_up)]
        if self.actions >> 4 & 0x07 == 2 and self.pretimeout < seconds:
            timers.append(loop.call_later(seconds - self.pretimeout, self.warn))
        self._timers = tuple(timers)

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = ()

    def _time_is_up(self) -> None:
        self._timers = ()
        self.expired |= 1 << (self.use & 0x07)
        self.run_out(self.actions & 0x07)
