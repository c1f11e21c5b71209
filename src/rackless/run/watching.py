"""Watches that last as long as labd: an unexpected error does not end one. The error is told as an event, and the watch begins
again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rackless.events import Bus
from rackless.ports.clock import Clock

AGAIN_SECONDS = 30.0


async def go_on(watch: Callable[[], Awaitable[None]], what: str, bus: Bus, clock: Clock) -> None:
    """Run the watch until it returns or is cancelled, and again after each unexpected error. The same error in a row is told
    once."""
    told = ""
    while True:
        try:
            await watch()
            return
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            if why != told:
                told = why
                bus.tell("watch-failed", what=what, why=why)
            await clock.sleep(AGAIN_SECONDS)
