"""Time, injected, so that an hour of waiting can be tested in milliseconds."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds that only go forward."""
        ...

    async def sleep(self, seconds: float) -> None: ...
