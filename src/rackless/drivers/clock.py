"""The real clock."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """`ports.clock.Clock` by this computer's monotonic time."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
