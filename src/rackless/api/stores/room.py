"""What the store does when etcd is full: etcd refuses every write until somebody compacts its history, gives the freed pages
back and takes back its alarm. That etcd is ours alone, so it is us who do it. Knows etcd's maintenance calls, no objects.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from rackless.api.stores import messages
from rackless.api.stores.port import StoreUnreachable
from rackless.api.stores.rpc import RefusedByEtcd, Unanswered

FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_ENOUGH = 0.9
"""Of the size at which etcd refused a write: below it there is room again. Were it enough that one small write fits, the next
few would fill etcd again, and the API would be ready and not ready by turns."""
_PROBE = b"/rackless-probe"

logger = logging.getLogger(__name__)

Ask = Callable[[str, bytes], Awaitable[bytes]]
AskAll = Callable[[str], Awaitable[list[bytes]]]


class EtcdRoom:
    """Whether etcd takes writes, and the task that makes room when it does not."""

    def __init__(self, ask: Ask, ask_members: AskAll, compact: Callable[[], Awaitable[None]]) -> None:
        self._ask, self._ask_members, self._compact = ask, ask_members, compact
        self._full_size = 0
        self._making: asyncio.Task[None] | None = None
        self._first_round: asyncio.Future[bool] | None = None
        self.problem = ""
        """Why etcd refuses writes; empty while it takes them."""

    def refused(self, why: str) -> None:
        """etcd refused a write for want of room."""
        if not self.problem:
            logger.error("%s", why)
        self.problem = why
        if self._making is None or self._making.done():
            self._first_round = asyncio.get_running_loop().create_future()
            self._making = asyncio.create_task(self._until_room(self._first_round), name="etcd-room")

    async def soon(self) -> bool:
        """Whether there is room after all, once what is reclaimed at once has been: often only the history was large. Who asks
        while etcd is known to be full does not wait.
        """
        return self._first_round is not None and await asyncio.shield(self._first_round)

    async def close(self) -> None:
        if self._making:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)
        if self._first_round and not self._first_round.done():
            self._first_round.set_result(False)

    async def _until_room(self, first_round: asyncio.Future[bool]) -> None:
        pause = FIRST_PAUSE
        while not (made := await self._round()):
            if not first_round.done():
                first_round.set_result(False)
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(2 * pause, _LONGEST_PAUSE)
        if not first_round.done():
            first_round.set_result(made)

    async def _round(self) -> bool:
        try:
            self._full_size = self._full_size or await self._size()
            await self._compact()
            await self._ask_members("Maintenance/Defragment")
            if (size := await self._size()) > _ENOUGH * self._full_size:
                logger.info("etcd has no room yet: %d of %d bytes are in use", size, self._full_size)
                return False
            for full in messages.full_members(await self._ask("Maintenance/Alarm", messages.ALARMS)):
                await self._ask("Maintenance/Alarm", messages.disarm(full))
            await self._ask("KV/Put", messages.put_alone(_PROBE, b"room?"))
        except (StoreUnreachable, Unanswered, RefusedByEtcd, ValueError) as error:
            logger.info("etcd has no room yet: %s", error)
            return False
        self.problem, self._full_size = "", 0
        logger.warning("etcd takes writes again")
        return True

    async def _size(self) -> int:
        return max(map(messages.database_size, await self._ask_members("Maintenance/Status")))
