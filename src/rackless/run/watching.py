"""What is watched for as long as there is a daemon: one error that nobody expected does not end it. It is told, and begun again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rackless.events import Bus
from rackless.ports.clock import Clock

AGAIN_SECONDS = 30.0


async def go_on(watch: Callable[[], Awaitable[None]], what: str, bus: Bus, clock: Clock) -> None:
    """Until it returns by itself, or is cancelled. The same error in a row is told once."""
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
