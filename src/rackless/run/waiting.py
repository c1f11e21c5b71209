"""Waiting with a deadline: an error says what was waited for, how long, and what was seen last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rackless.errors import GaveUp
from rackless.ports.clock import Clock


async def until(
    look: Callable[[], Awaitable[tuple[bool, str]]],
    *,
    what: str,
    within: float,
    every: float,
    clock: Clock,
    seen: Callable[[str], None] = lambda _: None,
    hint: str = "",
) -> str:
    """Look again and again until `look` says yes; its second value is what it saw, told to `seen` when it changes."""
    deadline = clock.now() + within
    last = ""
    while True:
        ready, now = await look()
        if now != last:
            last = now
            seen(now)
        if ready:
            return now
        if clock.now() >= deadline:
            raise GaveUp(what, within, last, hint=hint)
        await clock.sleep(every)
