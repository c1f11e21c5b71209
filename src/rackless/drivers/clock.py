"""The real time."""

from __future__ import annotations

import asyncio
import time


class WallClock:
    """`ports.clock.Clock` by the machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
